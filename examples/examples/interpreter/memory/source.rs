//! Where a store's objects come from: a heap or, to compare with, the system's malloc.

use core::alloc::Layout;
use core::ptr::NonNull;

use meshheap::{AllocError, Heap, LocalHeap};
use meshheap_examples::lua::{Memory, SystemMemory};
use meshheap_linux::LinuxPlatform;

#[derive(Debug)]
pub(super) struct Source<'heap> {
    local: LocalHeap<&'heap Heap<LinuxPlatform>>,
    /// The heap serves nothing, and malloc everything.
    is_malloc: bool,
}

impl<'heap> Source<'heap> {
    pub(super) fn heap(heap: &'heap Heap<LinuxPlatform>) -> Self {
        Self { local: heap.local(), is_malloc: false }
    }

    /// The heap stays empty.
    pub(super) fn malloc(heap: &'heap Heap<LinuxPlatform>) -> Self {
        Self { local: heap.local(), is_malloc: true }
    }

    pub(super) fn local(&mut self) -> &mut LocalHeap<&'heap Heap<LinuxPlatform>> {
        &mut self.local
    }

    pub(super) fn the_heap(&self) -> &Heap<LinuxPlatform> {
        self.local.heap()
    }

    pub(super) fn alloc(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        if self.is_malloc {
            SystemMemory.allocate(layout.size()).ok_or(AllocError::OutOfMemory)
        } else {
            self.local.alloc(layout)
        }
    }

    /// # Safety
    /// `object` must be a live object of this source, made with this layout, and not be used afterwards.
    pub(super) unsafe fn dealloc(&mut self, object: NonNull<u8>, layout: Layout) {
        if self.is_malloc {
            // SAFETY: the caller's contract.
            unsafe { SystemMemory.free(object, layout.size()) };
        } else {
            // SAFETY: the caller's contract.
            unsafe { self.local.dealloc(object, layout) };
        }
    }
}
