//! [`MeshHeap`]: one heap for the whole process, as a `GlobalAlloc`. See [`process`](crate::process) for how it comes to be.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::ptr::{self, NonNull};

use meshheap::{AllocError, Options, Statistics};

use crate::process::{HeapCell, LOCAL_HEAP_BYTES, ProcessHeap, ThreadHeap};

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
pub struct MeshHeap(());

impl MeshHeap {
    /// A handle; all handles are the same heap.
    #[must_use]
    pub const fn new() -> Self {
        Self(())
    }

    /// The heap's figures; none if no heap could be made.
    #[must_use]
    pub fn statistics(&self) -> Option<Statistics> {
        Some(Global::heap()?.statistics())
    }

    /// Gives all free pages back to the system. Returns how many bytes; none if the system refused.
    #[must_use]
    pub fn purge(&self) -> Option<usize> {
        Global::heap()?.purge().ok()
    }
}

/// Keys the statics of [`MeshHeap`]'s heap.
struct Global;

static CELL: HeapCell = HeapCell::new();

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

    #[inline]
    fn local_pointer() -> *mut ThreadHeap {
        LOCAL.get()
    }

    fn set_local_pointer(local: *mut ThreadHeap) {
        LOCAL.set(local);
    }
}

fn address(object: Result<NonNull<u8>, AllocError>) -> *mut u8 {
    object.map_or(ptr::null_mut(), NonNull::as_ptr)
}

#[cold]
#[inline(never)]
fn alloc_slow(layout: Layout) -> *mut u8 {
    CELL.with_locks(|| match Global::local() {
        Some(local) => address(local.alloc(layout)),
        None => Global::heap().map_or(ptr::null_mut(), |heap| address(heap.alloc(layout))),
    })
}

/// # Safety
/// As for `dealloc`.
#[cold]
#[inline(never)]
unsafe fn dealloc_slow(object: NonNull<u8>, layout: Layout) {
    CELL.with_locks(|| match Global::local() {
        // SAFETY: the caller keeps the same contract.
        Some(local) => unsafe { local.dealloc(object, layout) },
        // SAFETY: as above.
        None => Global::heap().into_iter().for_each(|heap| unsafe { heap.dealloc(object, layout) }),
    })
}

// SAFETY: objects come from a heap that is never dropped; layouts are kept; nothing unwinds.
unsafe impl GlobalAlloc for MeshHeap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match Global::local_at_hand().and_then(|local| local.alloc_cached(layout)) {
            Some(object) => object.as_ptr(),
            None => alloc_slow(layout),
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
        CELL.with_locks(|| match Global::local() {
            Some(local) => address(local.alloc_zeroed(layout)),
            None => Global::heap().map_or(ptr::null_mut(), |heap| address(heap.alloc_zeroed(layout))),
        })
    }

    unsafe fn realloc(&self, object: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: by the trait's contract the object is live, so not null.
        let object = unsafe { NonNull::new_unchecked(object) };
        CELL.with_locks(|| match Global::local() {
            // SAFETY: by the trait's contract the object is live and has this layout.
            Some(local) => address(unsafe { local.realloc(object, layout, new_size) }),
            None => Global::heap().map_or(ptr::null_mut(), |heap| {
                // SAFETY: as above.
                address(unsafe { heap.realloc(object, layout, new_size) })
            }),
        })
    }
}
