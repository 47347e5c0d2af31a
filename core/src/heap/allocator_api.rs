//! Collections that live in a heap, by the trait `Allocator` of whoever defines it: features `allocator-api2` (0.2),
//! `allocator-api2-04` (0.4) and `nightly` (`core`'s). Here is what all implementations share, and [`Heap`]'s own;
//! `LocalRef`'s is in `local_heap`.

use core::alloc::Layout;
use core::ptr::{NonNull, without_provenance_mut};

use crate::heap::Heap;
use crate::platform::Platform;

/// Where an allocator's memory comes from.
pub(crate) trait Source {
    /// An object that holds `layout`, zeroed or not; none if there is no memory.
    fn get(&self, layout: Layout, zeroed: bool) -> Option<NonNull<u8>>;

    /// Frees an object.
    ///
    /// # Safety
    /// As for [`Heap::dealloc`].
    unsafe fn put(&self, object: NonNull<u8>, layout: Layout);

    /// `object` made to hold another layout without a copy; none if it has to be copied.
    ///
    /// # Safety
    /// As for [`Heap::realloc`].
    unsafe fn resize(&self, object: NonNull<u8>, old: Layout, new: Layout) -> Option<NonNull<u8>>;
}

/// A block for `layout`. One without bytes takes no memory.
pub(crate) fn allocate(source: &impl Source, layout: Layout, zeroed: bool) -> Option<NonNull<[u8]>> {
    let start = if layout.size() == 0 {
        NonNull::new(without_provenance_mut(layout.align())).expect("no alignment is zero")
    } else {
        source.get(layout, zeroed)?
    };
    Some(NonNull::slice_from_raw_parts(start, layout.size()))
}

/// # Safety
/// As for `Allocator::deallocate`.
pub(crate) unsafe fn deallocate(source: &impl Source, block: NonNull<u8>, layout: Layout) {
    if layout.size() > 0 {
        // SAFETY: the block is an object of the source, by the caller's contract.
        unsafe { source.put(block, layout) };
    }
}

/// Makes a block larger or smaller, where it is if possible; with `zeroed`, bytes that it gains are zero.
///
/// # Safety
/// As for `Allocator::grow_zeroed` and `Allocator::shrink`.
pub(crate) unsafe fn resize(
    source: &impl Source,
    block: NonNull<u8>,
    old: Layout,
    new: Layout,
    zeroed: bool,
) -> Option<NonNull<[u8]>> {
    let stays = old.size() > 0 && new.size() > 0 && block.addr().get().is_multiple_of(new.align());
    // SAFETY: a block with bytes is an object of the source, by the caller's contract.
    if let Some(block) = stays.then(|| unsafe { source.resize(block, old, new) }).flatten() {
        if zeroed && new.size() > old.size() {
            // SAFETY: the block holds the new size now.
            let gained = unsafe { block.add(old.size()) };
            // SAFETY: as above; nobody has seen these bytes yet.
            unsafe { gained.write_bytes(0, new.size() - old.size()) };
        }
        return Some(NonNull::slice_from_raw_parts(block, new.size()));
    }
    let moved = allocate(source, new, zeroed)?;
    // SAFETY: both blocks hold as many bytes, and they are two.
    unsafe { moved.cast::<u8>().copy_from_nonoverlapping(block, old.size().min(new.size())) };
    // SAFETY: the caller gave the block up.
    unsafe { deallocate(source, block, old) };
    Some(moved)
}

impl<P: Platform> Source for Heap<P> {
    fn get(&self, layout: Layout, zeroed: bool) -> Option<NonNull<u8>> {
        if zeroed { self.alloc_zeroed(layout).ok() } else { self.alloc(layout).ok() }
    }

    unsafe fn put(&self, object: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller keeps the same contract.
        unsafe { self.dealloc(object, layout) };
    }

    unsafe fn resize(&self, object: NonNull<u8>, old: Layout, new: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the caller keeps the same contract.
        unsafe { Self::resize(self, object, old, new) }
    }
}

/// Gives the `Allocator` of a module to a [`Source`] whose objects stay valid for as long as it lives, wherever it is moved.
macro_rules! implement_allocator {
    ([$($api:tt)*] [$($generics:tt)*] $source:ty, $($lines:literal)*) => {
        $(#[doc = $lines])*
        // SAFETY: blocks are objects of the heap, which the source keeps alive; moving a source moves no object. A layout that
        // fits a block has its size, as blocks are exactly as long as was asked for.
        unsafe impl<$($generics)*> $($api)*::Allocator for $source {
            fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, $($api)*::AllocError> {
                $crate::heap::allocator_api::allocate(self, layout, false).ok_or($($api)*::AllocError)
            }

            fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, $($api)*::AllocError> {
                $crate::heap::allocator_api::allocate(self, layout, true).ok_or($($api)*::AllocError)
            }

            unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
                // SAFETY: the caller keeps the same contract.
                unsafe { $crate::heap::allocator_api::deallocate(self, block, layout) };
            }

            unsafe fn grow(
                &self,
                block: NonNull<u8>,
                old: Layout,
                new: Layout,
            ) -> Result<NonNull<[u8]>, $($api)*::AllocError> {
                // SAFETY: the caller keeps the same contract.
                let grown = unsafe { $crate::heap::allocator_api::resize(self, block, old, new, false) };
                grown.ok_or($($api)*::AllocError)
            }

            unsafe fn grow_zeroed(
                &self,
                block: NonNull<u8>,
                old: Layout,
                new: Layout,
            ) -> Result<NonNull<[u8]>, $($api)*::AllocError> {
                // SAFETY: the caller keeps the same contract.
                let grown = unsafe { $crate::heap::allocator_api::resize(self, block, old, new, true) };
                grown.ok_or($($api)*::AllocError)
            }

            unsafe fn shrink(
                &self,
                block: NonNull<u8>,
                old: Layout,
                new: Layout,
            ) -> Result<NonNull<[u8]>, $($api)*::AllocError> {
                // SAFETY: the caller keeps the same contract.
                let shrunk = unsafe { $crate::heap::allocator_api::resize(self, block, old, new, false) };
                shrunk.ok_or($($api)*::AllocError)
            }
        }
    };
}

/// Gives all of the `Allocator`s that features ask for to a [`Source`].
macro_rules! implement_allocators {
    ($($source:tt)*) => {
        #[cfg(feature = "allocator-api2")]
        $crate::heap::allocator_api::implement_allocator! { [::allocator_api2::alloc] $($source)* }
        #[cfg(feature = "allocator-api2-04")]
        $crate::heap::allocator_api::implement_allocator! { [::allocator_api2_04::alloc] $($source)* }
        #[cfg(feature = "nightly")]
        $crate::heap::allocator_api::implement_allocator! { [::core::alloc] $($source)* }
    };
}
pub(crate) use {implement_allocator, implement_allocators};

implement_allocators! {
    [P: Platform] Heap<P>,
    "Collections in the heap, as `&Heap<P>`: from any thread, with a lock for each call. See [`crate::LocalRef`] for a faster way."
    ""
    "Growing and shrinking write to objects: not during another thread's [`Heap::mesh_at_safepoint`]."
}
