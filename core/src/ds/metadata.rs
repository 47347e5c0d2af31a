//! The metadata pool: storage for shuffle vectors, from a `linked_list_allocator` over pages that the platform gave. It
//! starts empty and grows in steps inside one reserved range, so that what it holds can be told.
//!
//! In front of it lies a list of freed blocks for each size: with a thousand threads the allocator's own list is so long that
//! a search costs more than all else a thread does. Before the pool grows, the lists go back, so that sizes share memory.

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::base::config::METADATA_POOL_STEP_BYTES;

/// The alignment of everything in the pool.
const ALIGN: usize = 16;

/// Sizes are multiples of this.
const STEP: usize = 64;

/// Lists of freed blocks: up to the longest vector's size.
const LISTS: usize = 72;

/// A freed block on its size's list.
struct FreeBlock {
    next: Option<NonNull<FreeBlock>>,
}

/// The pool. Guarded by the lock of rank `Metadata`.
pub(crate) struct MetadataPool {
    heap: linked_list_allocator::Heap,
    /// Freed blocks of `index * STEP` bytes.
    free: [Option<NonNull<FreeBlock>>; LISTS],
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
        Self { heap: linked_list_allocator::Heap::empty(), free: [None; LISTS], start, committed: 0, reserved, used: 0 }
    }

    /// `bytes` bytes, aligned to 16; none if the pool must grow first. O(1) for sizes that were freed before.
    pub(crate) fn alloc(&mut self, bytes: usize) -> Option<NonNull<u8>> {
        let layout = layout(bytes);
        let memory = self
            .take_freed(layout)
            .or_else(|| self.heap.allocate_first_fit(layout).ok())
            .or_else(|| self.join_freed().then(|| self.heap.allocate_first_fit(layout).ok()).flatten())?;
        self.used += layout.size();
        Some(memory)
    }

    fn take_freed(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        let list = self.free.get_mut(layout.size() / STEP)?;
        let block = (*list)?;
        // SAFETY: blocks on the lists are free and hold what `free` wrote.
        *list = unsafe { block.as_ref() }.next;
        Some(block.cast())
    }

    /// Gives the freed blocks back to the allocator, which joins neighbours. Returns whether there were any.
    fn join_freed(&mut self) -> bool {
        let mut any = false;
        for index in 1..LISTS {
            let layout = layout(index * STEP);
            while let Some(memory) = self.take_freed(layout) {
                any = true;
                // SAFETY: the block came from the allocator with this layout and is free.
                unsafe { self.heap.deallocate(memory, layout) };
            }
        }
        any
    }

    /// Takes `bytes` bytes at `memory` back.
    ///
    /// # Safety
    /// They must have come from [`MetadataPool::alloc`] with the same size, and nothing may use them any more.
    pub(crate) unsafe fn free(&mut self, memory: NonNull<u8>, bytes: usize) {
        let layout = layout(bytes);
        self.used -= layout.size();
        match self.free.get_mut(layout.size() / STEP) {
            Some(list) => {
                let block = memory.cast::<FreeBlock>();
                // SAFETY: the block is ours again, aligned and longer than a link.
                unsafe { block.write(FreeBlock { next: *list }) };
                *list = Some(block);
            }
            // SAFETY: by the caller's contract it came from the allocator.
            None => unsafe { self.heap.deallocate(memory, layout) },
        }
    }

    /// How many bytes the next growth for `bytes` takes in; none if the range is used up.
    pub(crate) fn next_step(&self, bytes: usize) -> Option<usize> {
        // The list's own bookkeeping takes at most a few words beside the block.
        let step = (layout(bytes).size() + 4 * size_of::<usize>()).next_multiple_of(METADATA_POOL_STEP_BYTES);
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

    /// Takes everything back at once, and keeps what was taken in.
    ///
    /// # Safety
    /// Nothing that came from the pool may be used any more, nor be given back.
    pub(crate) unsafe fn restart(&mut self) {
        self.heap = linked_list_allocator::Heap::empty();
        self.free = [None; LISTS];
        self.used = 0;
        if self.committed > 0 {
            // SAFETY: by the caller's contract and `new`'s, the memory that was taken in is ours alone again.
            unsafe { self.heap.init(self.start.as_ptr(), self.committed) };
        }
    }

    /// Bytes of the range that were taken in, and so may hold memory.
    pub(crate) const fn committed(&self) -> usize {
        self.committed
    }
}

/// A block's layout: its size rounded up, so that there are few sizes.
fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes.next_multiple_of(STEP), ALIGN).expect("vectors take some KiB")
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
        // What was freed in small blocks serves large ones, too.
        assert!(pool.alloc(100 << 10).is_some());
    }
}
