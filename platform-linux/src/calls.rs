//! System calls that the C library makes points of cancellation, made without it: a thread that is cancelled inside one of its
//! functions unwinds through the heap, and leaves locks held that nobody will ever give back.

use core::ffi::{CStr, c_int, c_long};
use core::ptr;
use core::sync::atomic::AtomicU32;

use crate::errno::{Errno, retry};

/// A time as these system calls take it, also where the C library's own has wider fields.
#[repr(C)]
struct Time {
    seconds: c_long,
    nanoseconds: c_long,
}

impl Time {
    fn of(nanoseconds: u64) -> Self {
        let natural = |value: u64| value.try_into().unwrap_or(c_long::MAX);
        Self { seconds: natural(nanoseconds / 1_000_000_000), nanoseconds: natural(nanoseconds % 1_000_000_000) }
    }
}

/// A result of a system call, of which -1 is failure.
fn checked(result: c_long) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| Errno::last())
}

/// Opens a file that is there. The descriptor is the caller's.
pub(crate) fn open(path: &CStr, flags: c_int) -> Result<c_int, Errno> {
    retry(|| {
        // SAFETY: the path ends with a zero.
        let opened = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags) };
        c_int::try_from(checked(opened)?).map_err(|_| Errno(libc::EBADF))
    })
}

/// Reads what comes next, at most as much as the buffer holds. Returns how much; 0 at the end.
pub(crate) fn read(descriptor: c_int, buffer: &mut [u8]) -> Result<usize, Errno> {
    retry(|| {
        // SAFETY: the kernel writes at most the buffer's length into it.
        checked(unsafe { libc::syscall(libc::SYS_read, descriptor, buffer.as_mut_ptr(), buffer.len()) })
    })
}

/// Closes a descriptor. There is no error to report, as nothing is written to one; Linux closes it even if a signal interrupts the
/// call.
///
/// # Safety
/// The descriptor must be the caller's, who does not use it again.
pub(crate) unsafe fn close(descriptor: c_int) {
    // SAFETY: by the caller's contract.
    unsafe { libc::syscall(libc::SYS_close, descriptor) };
}

/// Fills the buffer with random bytes. False if the kernel has not enough of them yet.
pub(crate) fn random(buffer: &mut [u8]) -> bool {
    // SAFETY: the kernel writes at most the buffer's length into it.
    let given = unsafe { libc::syscall(libc::SYS_getrandom, buffer.as_mut_ptr(), buffer.len(), libc::GRND_NONBLOCK) };
    checked(given) == Ok(buffer.len())
}

/// Sleeps for about so many nanoseconds; a signal may end it early.
pub(crate) fn sleep(nanoseconds: u64) {
    let time = Time::of(nanoseconds);
    // SAFETY: the kernel only reads the time.
    unsafe { libc::syscall(libc::SYS_nanosleep, &raw const time, ptr::null_mut::<Time>()) };
}

/// Sleeps while `word` holds `value`, but no longer than so many nanoseconds, if there is a bound; may return at any time.
pub(crate) fn futex_wait(word: &AtomicU32, value: u32, nanoseconds: Option<u64>) {
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let time = nanoseconds.map(Time::of);
    let time = time.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the kernel only reads the word and the time.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, time) };
}

/// Wakes all threads that sleep because of `word`.
pub(crate) fn futex_wake_all(word: *const AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the kernel uses the address as a name only.
    unsafe { libc::syscall(libc::SYS_futex, word, operation, i32::MAX) };
}
