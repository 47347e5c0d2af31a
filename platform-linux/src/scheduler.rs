//! Threads: letting others run, and telling them apart.

/// Lets another thread run on this core, if one waits.
pub(crate) fn yield_now() {
    // SAFETY: takes no arguments, and always succeeds on Linux.
    unsafe { libc::sched_yield() };
}

/// The calling thread's number, which is not 0 and which no other thread has. By the system call, as older C libraries have no
/// function for it. Sandboxes may refuse that; then it is made of the address of something that each thread has for itself, beyond
/// the numbers that the kernel gives.
pub(crate) fn thread_number() -> u32 {
    // SAFETY: takes no arguments.
    let number = unsafe { libc::syscall(libc::SYS_gettid) };
    u32::try_from(number).unwrap_or_else(|_| {
        // SAFETY: takes no arguments.
        let own = unsafe { libc::__errno_location() }.addr();
        #[expect(clippy::cast_possible_truncation, reason = "threads' data lie in less than 2^34 cache lines")]
        let line = (own >> 6) as u32;
        line | 1 << 31
    })
}
