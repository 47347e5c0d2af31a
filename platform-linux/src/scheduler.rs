//! Threads: letting others run, and telling them apart.

/// Lets another thread run on this core, if one waits.
pub(crate) fn yield_now() {
    // SAFETY: takes no arguments, and always succeeds on Linux.
    unsafe { libc::sched_yield() };
}

/// The calling thread's number, which is not 0. By the system call, as older C libraries have no function for it.
pub(crate) fn thread_number() -> u32 {
    // SAFETY: takes no arguments, and always succeeds.
    let number = unsafe { libc::syscall(libc::SYS_gettid) };
    u32::try_from(number).expect("the kernel's numbers of threads have 22 bits")
}
