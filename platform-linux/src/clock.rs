//! The clock for time budgets.

use core::mem::MaybeUninit;

use crate::errno::check;

/// Nanoseconds since some moment before the process began. 0, which means no clock, if the kernel has none.
pub(crate) fn now_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// The same by a clock that is read faster and advances in steps of some milliseconds.
pub(crate) fn coarse_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC_COARSE)
}

/// Does the work, and tells what CPU time it took of the calling thread, in nanoseconds.
pub(crate) fn with_cpu_ns<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let begun = read(libc::CLOCK_THREAD_CPUTIME_ID);
    let outcome = work();
    (outcome, read(libc::CLOCK_THREAD_CPUTIME_ID).saturating_sub(begun))
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the kernel writes into `time`, which is large enough, or fails.
    if check(unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) }).is_err() {
        return 0;
    }
    // SAFETY: the call succeeded, so that the kernel filled it in.
    let time = unsafe { time.assume_init() };
    natural(time.tv_sec) * 1_000_000_000 + natural(time.tv_nsec)
}

/// The fields' types differ between machines; the clock never shows a time before its start.
fn natural(value: impl TryInto<u64>) -> u64 {
    value.try_into().unwrap_or(0)
}
