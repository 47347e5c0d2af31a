//! Waiting for a number to change. Nothing here allocates or locks: signal handlers may use it.

use core::ptr;
use core::sync::atomic::AtomicU32;

/// Sleeps while `word` holds `value`; may return at any time, so the caller looks again.
pub(crate) fn wait(word: &AtomicU32, value: u32) {
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let forever = ptr::null::<libc::timespec>();
    // SAFETY: the kernel only reads the word.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, forever) };
}

/// Wakes all threads that wait for `word` to change.
pub(crate) fn wake_all(word: &AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the kernel uses the address as a name only.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, i32::MAX) };
}

/// Sleeps for about so many nanoseconds; a signal may end it early.
pub(crate) fn sleep(nanoseconds: u64) {
    let natural = |value: u64| value.try_into().unwrap_or(0);
    let time =
        libc::timespec { tv_sec: natural(nanoseconds / 1_000_000_000), tv_nsec: natural(nanoseconds % 1_000_000_000) };
    // SAFETY: the kernel only reads the time.
    unsafe { libc::nanosleep(&raw const time, ptr::null_mut()) };
}
