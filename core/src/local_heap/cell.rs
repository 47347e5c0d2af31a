//! A local heap of a heap in a cell: it may outlive the heap, and is then stale.

use core::alloc::Layout;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;

use crate::base::error::{AllocError, Misuse};
use crate::heap::Heap;
use crate::heap::cell::{CellError, CellRef, Inside};
use crate::local_heap::{HeapRef, LocalHeap};
use crate::platform::Platform;

/// One thread's (worker's, isolate's) handle to the heap in a [`HeapCell`](crate::HeapCell): a [`LocalHeap`] that is used
/// between entering the cell and leaving it. `Send`, but not shared.
///
/// What it caches stays with it when it leaves; if it is dropped, that goes back to the heap. After the heap was ended or
/// reset, [`CellLocal::enter`] is an error until [`CellLocal::renew`].
pub struct CellLocal<C: CellRef> {
    /// None before the first entry. G1: used only inside, and in `generation`: the heap is then alive, and where it was.
    local: Option<ManuallyDrop<LocalHeap<Pinned<C::Platform>>>>,
    generation: usize,
    cell: C,
}

/// The heap in a cell, by address.
struct Pinned<P: Platform>(NonNull<Heap<P>>);

// SAFETY: it stands for a shared reference to a heap, which is `Sync`.
unsafe impl<P: Platform> Send for Pinned<P> {}

// SAFETY: the address never changes.
unsafe impl<P: Platform> HeapRef for Pinned<P> {
    type Platform = P;

    #[inline]
    fn heap(&self) -> &Heap<P> {
        // SAFETY: G1.
        unsafe { self.0.as_ref() }
    }
}

impl<C: CellRef> fmt::Debug for CellLocal<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CellLocal").field("generation", &self.generation).finish_non_exhaustive()
    }
}

impl<C: CellRef> CellLocal<C> {
    /// A handle to the heap that is in the cell now.
    pub fn new(cell: C) -> Self {
        Self { local: None, generation: cell.cell().generation(), cell }
    }

    /// Goes inside: until the result is dropped, the heap is neither ended nor reset.
    ///
    /// # Errors
    /// [`CellError::Stale`]; [`CellError::Ended`] if the heap was ended before the handle was made; [`CellError::Busy`].
    pub fn enter(&mut self) -> Result<Entered<'_, C::Platform>, CellError> {
        // Looked at first, so that a stale handle is in nobody's way.
        if self.cell.cell().generation() != self.generation {
            return Err(CellError::Stale);
        }
        let inside = self.cell.cell().enter()?;
        if inside.generation() != self.generation {
            return Err(CellError::Stale);
        }
        let make = || ManuallyDrop::new(LocalHeap::new(Pinned(NonNull::from(&*inside))));
        let local = self.local.get_or_insert_with(make);
        Ok(Entered { local, inside })
    }

    /// Whether the heap was ended or reset since the handle was made or renewed. If not, it may be a moment later.
    pub fn is_stale(&self) -> bool {
        self.cell.cell().generation() != self.generation
    }

    /// Makes a stale handle one to the heap that is in the cell now. What it cached is gone with its generation.
    pub fn renew(&mut self) {
        if self.is_stale() {
            // Not dropped: that would give slots back which are free already (G1).
            self.local = None;
            self.generation = self.cell.cell().generation();
        }
    }
}

impl<C: CellRef> Drop for CellLocal<C> {
    fn drop(&mut self) {
        let Some(mut local) = self.local.take() else { return };
        // A cell that is busy is about to make this handle stale.
        if let Ok(inside) = self.cell.cell().enter()
            && inside.generation() == self.generation
        {
            // SAFETY: it was taken out, so nobody uses it any more; the heap is that which it was made for (G1).
            unsafe { ManuallyDrop::drop(&mut local) };
        }
    }
}

/// A handle that is inside its cell, until this is dropped: allocates and frees as a [`LocalHeap`] does, and lends the
/// [`Heap`], whose methods of the same names take a lock for each call.
pub struct Entered<'e, P: Platform> {
    local: &'e mut LocalHeap<Pinned<P>>,
    inside: Inside<'e, P>,
}

impl<P: Platform> fmt::Debug for Entered<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entered").field("inside", &self.inside).finish_non_exhaustive()
    }
}

impl<'e, P: Platform> Deref for Entered<'e, P> {
    type Target = Inside<'e, P>;

    fn deref(&self) -> &Inside<'e, P> {
        &self.inside
    }
}

// The local heap is not lent itself: two of them could be exchanged, and one would then outlive its heap (G1).
impl<P: Platform> Entered<'_, P> {
    /// As [`LocalHeap::alloc`].
    ///
    /// # Errors
    /// See [`AllocError`].
    #[inline]
    pub fn alloc(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        self.local.alloc(layout)
    }

    /// As [`LocalHeap::alloc_zeroed`].
    ///
    /// # Errors
    /// As for [`Entered::alloc`].
    #[inline]
    pub fn alloc_zeroed(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        self.local.alloc_zeroed(layout)
    }

    /// As [`LocalHeap::dealloc`].
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub unsafe fn dealloc(&mut self, object: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller keeps the same contract.
        unsafe { self.local.dealloc(object, layout) };
    }

    /// As [`LocalHeap::free`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub unsafe fn free(&mut self, object: NonNull<u8>) -> Result<(), Misuse> {
        // SAFETY: the caller keeps the same contract.
        unsafe { self.local.free(object) }
    }

    /// As [`LocalHeap::realloc`].
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
        // SAFETY: the caller keeps the same contract.
        unsafe { self.local.realloc(object, layout, new_size) }
    }

    /// As [`LocalHeap::flush`].
    pub fn flush(&mut self) {
        self.local.flush();
    }
}
