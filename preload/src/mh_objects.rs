//! Single objects of a heap, for C: pins, and what nobody freed.

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;

use core_heap::PinError;

use crate::mh_heap::MhHeap;

/// Keeps the physical memory behind an object's addresses what it is, until [`mh_unpin`]: meshing leaves it alone. For memory that
/// is written to by other means than its address, such as devices, direct I/O and registered buffers of `io_uring`. An object
/// must be unpinned before it is freed or reallocated. Returns 0; EINVAL, if the pointer is no object of this heap; EALREADY, if
/// it is pinned; ENOMEM, if there is no memory to note it.
///
/// # Safety
/// `heap` must be a live heap. Not to be called by a signal handler that may have interrupted a step of meshing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mh_pin(heap: *const MhHeap, object: *const c_void) -> c_int {
    let Some(object) = NonNull::new(object.cast_mut().cast::<u8>()) else { return libc::EINVAL };
    // SAFETY: by the caller's contract.
    match unsafe { &(*heap).0 }.pin(object) {
        Ok(()) => 0,
        Err(PinError::AlreadyPinned) => libc::EALREADY,
        Err(PinError::Platform(_)) => libc::ENOMEM,
        Err(_) => libc::EINVAL,
    }
}

/// Ends what [`mh_pin`] began. Returns 0, or EINVAL if the pointer is no pinned object of this heap.
///
/// # Safety
/// As for [`mh_pin`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mh_unpin(heap: *const MhHeap, object: *const c_void) -> c_int {
    let Some(object) = NonNull::new(object.cast_mut().cast::<u8>()) else { return libc::EINVAL };
    // SAFETY: by the caller's contract.
    if unsafe { &(*heap).0 }.unpin(object).is_ok() { 0 } else { libc::EINVAL }
}

/// Calls `see` with `context` and each object of the heap that nobody freed, with the bytes that it holds, in the order of
/// addresses; `see` may be null. Returns how many there are. For a heap that is about to be destroyed: what local heaps keep for
/// their next allocations would look alive.
///
/// # Safety
/// `heap` must be a live heap that has no local heaps any more. Nobody may use it until the call returns: `see` may only look at
/// the object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mh_leaks(
    heap: *mut MhHeap,
    see: Option<extern "C" fn(context: *mut c_void, object: *const c_void, bytes: usize)>,
    context: *mut c_void,
) -> usize {
    // SAFETY: by the caller's contract nobody else uses it.
    let leaks = unsafe { &mut (*heap).0 }.leaks();
    leaks
        .objects()
        .inspect(|object| {
            if let Some(see) = see {
                see(context, object.start.as_ptr().cast(), object.size);
            }
        })
        .count()
}
