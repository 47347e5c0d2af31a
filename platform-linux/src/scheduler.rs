//! Letting others run.

/// Lets another thread run on this core, if one waits.
pub(crate) fn yield_now() {
    // SAFETY: takes no arguments, and always succeeds on Linux.
    unsafe { libc::sched_yield() };
}
