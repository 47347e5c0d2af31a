//! A place for one heap, whose handles may outlive it: they then get errors.
//!
//! ```text
//!   state:   n threads inside  ──(end, reset: only from n = 0)──▶  EXCLUSIVE  ──▶  0 inside, next generation
//! ```
//!
//! Neither allocation nor free looks at a generation: a handle does once, when it enters.

use core::fmt;
use core::ops::Deref;
use core::ptr::NonNull;

use crate::base::error::{Misuse, MisuseKind};
use crate::base::sync::{AtomicUsize, Ordering, UnsafeCell};
use crate::heap::Heap;
use crate::platform::Platform;

/// The state while the heap is ended or reset. Entries that come meanwhile count for a moment and go again.
const EXCLUSIVE: usize = 1 << (usize::BITS - 1);

/// A heap that is ended or reset by whoever owns it, while other threads still keep handles and pointers: these are errors
/// from then on, never corruption.
///
/// | who decides when a heap ends | how it is kept | handles that are left over |
/// |---|---|---|
/// | a scope | `Heap`, and [`LocalHeap`](crate::LocalHeap) over `&Heap` | do not compile |
/// | the last handle, on whatever thread | `Arc<Heap>` (feature `alloc`) | keep the heap |
/// | its owner, at any moment and from any thread | `HeapCell` | get [`CellError::Stale`] |
///
/// A thread *enters* the cell, allocates and frees as often as it likes, and leaves: entering costs two atomic operations,
/// and an allocation inside nothing more than elsewhere. While a thread is inside, the heap cannot be ended.
///
/// ```
/// # #[cfg(feature = "simulated")]
/// # fn main() -> Result<(), Box<dyn core::error::Error>> {
/// # use core::alloc::Layout;
/// # let platform = meshheap::SimulatedPlatform::new(4096);
/// # let mut options = meshheap::Options::default();
/// # options.arena_bytes = 1 << 20;
/// # let heap = meshheap::Heap::with_options(&platform, options)?;
/// use meshheap::{CellError, CellLocal, HeapCell};
///
/// let tenant = HeapCell::new(heap);
/// let mut local = CellLocal::new(&tenant); // one for each worker
/// let object = {
///     let mut inside = local.enter()?;
///     let object = inside.alloc(Layout::new::<u64>())?;
///     inside.stamp(object)
/// };
/// tenant.reset()?; // the tenant is gone; its memory serves the next one
/// assert_eq!(local.enter().err(), Some(CellError::Stale));
/// local.renew();
/// assert!(local.enter()?.object(object).is_err(), "the pointer is of an earlier generation");
/// drop(tenant.end()?); // all of its memory goes back
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "simulated"))]
/// # fn main() {}
/// ```
pub struct HeapCell<P: Platform> {
    heap: UnsafeCell<Option<Heap<P>>>,
    /// How many threads are inside, and [`EXCLUSIVE`].
    state: AtomicUsize,
    /// Changes whenever the objects of before are gone. Written in the state `EXCLUSIVE`.
    generation: AtomicUsize,
}

// SAFETY: the heap is `Sync`; it is replaced only in the state `EXCLUSIVE`, when nobody is inside.
unsafe impl<P: Platform> Sync for HeapCell<P> {}

impl<P: Platform> fmt::Debug for HeapCell<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeapCell").field("generation", &self.generation()).finish_non_exhaustive()
    }
}

/// Why a heap in a [`HeapCell`] was not entered, ended or reset. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CellError {
    /// The heap was ended or reset since the handle was made: the handle's objects are gone.
    Stale,
    /// The heap was ended.
    Ended,
    /// A thread is inside, or ends or resets the heap just now: try again.
    Busy,
}

impl fmt::Display for CellError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stale => "the heap was ended or reset since the handle was made",
            Self::Ended => "the heap was ended",
            Self::Busy => "another thread is inside the heap, or ends it just now",
        })
    }
}

impl core::error::Error for CellError {}

/// A pointer with the generation of its heap, so that it can be told when its object is gone with the heap.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Stamped {
    object: NonNull<u8>,
    generation: usize,
}

// SAFETY: a pointer and a number; whoever uses the pointer keeps to the contract of what it is used for.
unsafe impl Send for Stamped {}
// SAFETY: as above.
unsafe impl Sync for Stamped {}

impl<P: Platform> HeapCell<P> {
    /// A cell with `heap`.
    pub fn new(heap: Heap<P>) -> Self {
        // From a random start, so that what belongs to another cell is stale here, too, though not for certain.
        #[expect(clippy::cast_possible_truncation, reason = "any number will do")]
        let generation = heap.platform().entropy() as usize;
        Self { heap: UnsafeCell::new(Some(heap)), state: AtomicUsize::new(0), generation: AtomicUsize::new(generation) }
    }

    pub(crate) fn generation(&self) -> usize {
        // Relaxed: only whoever is inside relies on it, and entering has synchronised with the last change.
        self.generation.load(Ordering::Relaxed)
    }

