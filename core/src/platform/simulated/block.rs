//! A reservation of the simulated platform: memory of the global allocator. See the crate docs for the tour.

use alloc::alloc::{alloc_zeroed, dealloc};
use core::alloc::Layout;
use core::ptr::NonNull;

/// Larger reservations fail, as on a small machine, so that a heap with default sizes falls back to an arena that tests can
/// afford.
const MAX_RESERVE_BYTES: usize = 256 << 20; // 256 MiB

/// One reservation: `bytes` at `base`, inside a larger allocation. The allocation has a small alignment, because the
/// system's allocator then takes zeroed pages from the kernel instead of writing zeros over a whole arena.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) base: NonNull<u8>,
    pub(super) bytes: usize,
    allocation: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a block owns its allocation.
unsafe impl Send for Block {}

impl Block {
    /// Zeroed memory; none if there is not enough.
    pub(super) fn new(bytes: usize, align: usize) -> Option<Self> {
        if bytes > MAX_RESERVE_BYTES {
            return None;
        }
        let layout = Layout::from_size_align(bytes.checked_add(align)?, align_of::<u128>()).ok()?;
        // SAFETY: the layout's size is not zero.
        let allocation = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        // SAFETY: less than `align` bytes, which the allocation is longer than `bytes`.
        let base = unsafe { allocation.add(allocation.align_offset(align)) };
        Some(Self { base, bytes, allocation, layout })
    }

    /// Gives the memory back.
    ///
    /// # Safety
    /// Nothing may use it any more.
    pub(super) unsafe fn free(self) {
        // SAFETY: the allocation was made with this layout, and `self` is gone with it.
        unsafe { dealloc(self.allocation.as_ptr(), self.layout) };
    }
}
