//! Heaps that became one: a heap that is deleted, while its objects live on (feature `alloc`).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;

use crate::base::error::{AllocError, Misuse, MisuseKind};
use crate::base::sync::{Mutex, Rank};
use crate::heap::Heap;
use crate::local_heap::LocalHeap;
use crate::platform::Platform;

/// A heap and those that were merged into it: what a runtime makes of the heap of a part that ends, when others still hold its
/// objects.
///
/// A merged heap keeps its arena, so that no object moves and no pointer changes; it serves no allocation any more. Frees find
/// their heap by the address. Once all of its objects are freed, [`MergedHeap::drop_empty`] gives it back.
///
/// ```
/// # #[cfg(feature = "simulated")]
/// # fn main() -> Result<(), meshheap::AllocError> {
/// # use core::alloc::Layout;
/// # let platforms = [(); 2].map(|()| meshheap::SimulatedPlatform::new(4096));
/// # let mut options = meshheap::Options::default();
/// # options.arena_bytes = 1 << 20;
/// # let [first, second] = platforms.each_ref().map(|platform| meshheap::Heap::with_options(platform, options));
/// # let (process, tenant) = (first?, second?);
/// let result = tenant.alloc(Layout::new::<[u64; 4]>())?;
/// let mut all = meshheap::MergedHeap::new(process);
/// all.merge(tenant); // the tenant is gone, its result is not
/// let mut local = all.local();
/// // SAFETY: the object is live, has this layout and is not used any more.
/// unsafe { local.dealloc(result, Layout::new::<[u64; 4]>()) };
/// drop(local);
/// assert_eq!(all.drop_empty(), 1);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "simulated"))]
/// # fn main() {}
/// ```
pub struct MergedHeap<P: Platform> {
    heap: Heap<P>,
    /// Boxes stay where they are, and are dropped through `&mut self` only.
    merged: Mutex<Vec<Box<Heap<P>>>>,
}

impl<P: Platform> fmt::Debug for MergedHeap<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MergedHeap").field("heap", &self.heap).finish_non_exhaustive()
    }
}

impl<P: Platform> MergedHeap<P> {
    /// A heap into which others can be merged.
    pub fn new(heap: Heap<P>) -> Self {
        Self { heap, merged: Mutex::new(Rank::Merged, Vec::new()) }
    }

    /// The heap that allocates.
    pub const fn heap(&self) -> &Heap<P> {
        &self.heap
    }

    /// Takes `other` in with all its objects. Any thread may do so, while others use the heap.
    ///
    /// O(heaps merged so far), however many objects there are. What `other` was charged stays charged to its budget until it is
    /// dropped. It holds its address space, metadata and mappings until then.
    pub fn merge(&self, other: Heap<P>) {
        let other = Box::new(other);
        self.merged.lock(self.heap.platform()).push(other);
    }

    /// The heaps that were merged into this one and still hold objects, or did so when [`MergedHeap::drop_empty`] last looked: to
    /// mesh them, to walk them, for statistics.
    pub fn merged(&self) -> Vec<&Heap<P>> {
        let merged = self.merged.lock(self.heap.platform());
        // SAFETY: a box stays where it is and is dropped through `&mut self` only, which outlives `&self`.
        merged.iter().map(|heap| unsafe { NonNull::from(&**heap).as_ref() }).collect()
    }

    /// The heap that `pointer` points into, be it this one or one that was merged. O(heaps merged).
    pub fn owner(&self, pointer: NonNull<u8>) -> Option<&Heap<P>> {
        let is_owner = |heap: &Heap<P>| heap.arena().map().page_of(pointer).is_some();
        if is_owner(&self.heap) {
            return Some(&self.heap);
        }
        let merged = self.merged.lock(self.heap.platform());
        let owner = merged.iter().find(|heap| is_owner(heap))?;
        // SAFETY: as in `merged`.
        Some(unsafe { NonNull::from(&**owner).as_ref() })
    }