    /// Goes inside without a handle: to look at the heap, to mesh it, or for single allocations.
    ///
    /// # Errors
    /// [`CellError::Ended`], [`CellError::Busy`].
    pub fn enter(&self) -> Result<Inside<'_, P>, CellError> {
        // Acquire: pairs with the Release of `with_heap`; whoever enters sees the heap and the generation that it left.
        if self.state.fetch_add(1, Ordering::Acquire) & EXCLUSIVE != 0 {
            self.leave();
            return Err(CellError::Busy);
        }
        // SAFETY: the count keeps `with_heap` from changing the heap until `Inside` is dropped.
        match self.heap.with(|heap| unsafe { (*heap).as_ref() }) {
            Some(heap) => Ok(Inside { cell: self, heap }),
            None => {
                self.leave();
                Err(CellError::Ended)
            }
        }
    }

    fn leave(&self) {
        // Release: pairs with the Acquire in `with_heap`; what was done inside happened before the heap is ended.
        self.state.fetch_sub(1, Ordering::Release);
    }

    /// Ends the heap and takes it out: handles and stamped pointers are stale from now on. Dropping what is returned gives all
    /// of its memory back, in time proportional to its mappings; [`Heap::leaks`] tells first what is still alive.
    ///
    /// # Errors
    /// [`CellError::Ended`], [`CellError::Busy`].
    pub fn end(&self) -> Result<Heap<P>, CellError> {
        self.with_heap(Option::take)
    }

    /// Frees all objects, as [`Heap::reset`] does; handles and stamped pointers of before are stale from now on.
    ///
    /// # Errors
    /// [`CellError::Ended`], [`CellError::Busy`].
    pub fn reset(&self) -> Result<(), CellError> {
        self.with_heap(|heap| heap.as_mut().map(Heap::reset))
    }

    /// Begins the next generation with what `change` does to the heap while nobody is inside.
    fn with_heap<T>(&self, change: impl FnOnce(&mut Option<Heap<P>>) -> Option<T>) -> Result<T, CellError> {
        // Acquire: pairs with the Release in `leave`. Relaxed if it fails: nothing is done then.
        if self.state.compare_exchange(0, EXCLUSIVE, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return Err(CellError::Busy);
        }
        let next = self.generation().wrapping_add(1);
        self.generation.store(next, Ordering::Relaxed);
        // SAFETY: nobody is inside, and nobody comes in until `EXCLUSIVE` is gone.
        let done = self.heap.with_mut(|heap| change(unsafe { &mut *heap }));
        // Release: pairs with the Acquire in `enter`.
        self.state.fetch_sub(EXCLUSIVE, Ordering::Release);
        done.ok_or(CellError::Ended)
    }
}

/// A thread that is inside a [`HeapCell`], until this is dropped.
pub struct Inside<'c, P: Platform> {
    cell: &'c HeapCell<P>,
    heap: &'c Heap<P>,
}

impl<P: Platform> fmt::Debug for Inside<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inside").field("cell", self.cell).finish_non_exhaustive()
    }
}

impl<P: Platform> Inside<'_, P> {
    pub(crate) fn generation(&self) -> usize {
        self.cell.generation()
    }

    /// `object` with the generation of the heap.
    pub fn stamp(&self, object: NonNull<u8>) -> Stamped {
        Stamped { object, generation: self.generation() }
    }

    /// The pointer that was stamped.
    ///
    /// # Errors
    /// [`MisuseKind::Stale`]: the heap was reset since then, and the object is gone. [`MisuseKind::NotOurs`]: it does not point
    /// into this heap.
    pub fn object(&self, stamped: Stamped) -> Result<NonNull<u8>, Misuse> {
        let kind = if stamped.generation != self.generation() {
            MisuseKind::Stale
        } else if !self.heap.contains(stamped.object) {
            MisuseKind::NotOurs
        } else {
            return Ok(stamped.object);
        };
        Err(Misuse { address: stamped.object.addr().get(), kind })
    }
}

impl<P: Platform> Deref for Inside<'_, P> {
    type Target = Heap<P>;

    fn deref(&self) -> &Heap<P> {
        self.heap
    }
}

impl<P: Platform> Drop for Inside<'_, P> {
    fn drop(&mut self) {
        self.cell.leave();
    }
}

/// A handle that keeps a cell (not its heap) alive: `&HeapCell<P>` or, with the feature `alloc`, `Arc<HeapCell<P>>`.
///
/// # Safety
/// [`CellRef::cell`] must give the same cell at every call, for as long as the handle lives.
pub unsafe trait CellRef {
    /// The heap's platform.
    type Platform: Platform;

    /// The cell.
    fn cell(&self) -> &HeapCell<Self::Platform>;
}

// SAFETY: a reference never changes its referent.
unsafe impl<P: Platform> CellRef for &HeapCell<P> {
    type Platform = P;

    fn cell(&self) -> &HeapCell<P> {
        self
    }
}

#[cfg(feature = "alloc")]
// SAFETY: an `Arc` never changes its referent.
unsafe impl<P: Platform> CellRef for alloc::sync::Arc<HeapCell<P>> {
    type Platform = P;

    fn cell(&self) -> &HeapCell<P> {
        self
    }
}
