//! [`MeshHeap`]: one heap for the whole process, as a `GlobalAlloc`. See [`process`](crate::process) for how it comes to be.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU8, Ordering};

use meshheap::{AllocError, MeshBudget, MeshStep, Options, Statistics};

use crate::errno::Errno;
use crate::meshing::Meshing;
use crate::process::{HeapCell, LOCAL_HEAP_BYTES, ProcessHeap, SharedHeap, ThreadHeap};

/// The process's heap as its global allocator.
///
/// ```
/// #[global_allocator]
/// static GLOBAL: meshheap_linux::MeshHeap = meshheap_linux::MeshHeap::new();
///
/// assert_eq!("made on the heap".to_owned().len(), 16);
/// assert!(GLOBAL.statistics().is_some_and(|statistics| statistics.taken_bytes > 0));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct MeshHeap {
    meshing: Meshing,
}

impl MeshHeap {
    /// A handle; all handles are the same heap. It is meshed on request only ([`MeshHeap::mesh`]).
    #[must_use]
    pub const fn new() -> Self {
        Self::with_meshing(Meshing::OnRequest)
    }

    /// The same with a heap that is meshed without being asked. The handle through which the heap is made, by the first
    /// allocation, decides.
    ///
    /// ```no_run
    /// use meshheap_linux::{MeshHeap, Meshing};
    ///
    /// #[global_allocator]
    /// static GLOBAL: MeshHeap = MeshHeap::with_meshing(Meshing::Auto);
    /// ```
    #[must_use]
    pub const fn with_meshing(meshing: Meshing) -> Self {
        Self { meshing }
    }

    /// The heap, made if there is none yet.
    fn made(&self) -> Option<&'static SharedHeap> {
        CELL.made().or_else(|| {
            // Relaxed: a race decides between two handles.
            MESHING.store(self.meshing as u8, Ordering::Relaxed);
            Global::heap()
        })
    }

    /// The heap's figures; none if no heap could be made.
    #[must_use]
    pub fn statistics(&self) -> Option<Statistics> {
        Some(self.made()?.statistics())
    }

    /// One step of meshing, beside whatever threads the program has; none if no heap could be made. A program with one thread needs
    /// no write barrier for it; with more, the first step sets one up, by userfaultfd or else a handler for SIGSEGV (see
    /// [`crate::barrier`]), and ends with the reason if the system refuses both. A thread of the step's own then makes it, for which
    /// this one waits; none if the system refuses that thread.
    pub fn mesh(&self, budget: MeshBudget) -> Option<MeshStep> {
        self.made()?;
        CELL.mesh(budget)
    }

    /// Gives all free pages back to the system. Returns how many bytes; none if the system refused.
    #[must_use]
    pub fn purge(&self) -> Option<usize> {
        self.made()?.purge().ok()
    }
}

/// Keys the statics of [`MeshHeap`]'s heap.
struct Global;

static CELL: HeapCell = HeapCell::new();

/// What the handle wishes through which the heap is made.
static MESHING: AtomicU8 = AtomicU8::new(Meshing::OnRequest as u8);

std::thread_local! {
    /// The thread's local heap: without a destructor of its own, so that an access registers nothing and allocates
    /// nothing.
    static LOCAL: Cell<*mut ThreadHeap> = const { Cell::new(ptr::null_mut()) };
}

// SAFETY: the cell is this type's alone; a thread-local without a destructor is the thread's own until its end.
unsafe impl ProcessHeap for Global {
    fn cell() -> &'static HeapCell {
        &CELL
    }

    fn options() -> Options {
        Options { local_heap_bytes: LOCAL_HEAP_BYTES, ..Options::default() }
    }

    fn meshing() -> Meshing {
        // Relaxed: see `MeshHeap::made`.
        Meshing::from_number(MESHING.load(Ordering::Relaxed))
    }

    #[inline]
    fn local_pointer() -> *mut ThreadHeap {
        LOCAL.get()
    }

    fn set_local_pointer(local: *mut ThreadHeap) {
        LOCAL.set(local);
    }
}

/// Does something that may make system calls and take the heap's locks. Keeps errno as it was: callers of C look at it after
/// values were dropped.
fn slowly<T>(call: impl FnOnce() -> T) -> T {
    let before = Errno::last();
    let outcome = CELL.with_locks(call);
    before.restore();
    outcome
}

fn address(object: Result<NonNull<u8>, AllocError>) -> *mut u8 {
    object.map_or(ptr::null_mut(), NonNull::as_ptr)
}

#[cold]
#[inline(never)]
fn alloc_slow(handle: &MeshHeap, layout: Layout) -> *mut u8 {
    slowly(|| {
        // Made here if there is none, by the handle's wish.
        handle.made();
        let object = match Global::local() {
            Some(local) => address(local.alloc(layout)),
            None => Global::heap().map_or(ptr::null_mut(), |heap| address(heap.alloc(layout))),
        };
        CELL.start_thread_if_wanted();
        object
    })
}

/// # Safety
/// As for `dealloc`.
#[cold]
#[inline(never)]
unsafe fn dealloc_slow(object: NonNull<u8>, layout: Layout) {
    slowly(|| match Global::local() {
        // SAFETY: the caller keeps the same contract.
        Some(local) => unsafe { local.dealloc(object, layout) },
        // SAFETY: as above.
        None => Global::heap().into_iter().for_each(|heap| unsafe { heap.dealloc(object, layout) }),
    })
}

/// # Safety
/// As for `realloc`.
#[cold]
#[inline(never)]
unsafe fn realloc_slow(object: NonNull<u8>, layout: Layout, new_size: usize) -> *mut u8 {
    slowly(|| match Global::local() {
        // SAFETY: the caller keeps the same contract.
        Some(local) => address(unsafe { local.realloc(object, layout, new_size) }),
        None => Global::heap().map_or(ptr::null_mut(), |heap| {
            // SAFETY: as above.
            address(unsafe { heap.realloc(object, layout, new_size) })
        }),
    })
}

// SAFETY: objects come from a heap that is never dropped; layouts are kept; nothing unwinds.
unsafe impl GlobalAlloc for MeshHeap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match Global::local_at_hand().and_then(|local| local.alloc_cached(layout)) {
            Some(object) => object.as_ptr(),
            None => alloc_slow(self, layout),
        }
    }

    #[inline]
    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        // SAFETY: by the trait's contract the object is live, so not null.
        let object = unsafe { NonNull::new_unchecked(object) };
        // SAFETY: by the trait's contract the object is live and has this layout.
        if !Global::local_at_hand().is_some_and(|local| unsafe { local.dealloc_cached(object, layout) }) {
            // SAFETY: as above.
            unsafe { dealloc_slow(object, layout) };
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        slowly(|| {
            self.made();
            match Global::local() {
                Some(local) => address(local.alloc_zeroed(layout)),
                None => Global::heap().map_or(ptr::null_mut(), |heap| address(heap.alloc_zeroed(layout))),
            }
        })
    }

    unsafe fn realloc(&self, object: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: by the trait's contract the object is live, so not null.
        let object = unsafe { NonNull::new_unchecked(object) };
        // SAFETY: by the trait's contract the object is live and has this layout.
        match Global::local_at_hand().and_then(|local| unsafe { local.realloc_cached(object, layout, new_size) }) {
            Some(object) => object.as_ptr(),
            // SAFETY: as above.
            None => unsafe { realloc_slow(object, layout, new_size) },
        }
    }
}
