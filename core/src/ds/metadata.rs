//! The metadata pool: storage for shuffle vectors, from a `linked_list_allocator` over pages that the platform gave. It
//! starts empty and grows in steps inside one reserved range, so that what it holds can be told.

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::base::config::METADATA_POOL_STEP_BYTES;

/// The alignment of everything in the pool.
const ALIGN: usize = 16;

/// The pool. Guarded by the lock of rank `Metadata`.
pub(crate) struct MetadataPool {
    heap: linked_list_allocator::Heap,
    start: NonNull<u8>,
    committed: usize,
    reserved: usize,
    used: usize,
}

impl core::fmt::Debug for MetadataPool {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("MetadataPool").field("used", &self.used).field("committed", &self.committed).finish()
    }
}

// SAFETY: the pool owns its memory; the pointers in it are its own.
unsafe impl Send for MetadataPool {}

impl MetadataPool {
    /// A pool in the `reserved` bytes at `start`, none of them touched yet.
    ///
    /// # Safety
    /// The memory must be the pool's alone, aligned to 16 bytes, and outlive it.
    pub(crate) unsafe fn new(start: NonNull<u8>, reserved: usize) -> Self {
        Self { heap: linked_list_allocator::Heap::empty(), start, committed: 0, reserved, used: 0 }
    }

    /// `bytes` bytes, aligned to 16; none if the pool must grow first.
    pub(crate) fn alloc(&mut self, bytes: usize) -> Option<NonNull<u8>> {
        let layout = Layout::from_size_align(bytes, ALIGN).ok()?;
        let memory = self.heap.allocate_first_fit(layout).ok()?;
        self.used += bytes;
        Some(memory)
    }

    /// Takes `bytes` bytes at `memory` back.
    ///
    /// # Safety
    /// They must have come from [`MetadataPool::alloc`] with the same size, and nothing may use them any more.
    pub(crate) unsafe fn free(&mut self, memory: NonNull<u8>, bytes: usize) {
        let layout = Layout::from_size_align(bytes, ALIGN).expect("the layout was valid at `alloc`");
        // SAFETY: by the caller's contract.
        unsafe { self.heap.deallocate(memory, layout) };
        self.used -= bytes;
    }

    /// How many bytes the next growth for `bytes` takes in; none if the range is used up.
    pub(crate) fn next_step(&self, bytes: usize) -> Option<usize> {
        // The list's own bookkeeping takes at most a few words beside the block.
        let step = (bytes + 4 * size_of::<usize>()).next_multiple_of(METADATA_POOL_STEP_BYTES);
        (step <= self.reserved - self.committed).then_some(step)
    }

    /// Takes in the `step` bytes that [`MetadataPool::next_step`] named.
    ///
    /// # Safety
    /// No other growth may have happened since `next_step`.
    pub(crate) unsafe fn grow(&mut self, step: usize) {
        if self.committed == 0 {
            // SAFETY: by the caller's contract and `new`'s, the memory is usable and ours.
            unsafe { self.heap.init(self.start.as_ptr(), step) };
        } else {
            // SAFETY: the new bytes follow the old ones directly.
            unsafe { self.heap.extend(step) };
        }
        self.committed += step;
    }

    /// Bytes of the range that were taken in, and so may hold memory.
    pub(crate) const fn committed(&self) -> usize {
        self.committed
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::MetadataPool;
    use core::ptr::NonNull;
    use std::vec::Vec;

    #[test]
    fn it_grows_in_steps_and_ends_at_its_range() {
        let mut memory = std::vec![0u128; (128 << 10) / 16];
        let start = NonNull::new(memory.as_mut_ptr()).expect("a vector").cast();
        // SAFETY: the vector outlives the pool and is used by nothing else.
        let mut pool = unsafe { MetadataPool::new(start, 128 << 10) };
        assert_eq!(pool.alloc(100), None);
        let mut blocks = Vec::new();
        while let Some(step) = pool.next_step(1000) {
            // SAFETY: the vector's memory is usable.
            unsafe { pool.grow(step) };
            while let Some(block) = pool.alloc(1000) {
                blocks.push(block);
            }
        }
        assert_eq!(pool.committed(), 128 << 10);
        assert!(blocks.len() > 120);
        for block in blocks {
            // SAFETY: each came from `alloc` with this size.
            unsafe { pool.free(block, 1000) };
        }
        assert_eq!(pool.used, 0);
    }
}
