//! The fast path: one thread's (worker's, isolate's) set of shuffle vectors over a shared heap.
//!
//! ```text
//!   alloc:  class of the layout ── pop ──▶ object          dealloc:  class of the layout ── push
//!           vector empty: take the next full one,                    vector full: keep it, take an empty one;
//!                         else refill                                             flush one once they are too many
//! ```
//!
//! Vectors are small, and a class keeps as many full ones as it needs: all vectors together stay below what the heap's options
//! allow. For one more, a class that is used little gives one up (second chance, by a clock hand), to the depot, so that no
//! slot is touched.

#[cfg(any(feature = "allocator-api2", feature = "allocator-api2-04", feature = "nightly"))]
mod allocator_api;
mod bulk;
mod cell;
mod counted;
mod handle;
#[cfg(feature = "alloc")]
mod merged;
mod sampled;
mod stack;
mod vectors;

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;

use crate::base::config::CLASS_COUNT;
use crate::base::error::{AllocError, Misuse};
use crate::base::rng::Rng;
use crate::base::units::SizeClass;
use crate::ds::shuffle_vector::Object;
use crate::ds::size_class::of_layout;
use crate::heap::relief::with_relief;
use crate::heap::{Heap, Located};
use crate::page_heap::Content;
use crate::span::arena::{Arena, class_number};
#[cfg(any(feature = "allocator-api2", feature = "allocator-api2-04", feature = "nightly"))]
pub use allocator_api::LocalRef;
pub use bulk::BulkError;
pub use cell::{CellLocal, Entered};
pub use counted::CountedLocal;
pub use handle::HeapRef;
#[cfg(feature = "alloc")]
pub use merged::{MergedHeap, MergedLocal};
pub use sampled::{Profiler, Sample, SampledLocal, Sampling};
use stack::Stack;
use vectors::Vectors;

/// One thread's handle to a heap: allocation and free without locks for most calls. `Send`, but not shared: every method
/// takes `&mut self`.
///
/// Objects belong to the heap, not to the handle: any handle, and the heap itself, may free them. Dropping the handle gives
/// its cached slots back.
pub struct LocalHeap<H: HeapRef> {
    stacks: [Stack; CLASS_COUNT],
    vectors: [Vectors; CLASS_COUNT],
    /// What the vectors and their slots take: see [`vector_cost`].
    held_bytes: usize,
    /// The class that gives up its vectors next.
    clock_hand: usize,
    rng: Rng,
    heap: H,
}

// SAFETY: the stacks point into vectors that this value owns.
unsafe impl<H: HeapRef + Send> Send for LocalHeap<H> {}

impl<H: HeapRef> fmt::Debug for LocalHeap<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalHeap").field("held_bytes", &self.held_bytes()).finish_non_exhaustive()
    }
}

impl<H: HeapRef> LocalHeap<H> {
    /// A handle to `heap`, without any vectors yet: it takes memory only for the classes that are used through it.
    pub fn new(heap: H) -> Self {
        let rng = heap.heap().arena().new_stream();
        Self {
            stacks: [Stack::NONE; CLASS_COUNT],
            vectors: core::array::from_fn(|_| Vectors::default()),
            held_bytes: 0,
            clock_hand: 0,
            rng,
            heap,
        }
    }

    /// The heap that it allocates from.
    pub fn heap(&self) -> &Heap<H::Platform> {
        self.heap.heap()
    }

    fn arena(&self) -> &Arena<H::Platform> {
        self.heap.heap().arena()
    }