    /// Frees an object of any of the heaps.
    ///
    /// # Errors
    /// As for [`Heap::free`]; a pointer into none of the heaps is [`MisuseKind::NotOurs`].
    ///
    /// # Safety
    /// As for [`Heap::free`].
    pub unsafe fn free(&self, object: NonNull<u8>) -> Result<(), Misuse> {
        let misuse = Misuse { address: object.addr().get(), kind: MisuseKind::NotOurs };
        let owner = self.owner(object).ok_or(misuse)?;
        // SAFETY: the caller keeps the same contract.
        unsafe { owner.free(object) }
    }

    /// A handle for the calling thread.
    pub fn local(&self) -> MergedLocal<'_, P> {
        MergedLocal { local: self.heap.local(), all: self }
    }

    /// Drops each merged heap that holds no object any more, and says how many these were. `&mut self` shows that no thread frees
    /// meanwhile.
    ///
    /// O(pages of the merged heaps up to each one's first object).
    pub fn drop_empty(&mut self) -> usize {
        let merged = self.merged.get_mut();
        let before = merged.len();
        merged.retain_mut(|heap| !heap.leaks().is_empty());
        before - merged.len()
    }
}

/// One thread's handle to a [`MergedHeap`]: a [`LocalHeap`] that looks at each object's address before it frees it.
#[derive(Debug)]
pub struct MergedLocal<'m, P: Platform> {
    local: LocalHeap<&'m Heap<P>>,
    all: &'m MergedHeap<P>,
}

impl<P: Platform> MergedLocal<'_, P> {
    /// As [`LocalHeap::alloc`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn alloc(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        self.local.alloc(layout)
    }

    /// As [`LocalHeap::alloc_zeroed`].
    ///
    /// # Errors
    /// As there.
    pub fn alloc_zeroed(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        self.local.alloc_zeroed(layout)
    }

    #[inline]
    fn is_own(&self, object: NonNull<u8>) -> bool {
        self.local.heap().arena().map().page_of(object).is_some()
    }

    /// As [`LocalHeap::dealloc`], for objects of any of the heaps. Those of merged ones take a lock or two.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub unsafe fn dealloc(&mut self, object: NonNull<u8>, layout: Layout) {
        if self.is_own(object) {
            // SAFETY: the caller keeps the same contract.
            unsafe { self.local.dealloc(object, layout) };
        } else {
            // SAFETY: as above.
            unsafe { self.dealloc_merged(object, layout) };
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn dealloc_merged(&self, object: NonNull<u8>, layout: Layout) {
        // A pointer into none of the heaps is reported by the heap itself.
        let owner = self.all.owner(object).unwrap_or(self.all.heap());
        // SAFETY: the caller keeps the same contract.
        unsafe { owner.dealloc(object, layout) };
    }

    /// As [`LocalHeap::free`], for objects of any of the heaps.
    ///
    /// # Errors
    /// As for [`MergedHeap::free`].
    ///
    /// # Safety
    /// As there.
    pub unsafe fn free(&mut self, object: NonNull<u8>) -> Result<(), Misuse> {
        if self.is_own(object) {
            // SAFETY: the caller keeps the same contract.
            unsafe { self.local.free(object) }
        } else {
            // SAFETY: as above.
            unsafe { self.all.free(object) }
        }
    }

    /// As [`LocalHeap::realloc`], for objects of any of the heaps: one of a merged heap moves, as that serves no allocation.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn realloc(
        &mut self,
        object: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Result<NonNull<u8>, AllocError> {
        if self.is_own(object) {
            // SAFETY: the caller keeps the same contract.
            return unsafe { self.local.realloc(object, layout, new_size) };
        }
        let new_layout = Layout::from_size_align(new_size, layout.align()).map_err(|_| AllocError::TooLarge)?;
        let moved = self.alloc(new_layout)?;
        // SAFETY: both objects hold at least as many bytes, and they are two.
        unsafe { moved.copy_from_nonoverlapping(object, layout.size().min(new_size)) };
        // SAFETY: the caller gave the object up.
        unsafe { self.dealloc_merged(object, layout) };
        Ok(moved)
    }

    /// As [`LocalHeap::flush`].
    pub fn flush(&mut self) {
        self.local.flush();
    }
}
