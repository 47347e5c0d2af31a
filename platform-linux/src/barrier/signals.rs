//! Signals of a thread that meshes. Their handlers might write to the run that the same thread has made read-only, and would
//! wait for themselves.

use core::mem::MaybeUninit;

/// The signals that a thread had blocked before.
pub(crate) type Blocked = MaybeUninit<libc::sigset_t>;

/// Blocks all signals but those that an instruction itself causes. Returns what was blocked before.
pub(crate) fn block() -> Blocked {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: fills the set in.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP] {
        // SAFETY: the set was filled in.
        unsafe { libc::sigdelset(all.as_mut_ptr(), signal) };
    }
    // SAFETY: both sets are large enough; it cannot fail with valid arguments.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr()) };
    before
}

/// Blocks all signals: for a thread that is about to start another, which inherits it. Returns what was blocked before.
pub(crate) fn block_all() -> Blocked {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: fills the set in.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: as in `block`.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr()) };
    before
}

/// Blocks what was blocked before: `before` comes from [`block`].
pub(crate) fn restore(before: &Blocked) {
    // SAFETY: `block` filled the set in.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), core::ptr::null_mut()) };
}