    /// Bytes that this handle keeps for itself at the most: itself, its vectors, and the slots that they can hold. At most
    /// `Options::local_heap_bytes`, or the handle itself if that is more.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes + size_of::<Self>()
    }

    /// An object that holds `layout`, uninitialised. A size of zero gives an object of its own, too.
    ///
    /// O(1) for most calls; a refill looks at a few spans.
    ///
    /// # Errors
    /// See [`AllocError`]; the heap is as before, and the same call may succeed later.
    #[inline]
    pub fn alloc(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        match self.alloc_cached(layout) {
            Some(object) => Ok(object),
            None => self.alloc_uncached(layout),
        }
    }

    /// The same if it takes a few instructions only: the object is small and a slot is at hand. For callers that inline
    /// no more than this, and then call [`LocalHeap::alloc`].
    #[inline]
    pub fn alloc_cached(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        self.stacks[of_layout(layout)?.index()].pop()
    }

    #[cold]
    #[inline(never)]
    fn alloc_uncached(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        self.or_flush(layout.size(), |local| match of_layout(layout) {
            Some(class) => local.alloc_slow(class),
            None => local.heap().alloc_large(layout, Content::Old),
        })
    }

    /// What `attempt` gives, tried once more if it runs out of memory, or of what a budget allows: what this handle keeps may be
    /// just what is missing.
    fn or_flush(
        &mut self,
        wanted: usize,
        attempt: impl Fn(&mut Self) -> Result<NonNull<u8>, AllocError>,
    ) -> Result<NonNull<u8>, AllocError> {
        match attempt(self) {
            Err(AllocError::OutOfMemory | AllocError::OverBudget(_)) => {
                self.flush();
                with_relief(self, Self::heap, wanted, attempt)
            }
            other => other,
        }
    }

    /// An object that holds `layout`, all its bytes zero. For objects beyond 4 KiB, fresh pages are known to be zero and not
    /// touched.
    ///
    /// # Errors
    /// As for [`LocalHeap::alloc`].
    pub fn alloc_zeroed(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        match of_layout(layout) {
            Some(class) if self.arena().cut(class).vector_slots > 0 => {
                let object = self.alloc(layout)?;
                // SAFETY: the object is ours and holds the layout's size.
                unsafe { object.write_bytes(0, layout.size()) };
                Ok(object)
            }
            _ => self.or_flush(layout.size(), |local| local.heap().try_alloc_zeroed(layout)),
        }
    }

    /// Frees an object. No metadata is touched: the class follows from the layout.
    ///
    /// # Safety
    /// `object` must be a live object of this handle's heap, allocated (or last reallocated) with a layout of the same size
    /// and alignment, and not be used afterwards. A second free of the same object is found at the latest when its slot is
    /// released, if the slot was not handed out again meanwhile.
    #[inline]
    pub unsafe fn dealloc(&mut self, object: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller keeps the same contract.
        if !unsafe { self.dealloc_cached(object, layout) } {
            // SAFETY: as above.
            unsafe { self.dealloc_uncached(object, layout) };
        }
    }

    /// The same if it takes a few instructions only: the object is small and there is room for the slot. Else false, and
    /// the object is not freed. For callers that inline no more than this, and then call [`LocalHeap::dealloc`].
    ///
    /// # Safety
    /// As for [`LocalHeap::dealloc`].
    #[inline]
    #[must_use = "the object may not be freed yet"]
    pub unsafe fn dealloc_cached(&mut self, object: NonNull<u8>, layout: Layout) -> bool {
        let Some(class) = of_layout(layout) else { return false };
        debug_assert!(self.heap().is_of_class(object, class), "{object:?} is no object of this heap with {layout:?}");
        self.stacks[class.index()].push(object)
    }

    #[cold]
    #[inline(never)]
    unsafe fn dealloc_uncached(&mut self, object: NonNull<u8>, layout: Layout) {
        match of_layout(layout) {
            Some(class) => {
                debug_assert!(self.heap().is_of_class(object, class), "{object:?} is no object of {layout:?}");
                self.push(class, object);
            }
            // SAFETY: the caller keeps the same contract.
            None => unsafe { self.heap().dealloc(object, layout) },
        }
    }

    #[inline]
    fn push(&mut self, class: SizeClass, object: Object) {
        if !self.stacks[class.index()].push(object) {
            self.dealloc_slow(class, object);
        }
    }

    /// Frees an object whose layout the caller does not know: one byte of the page map tells its class.
    ///
    /// # Errors
    /// Nothing is freed if the pointer is not the start of an object's slot; see [`Misuse`]. That the object is live cannot
    /// be seen here; a double free is found at the latest when the slot is released.
    ///
    /// # Safety
    /// `object` must be a live object, which is not used afterwards, or any pointer but that of a free slot of this heap: a
    /// slot that is freed twice may be handed out twice before the second free is found.
    #[inline]
    pub unsafe fn free(&mut self, object: NonNull<u8>) -> Result<(), Misuse> {
        match self.heap().locate(object)? {
            Located::Small(class) => {
                self.push(class, object);
                Ok(())
            }
            Located::Large => self.heap().free_large(object),
        }
    }

    /// The same if it takes a few instructions only: the object is small, there is room for the slot, and `is_live`, which is
    /// asked when the pointer is known to be the start of a slot, has no objection. Else false, and nothing is freed. For
    /// callers that inline no more than this, and then call [`LocalHeap::free`].
    ///
    /// # Safety
    /// As for [`LocalHeap::free`], if `is_live` says true.
    #[inline]
    #[must_use = "the object may not be freed yet"]
    pub unsafe fn free_cached_if(&mut self, object: NonNull<u8>, is_live: impl FnOnce() -> bool) -> bool {
        match self.heap().locate(object) {
            Ok(Located::Small(class)) => is_live() && self.stacks[class.index()].push(object),
            _ => false,
        }
    }

    /// Makes an object larger or smaller: in place if its slot or its pages allow, else by a copy. The alignment stays.
    ///
    /// # Errors
    /// As for [`LocalHeap::alloc`]; the object is then as it was.
    ///
    /// # Safety
    /// As for [`LocalHeap::dealloc`] with `layout`; on success only the returned pointer may be used.
    pub unsafe fn realloc(
        &mut self,
        object: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Result<NonNull<u8>, AllocError> {
        let new_layout = Layout::from_size_align(new_size, layout.align()).map_err(|_| AllocError::TooLarge)?;
        // SAFETY: the caller keeps the same contract.
        if let Some(resized) = unsafe { self.heap().resize(object, layout, new_layout) } {
            return Ok(resized);
        }
        let moved = self.alloc(new_layout)?;
        let kept = layout.size().min(new_size);
        // SAFETY: both objects hold at least `kept` bytes, and they are two.
        unsafe { moved.copy_from_nonoverlapping(object, kept) };
        // SAFETY: the caller gave the object up.
        unsafe { self.dealloc(object, layout) };
        Ok(moved)
    }

    /// The same if it takes a few instructions and a copy: both sizes are small, and the slot serves the new one or one of its
    /// own is at hand. Else none, and the object is as it was. For callers that inline no more than this, and then call
    /// [`LocalHeap::realloc`].
    ///
    /// # Safety
    /// As for [`LocalHeap::realloc`].
    #[inline]
    pub unsafe fn realloc_cached(
        &mut self,
        object: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Option<NonNull<u8>> {
        let new_layout = Layout::from_size_align(new_size, layout.align()).ok()?;
        let (old, new) = (of_layout(layout)?, of_layout(new_layout)?);
        if old == new {
            return Some(object);
        }
        if self.stacks[old.index()].is_full() {
            return None;
        }
        let moved = self.stacks[new.index()].pop()?;
        // SAFETY: both objects hold at least so many bytes, and they are two.
        unsafe { moved.copy_from_nonoverlapping(object, layout.size().min(new_size)) };
        let pushed = self.stacks[old.index()].push(object);
        debug_assert!(pushed, "there was room");
        Some(moved)
    }

    /// Gives all cached slots and vectors back to the heap, for a thread that will be idle for long.
    pub fn flush(&mut self) {
        for index in 0..CLASS_COUNT {
            self.give_up(class_number(index));
        }
    }
}

impl<H: HeapRef> Drop for LocalHeap<H> {
    fn drop(&mut self) {
        self.flush();
    }
}
