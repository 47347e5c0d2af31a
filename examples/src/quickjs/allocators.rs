//! QuickJS's allocator hook. It says no sizes when it frees or resizes, and asks for an object's usable size without saying
//! whose object it is: so an [`Engine`](super::Engine) enters its heap whenever it calls QuickJS.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};

use libmimalloc_sys as mi;
use meshheap::{Heap, HeapRef};
use meshheap_linux::HybridPlatform;
use rquickjs::allocator::Allocator;

use crate::malloc::Malloc;

thread_local!(static CURRENT: Cell<Option<HeapPointer>> = const { Cell::new(None) });

/// A heap that outlives the allocator: see `Engine`.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeapPointer(pub(super) NonNull<Heap<HybridPlatform>>);

// SAFETY: heaps may be shared between threads.
unsafe impl Send for HeapPointer {}

// SAFETY: it is one heap, which an engine keeps until QuickJS is through with it.
unsafe impl HeapRef for HeapPointer {
    type Platform = HybridPlatform;

    #[inline]
    fn heap(&self) -> &Heap<HybridPlatform> {
        // SAFETY: the engine keeps the heap, and never borrows it mutably.
        unsafe { self.0.as_ref() }
    }
}

/// While it lives, objects are those of one heap.
pub(super) struct Entered(Option<HeapPointer>);

impl Entered {
    pub(super) fn new(heap: Option<HeapPointer>) -> Self {
        Self(CURRENT.replace(heap))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

fn pointer(object: Option<NonNull<u8>>) -> *mut u8 {
    object.map_or(null_mut(), NonNull::as_ptr)
}

// SAFETY: a heap gives each object a slot or pages of its own, of at least the size that was asked for.
unsafe impl Allocator for Malloc<HeapPointer> {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        pointer(self.allocate(size))
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        pointer(count.checked_mul(size).and_then(|bytes| self.allocate_zeroed(bytes)))
    }

    unsafe fn dealloc(&mut self, object: *mut u8) {
        if let Some(object) = NonNull::new(object) {
            // SAFETY: the caller's object is one of this heap.
            unsafe { self.free(object) };
        }
    }

    unsafe fn realloc(&mut self, object: *mut u8, size: usize) -> *mut u8 {
        match NonNull::new(object) {
            // SAFETY: as above.
            Some(object) => pointer(unsafe { self.resize(object, size) }),
            None => self.alloc(size),
        }
    }

    unsafe fn usable_size(object: *mut u8) -> usize {
        let (Some(object), Some(heap)) = (NonNull::new(object), CURRENT.get()) else { return 0 };
        Self::usable_size(heap.heap(), object)
    }
}

unsafe extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn calloc(count: usize, size: usize) -> *mut c_void;
    fn realloc(object: *mut c_void, size: usize) -> *mut c_void;
    fn free(object: *mut c_void);
    fn malloc_usable_size(object: *mut c_void) -> usize;
}

/// The C library's.
pub(super) struct SystemMalloc;

// SAFETY: what C promises of malloc.
unsafe impl Allocator for SystemMalloc {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        // SAFETY: takes a number only.
        unsafe { malloc(size) }.cast()
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        // SAFETY: takes numbers only.
        unsafe { calloc(count, size) }.cast()
    }

    unsafe fn dealloc(&mut self, object: *mut u8) {
        // SAFETY: the caller's object came from here.
        unsafe { free(object.cast()) };
    }

    unsafe fn realloc(&mut self, object: *mut u8, size: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe { realloc(object.cast(), size) }.cast()
    }

    unsafe fn usable_size(object: *mut u8) -> usize {
        // SAFETY: as above.
        unsafe { malloc_usable_size(object.cast()) }
    }
}

/// mimalloc's.
pub(super) struct Mimalloc;

// SAFETY: what mimalloc promises.
unsafe impl Allocator for Mimalloc {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        // SAFETY: takes a number only.
        unsafe { mi::mi_malloc(size) }.cast()
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        // SAFETY: takes numbers only.
        unsafe { mi::mi_calloc(count, size) }.cast()
    }

    unsafe fn dealloc(&mut self, object: *mut u8) {
        // SAFETY: the caller's object came from here.
        unsafe { mi::mi_free(object.cast()) };
    }

    unsafe fn realloc(&mut self, object: *mut u8, size: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe { mi::mi_realloc(object.cast(), size) }.cast()
    }

    unsafe fn usable_size(object: *mut u8) -> usize {
        // SAFETY: as above.
        unsafe { mi::mi_usable_size(object.cast()) }
    }
}
