//! Waiting for a number to change. Nothing here allocates or locks: signal handlers may use it.

use core::sync::atomic::AtomicU32;

use crate::calls;

/// Sleeps while `word` holds `value`; may return at any time, so the caller looks again.
pub(crate) fn wait(word: &AtomicU32, value: u32) {
    calls::futex_wait(word, value, None);
}

/// The same for so many nanoseconds at the most.
pub(crate) fn wait_for(word: &AtomicU32, value: u32, nanoseconds: u64) {
    calls::futex_wait(word, value, Some(nanoseconds));
}

/// Wakes all threads that wait for `word` to change. Does not look at it: it may be gone.
pub(crate) fn wake_all(word: *const AtomicU32) {
    calls::futex_wake_all(word);
}

/// Sleeps for about so many nanoseconds; a signal may end it early.
pub(crate) fn sleep(nanoseconds: u64) {
    calls::sleep(nanoseconds);
}
