//! Where Lua's objects come from: a local heap of meshheap, or the system's malloc.

use core::alloc::Layout;
use core::ffi::c_void;
use core::ptr::NonNull;

use meshheap::{Heap, LocalHeap};
use meshheap_linux::HybridPlatform;

/// A source of memory that is told each object's size whenever it is resized or freed.
///
/// # Safety
/// An object is valid for reads and writes of its size, aligned to 16 bytes, and apart from all others, until it is freed or
/// resized.
pub unsafe trait Memory {
    /// An object of `size` bytes, uninitialised; none if there is no memory.
    fn allocate(&mut self, size: usize) -> Option<NonNull<u8>>;

    /// Makes an object of `old` bytes hold `new`; the smaller number of bytes stays. None leaves the object as it was.
    ///
    /// # Safety
    /// `object` is a live object of this memory, of `old` bytes. On success only the returned pointer may be used.
    unsafe fn resize(&mut self, object: NonNull<u8>, old: usize, new: usize) -> Option<NonNull<u8>>;

    /// Frees an object.
    ///
    /// # Safety
    /// `object` is a live object of this memory, of `size` bytes, and not used afterwards.
    unsafe fn free(&mut self, object: NonNull<u8>, size: usize);
}

/// What C's `max_align_t` asks of malloc; Lua needs no more.
const ALIGN: usize = 16;

/// One thread's handle to a meshing heap.
#[derive(Debug)]
pub struct HeapMemory<'h> {
    local: LocalHeap<&'h Heap<HybridPlatform>>,
}

impl<'h> HeapMemory<'h> {
    /// A handle to `heap`.
    #[must_use]
    pub fn new(heap: &'h Heap<HybridPlatform>) -> Self {
        Self { local: heap.local() }
    }

    /// Gives cached slots back to the heap, so that its figures count what Lua holds and nothing else.
    pub fn flush(&mut self) {
        self.local.flush();
    }
}

fn layout(size: usize) -> Option<Layout> {
    Layout::from_size_align(size, ALIGN).ok()
}

// SAFETY: the local heap gives each object a slot or pages of its own, aligned as its layout says.
unsafe impl Memory for HeapMemory<'_> {
    fn allocate(&mut self, size: usize) -> Option<NonNull<u8>> {
        self.local.alloc(layout(size)?).ok()
    }

    unsafe fn resize(&mut self, object: NonNull<u8>, old: usize, new: usize) -> Option<NonNull<u8>> {
        // SAFETY: the caller's object was made by this handle, with the layout of `old` bytes.
        unsafe { self.local.realloc(object, layout(old)?, new) }.ok()
    }

    unsafe fn free(&mut self, object: NonNull<u8>, size: usize) {
        let layout = layout(size).expect("an object's layout was valid when it was made");
        // SAFETY: the caller's object was made by this handle, with this layout.
        unsafe { self.local.dealloc(object, layout) };
    }
}

// Declared here because meshheap-linux alone depends on libc, and it has no business with malloc.
unsafe extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn realloc(object: *mut c_void, size: usize) -> *mut c_void;
    fn free(object: *mut c_void);
    #[cfg(target_env = "gnu")]
    fn malloc_trim(pad: usize) -> i32;
}

/// The C library's malloc, realloc and free.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemMemory;

impl SystemMemory {
    /// Asks malloc to give back every page that it can; where the C library has no such call, nothing happens.
    pub fn trim(&mut self) {
        #[cfg(target_env = "gnu")]
        // SAFETY: takes a number only.
        unsafe {
            malloc_trim(0)
        };
    }
}

// SAFETY: what C promises of malloc.
unsafe impl Memory for SystemMemory {
    fn allocate(&mut self, size: usize) -> Option<NonNull<u8>> {
        // SAFETY: takes a number only.
        NonNull::new(unsafe { malloc(size) }.cast())
    }

    unsafe fn resize(&mut self, object: NonNull<u8>, _old: usize, new: usize) -> Option<NonNull<u8>> {
        // SAFETY: the caller's object was made by malloc or realloc.
        NonNull::new(unsafe { realloc(object.as_ptr().cast(), new) }.cast())
    }

    unsafe fn free(&mut self, object: NonNull<u8>, _size: usize) {
        // SAFETY: as above.
        unsafe { free(object.as_ptr().cast()) };
    }
}

/// mimalloc, to compare with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mimalloc;

// SAFETY: what mimalloc promises.
unsafe impl Memory for Mimalloc {
    fn allocate(&mut self, size: usize) -> Option<NonNull<u8>> {
        // SAFETY: takes a number only.
        NonNull::new(unsafe { libmimalloc_sys::mi_malloc(size) }.cast())
    }

    unsafe fn resize(&mut self, object: NonNull<u8>, _old: usize, new: usize) -> Option<NonNull<u8>> {
        // SAFETY: the caller's object was made by mimalloc.
        NonNull::new(unsafe { libmimalloc_sys::mi_realloc(object.as_ptr().cast(), new) }.cast())
    }

    unsafe fn free(&mut self, object: NonNull<u8>, _size: usize) {
        // SAFETY: as above.
        unsafe { libmimalloc_sys::mi_free(object.as_ptr().cast()) };
    }
}
