//! Local heaps, for C: one thread's fast path to a heap that it shares with others.
//!
//! Most calls take no lock and a few instructions. An object belongs to its heap: any local heap of it, and `mh_free`, may free
//! it. What local heaps keep for their next allocations counts as live in figures and walks, until they are flushed and
//! `mh_purge` is called.

use core::alloc::Layout;
use core::ffi::{c_int, c_void};
use core::ptr::NonNull;

use core_heap::{AllocError, Heap, LocalHeap};
use meshheap_linux::LinuxPlatform;

use crate::mh_heap::{MhHeap, layout_of, object_or_null};
use crate::process::{allocate_aligned, fail, release};

/// One thread's handle to a heap. No two threads may use it at once.
#[derive(Debug)]
pub struct MhLocal(LocalHeap<&'static Heap<LinuxPlatform>>);

/// A local heap of `heap`, to be given back by [`mh_local_destroy`] before the heap is destroyed. Null, with errno ENOMEM, if
/// there is no memory.
///
/// # Safety
/// `heap` must be a live heap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mh_local_create(heap: *const MhHeap) -> *mut MhLocal {
    let Some(place) = allocate_aligned(size_of::<MhLocal>(), align_of::<MhLocal>()) else {
        return fail(libc::ENOMEM).cast();
    };
    let place = place.cast::<MhLocal>();
    // SAFETY: by the caller's contract the heap lives, and stays until its local heaps are gone.
    let heap = unsafe { &(*heap).0 };
    // SAFETY: allocated above, for this.
    unsafe { place.write(MhLocal(LocalHeap::new(heap))) };
    place.as_ptr()
}

/// Gives a local heap back; its objects live on. Null is ignored.
///
/// # Safety
/// `local` must be null, or come from [`mh_local_create`] and not be used by anybody from now on; its heap must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mh_local_destroy(local: *mut MhLocal) {
    if local.is_null() {
        return;
    }
    // SAFETY: by the caller's contract.
    unsafe { local.drop_in_place() };
    // SAFETY: `mh_local_create` allocated it so.
    unsafe { release(local.cast()) };
}

/// # Safety
/// `local` must be a live local heap that nobody else uses meanwhile.
#[inline]
unsafe fn handle<'a>(local: *mut MhLocal) -> &'a mut LocalHeap<&'static Heap<LinuxPlatform>> {
    // SAFETY: by the caller's contract.
    unsafe { &mut (*local).0 }
}

/// What `request` gives for the layout that C asks for.
#[inline]
fn object_of(
    size: usize,
    align: usize,
    request: impl FnOnce(Layout) -> Result<NonNull<u8>, AllocError>,
) -> *mut c_void {
    object_or_null(layout_of(size, align).and_then(|layout| request(layout).map_err(|_| libc::ENOMEM)))
}

/// An object of `size` bytes at a multiple of `align`, a power of two; 0 stands for 16. Null, with errno ENOMEM or EINVAL, if
/// there is none.
///
/// # Safety
/// `local` must be a live local heap that no other thread uses meanwhile, nor its heap be destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mh_local_alloc(local: *mut MhLocal, size: usize, align: usize) -> *mut c_void {
    // SAFETY: as the caller's.
    let local = unsafe { handle(local) };
    object_of(size, align, |layout| local.alloc(layout))
}

/// The same, all bytes zero.
///
/// # Safety
/// As for [`mh_local_alloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mh_local_alloc_zeroed(local: *mut MhLocal, size: usize, align: usize) -> *mut c_void {
    // SAFETY: as the caller's.
    let local = unsafe { handle(local) };
    object_of(size, align, |layout| local.alloc_zeroed(layout))
}

/// Frees an object of the same heap; null is ignored. Returns 0, or EINVAL if the pointer is not the start of an object.
///
/// # Safety
/// As for [`mh_local_alloc`]. The object must be live; nobody may use it from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mh_local_free(local: *mut MhLocal, object: *mut c_void) -> c_int {
    let Some(object) = NonNull::new(object.cast::<u8>()) else { return 0 };
    // SAFETY: as the caller's.
    let local = unsafe { handle(local) };
    // SAFETY: as the caller's.
    if unsafe { local.free(object) }.is_ok() { 0 } else { libc::EINVAL }
}

/// Frees an object whose size and alignment its owner knows, which takes the fewest instructions; null is ignored.
///
/// # Safety
/// As for [`mh_local_free`]; the object must have been allocated with the same `size` and `align`, and not been reallocated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mh_local_free_sized(local: *mut MhLocal, object: *mut c_void, size: usize, align: usize) {
    let Some(object) = NonNull::new(object.cast::<u8>()) else { return };
    // No object was ever allocated with a wrong layout.
    let Ok(layout) = layout_of(size, align) else { return };
    // SAFETY: as the caller's.
    let local = unsafe { handle(local) };
    // SAFETY: as the caller's.
    unsafe { local.dealloc(object, layout) };
}

/// Makes an object larger or smaller. Null is allocated; an alignment beyond 16 may be lost. Null, with errno ENOMEM, if there
/// is no memory; with errno EINVAL, if the pointer is not the start of an object of this heap. The object is then as it was.
///
/// # Safety
/// As for [`mh_local_free`], if the result is not null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mh_local_realloc(local: *mut MhLocal, object: *mut c_void, size: usize) -> *mut c_void {
    let Some(object) = NonNull::new(object.cast::<u8>()) else {
        // SAFETY: as the caller's.
        return unsafe { mh_local_alloc(local, size, 0) };
    };
    // SAFETY: as the caller's.
    let local = unsafe { handle(local) };
    // SAFETY: as the caller's.
    object_or_null(unsafe { resize(local, object, size) })
}

/// # Safety
/// As for [`mh_local_realloc`].
unsafe fn resize(
    local: &mut LocalHeap<&'static Heap<LinuxPlatform>>,
    object: NonNull<u8>,
    size: usize,
) -> Result<NonNull<u8>, c_int> {
    let layout = layout_of(size, 0)?;
    let usable = local.heap().usable_size_of_live(object).map_err(|_| libc::EINVAL)?;
    // SAFETY: by the caller's contract the object is live.
    if let Some(resized) = unsafe { local.heap().resize_live(object, size) }.map_err(|_| libc::EINVAL)? {
        return Ok(resized);
    }
    let moved = local.alloc(layout).map_err(|_| libc::ENOMEM)?;
    // SAFETY: both objects hold that much, and they are two.
    unsafe { moved.copy_from_nonoverlapping(object, usable.min(size)) };
    // SAFETY: the caller gave the object up.
    unsafe { local.free(object) }.map_err(|_| libc::EINVAL)?;
    Ok(moved)
}

/// Gives back to the heap what a local heap keeps: for a thread that will be idle for long.
///
/// # Safety
/// As for [`mh_local_alloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mh_local_flush(local: *mut MhLocal) {
    // SAFETY: as the caller's.
    unsafe { handle(local) }.flush();
}
