//! The malloc family, with the semantics of the GNU C library.
//!
//! Where its versions differ, as the later ones: `aligned_alloc` refuses an alignment that is no power of two (2.38), while
//! `memalign` rounds it up. Requests beyond `PTRDIFF_MAX` fail with ENOMEM. A size of 0 gives an object of its own, but
//! `realloc(p, 0)` frees.

use core::ffi::{c_int, c_void};
use core::ptr::{self, NonNull};

use crate::misuse;
use crate::process::{allocate, allocate_aligned, allocate_zeroed, fail, release, resize, usable_size};
use crate::settings::page_bytes;

/// `size` bytes, aligned to 16. Null, with errno ENOMEM, if there are none.
#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: usize) -> *mut c_void {
    allocate(size).cast()
}

/// `count * size` bytes of zeros. Null, with errno ENOMEM, if there are none or the product overflows.
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        Some(bytes) => allocate_zeroed(bytes).cast(),
        None => fail(libc::ENOMEM).cast(),
    }
}

/// Frees an object; null is ignored. Keeps errno.
///
/// # Safety
/// `object` must be null or a live object that is not used afterwards. Other pointers are reported where that can be told.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(object: *mut c_void) {
    // SAFETY: as the caller's.
    unsafe { release(object.cast()) };
}

/// The old name of [`free`].
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfree(object: *mut c_void) {
    // SAFETY: as the caller's.
    unsafe { release(object.cast()) };
}

/// [`free`] of C23, for a caller that knows the size. It is not needed, so that a wrong one does no harm.
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(object: *mut c_void, _size: usize) {
    // SAFETY: as the caller's.
    unsafe { release(object.cast()) };
}

/// [`free`] of C23, for a caller that knows alignment and size.
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(object: *mut c_void, _align: usize, _size: usize) {
    // SAFETY: as the caller's.
    unsafe { release(object.cast()) };
}

/// Makes an object larger or smaller; null is allocated, and a size of 0 frees and gives null. Null, with errno ENOMEM, if
/// there is no memory: the object is then as it was.
///
/// # Safety
/// As for [`free`]; if the result is not null, only that may be used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(object: *mut c_void, size: usize) -> *mut c_void {
    let Some(live) = NonNull::new(object.cast::<u8>()) else { return malloc(size) };
    if size == 0 {
        // SAFETY: as the caller's.
        unsafe { release(live.as_ptr()) };
        return ptr::null_mut();
    }
    // SAFETY: as the caller's.
    unsafe { resize(live, size) }.cast()
}

/// [`realloc`] to `count * size` bytes. Null, with errno ENOMEM, if the product overflows.
///
/// # Safety
/// As for [`realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(object: *mut c_void, count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: as the caller's.
        Some(bytes) => unsafe { realloc(object, bytes) },
        None => fail(libc::ENOMEM).cast(),
    }
}

/// Allocates at a multiple of `align`, a power of two.
fn aligned(align: usize, size: usize) -> *mut c_void {
    match allocate_aligned(size, align) {
        Some(object) => object.as_ptr().cast(),
        None => fail(libc::ENOMEM).cast(),
    }
}

/// `size` bytes at a multiple of `align`. Null, with errno EINVAL, if that is no power of two; with errno ENOMEM, if there is no
/// memory.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    if align.is_power_of_two() { aligned(align, size) } else { fail(libc::EINVAL).cast() }
}

/// The same, with `align` rounded up to a power of two; errno EINVAL if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    match align.checked_next_power_of_two() {
        Some(align) => aligned(align, size),
        None => fail(libc::EINVAL).cast(),
    }
}

/// Stores an object of `size` bytes at a multiple of `align`. Returns EINVAL if that is no power of two or no multiple of a
/// pointer's size, ENOMEM if there is no memory; `place` and errno are then as they were.
///
/// # Safety
/// `place` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(place: *mut *mut c_void, align: usize, size: usize) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<*mut c_void>()) {
        return libc::EINVAL;
    }
    let Some(object) = allocate_aligned(size, align) else { return libc::ENOMEM };
    // SAFETY: by the caller's contract.
    unsafe { place.write(object.as_ptr().cast()) };
    0
}

/// `size` bytes at the start of a page.
#[unsafe(no_mangle)]
pub extern "C" fn valloc(size: usize) -> *mut c_void {
    aligned(page_bytes(), size)
}

/// Whole pages that hold `size` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(size: usize) -> *mut c_void {
    match size.checked_next_multiple_of(page_bytes()) {
        Some(bytes) => aligned(page_bytes(), bytes),
        None => fail(libc::ENOMEM).cast(),
    }
}

/// Bytes that an object can hold, all of them its caller's to use; 0 for null.
///
/// # Safety
/// As for [`free`], but the object lives on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(object: *mut c_void) -> usize {
    let Some(object) = NonNull::new(object.cast::<u8>()) else { return 0 };
    usable_size(object).unwrap_or_else(|wrong| {
        misuse::report(wrong);
        0
    })
}
