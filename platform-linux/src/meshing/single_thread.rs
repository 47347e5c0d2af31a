//! Whether the process has one thread only.

/// What the C library knows: whether the process has one thread; none if it does not tell.
#[cfg(all(target_env = "gnu", target_arch = "x86_64"))]
pub(super) fn is_single() -> Option<bool> {
    let flag: *const u8;
    // The variable is glibc's, from 2.32 on: referred to weakly, so that older ones, which have none, give a null.
    // SAFETY: loads an address from the table that the linker fills in.
    unsafe {
        core::arch::asm!(
            ".weak __libc_single_threaded",
            "mov {}, qword ptr [rip + __libc_single_threaded@GOTPCREL]",
            out(reg) flag,
            options(pure, nomem, preserves_flags, nostack),
        );
    }
    if flag.is_null() {
        return None;
    }
    // SAFETY: a byte of the C library's, which changes only when this thread starts another, or waits for one.
    Some(unsafe { flag.read_volatile() } != 0)
}

/// As above.
#[cfg(not(all(target_env = "gnu", target_arch = "x86_64")))]
pub(super) fn is_single() -> Option<bool> {
    None
}
