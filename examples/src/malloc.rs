//! A local heap as C libraries see memory: objects whose size the library does not say when it resizes or frees them.

use core::alloc::Layout;
use core::ptr::NonNull;

use meshheap::{Heap, HeapRef, LocalHeap};

/// What C's `max_align_t` asks of malloc.
const ALIGN: usize = 16;

/// A thread's handle to a heap, with the functions of malloc.
#[derive(Debug)]
pub struct Malloc<H: HeapRef> {
    local: LocalHeap<H>,
    /// Calls that made an object or made one larger.
    allocations: usize,
}

impl<H: HeapRef> Malloc<H> {
    /// A handle to `heap`.
    pub fn new(heap: H) -> Self {
        Self { local: LocalHeap::new(heap), allocations: 0 }
    }

    /// The heap.
    pub fn heap(&self) -> &Heap<H::Platform> {
        self.local.heap()
    }

    /// Calls that made an object or resized one, so far.
    pub const fn allocations(&self) -> usize {
        self.allocations
    }

    /// Gives cached slots back to the heap, so that its figures count what is in use and nothing else.
    pub fn flush(&mut self) {
        self.local.flush();
    }

    /// An object of `size` bytes, uninitialised; none if there is no memory.
    #[inline]
    pub fn allocate(&mut self, size: usize) -> Option<NonNull<u8>> {
        self.allocations += 1;
        self.local.alloc(Layout::from_size_align(size, ALIGN).ok()?).ok()
    }

    /// The same with all bytes zero.
    #[inline]
    pub fn allocate_zeroed(&mut self, size: usize) -> Option<NonNull<u8>> {
        self.allocations += 1;
        self.local.alloc_zeroed(Layout::from_size_align(size, ALIGN).ok()?).ok()
    }

    /// Bytes that an object can really hold; 0 for what is none.
    #[inline]
    pub fn usable_size(heap: &Heap<H::Platform>, object: NonNull<u8>) -> usize {
        match heap.slot_size_at(object) {
            Some(size) => size,
            None => heap.usable_size_of_live(object).unwrap_or(0),
        }
    }

    /// Makes an object hold `size` bytes; the smaller number of bytes stays. None leaves it as it was.
    ///
    /// # Safety
    /// `object` is a live object of this heap, made here or by another `Malloc`. On success only the returned pointer may be
    /// used.
    #[inline]
    pub unsafe fn resize(&mut self, object: NonNull<u8>, size: usize) -> Option<NonNull<u8>> {
        self.allocations += 1;
        match self.heap().slot_size_at(object) {
            // It serves, and wastes less than half of its slot.
            Some(usable) if usable / 2 < size && size <= usable => Some(object),
            // SAFETY: the caller keeps the same contract; so many bytes are the object's.
            Some(usable) => unsafe { self.move_object(object, usable, size) },
            // SAFETY: the caller keeps the same contract.
            None => unsafe { self.resize_large(object, size) },
        }
    }

    /// # Safety
    /// As for [`Malloc::resize`]; the object has no less than `usable` bytes.
    #[inline(never)]
    unsafe fn move_object(&mut self, object: NonNull<u8>, usable: usize, size: usize) -> Option<NonNull<u8>> {
        let moved = self.local.alloc(Layout::from_size_align(size, ALIGN).ok()?).ok()?;
        // SAFETY: both objects hold at least so many bytes, and they are two.
        unsafe { moved.copy_from_nonoverlapping(object, usable.min(size)) };
        // SAFETY: the caller gave the object up.
        unsafe { self.free(object) };
        Some(moved)
    }

    /// # Safety
    /// As for [`Malloc::resize`].
    #[cold]
    unsafe fn resize_large(&mut self, object: NonNull<u8>, size: usize) -> Option<NonNull<u8>> {
        // SAFETY: the caller keeps the same contract.
        if let Some(resized) = unsafe { self.heap().resize_live(object, size) }.ok()? {
            return Some(resized);
        }
        let usable = self.heap().usable_size_of_live(object).ok()?;
        // SAFETY: as above; so many bytes are the object's.
        unsafe { self.move_object(object, usable, size) }
    }

    /// Frees an object.
    ///
    /// # Safety
    /// `object` is a live object of this heap, and not used afterwards.
    #[inline]
    pub unsafe fn free(&mut self, object: NonNull<u8>) {
        let slot = self.heap().slot_size_at(object);
        if let Some(layout) = slot.and_then(|size| Layout::from_size_align(size, ALIGN).ok()) {
            // SAFETY: the object is live, so it may be freed with its slot's size.
            unsafe { self.local.dealloc(object, layout) };
        } else {
            // SAFETY: the caller keeps the same contract.
            let freed = unsafe { self.local.free(object) };
            debug_assert!(freed.is_ok(), "{freed:?}");
        }
    }
}
