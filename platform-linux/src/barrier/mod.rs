//! The write barrier: threads that write to a page while it is being meshed wait until it shows the keeper's memory.
//!
//! ```text
//!   meshing thread   raise ─▶ mprotect(READ) ─▶ copy ─▶ mremap ─▶ lift, wake
//!                                     │                            │
//!   writing thread          store ─▶ SIGSEGV ─▶ handler waits ─────┘─▶ the store again, to the new page
//! ```
//!
//! [`LinuxPlatform::with_write_barrier`](crate::LinuxPlatform::with_write_barrier) installs a handler for SIGSEGV, once in a
//! process and for good: the library that it is part of must not be unloaded. It runs on the thread's signal stack if there
//! is one, uses nothing but atomics, `gettid` and `futex`, and leaves `errno` alone. It looks only at writes to pages that
//! may be read (`SEGV_ACCERR`) in arenas with a barrier; every other fault goes on to whatever handled SIGSEGV before, with
//! the signals blocked that were to be blocked there, be it a function or the default action.
//!
//! | fault | what the handler does |
//! |---|---|
//! | in the run that is being meshed | waits for that run alone, some 10 microseconds; the instruction then runs again |
//! | in an arena, but not there | the run was lifted meanwhile: the instruction runs again. The third time without a mesh in between, it is the program's own fault, and goes on |
//! | by the meshing thread itself | goes on, since nobody would end the wait |
//! | elsewhere, or of another kind | goes on |
//!
//! # What the program owes
//! * A handler for SIGSEGV that it installs **later** replaces this one. It must call [`handle_fault`] first and return if that
//!   says so; or call its predecessor, as well-behaved ones do.
//! * No thread that writes to objects may block SIGSEGV: the kernel ends the process if it does.
//! * No thread's stack and no signal stack may lie in an object that can be meshed (64 KiB and more never are).
//! * In a debugger, let the signal pass: `handle SIGSEGV nostop noprint pass`.

mod handler;
mod registry;
mod suspects;
mod watch;

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::errno::Errno;
pub(crate) use handler::install;
use watch::Watch;

/// Writes that ran into a barrier so far. A counter that guards nothing.
static WAITS: AtomicUsize = AtomicUsize::new(0);

/// For a program's own handler of SIGSEGV: whether the fault at `address` (`si_addr`) was a write to a page that a heap of
/// this library is meshing, or just was. Waits until it is writable; the handler then returns, so that the instruction
/// runs again. May be called in a signal handler, and leaves `errno` alone.
///
/// Likewise after a system call that failed with EFAULT, if its buffer is an object: when this returns true, the call is worth
/// making again.
///
/// False for all other addresses, and for a fault that keeps coming: such a fault is the program's own.
#[must_use = "if this is true the handler has to return"]
pub fn handle_fault(address: *const c_void) -> bool {
    let errno = Errno::last();
    let address = address.addr();
    let ours = registry::find(address).is_some_and(|watch| watch.admit(address));
    errno.restore();
    ours
}

/// How many writes have run into a barrier so far, in all heaps of the process: each is a SIGSEGV that the program never saw.
/// Those that come while the kernel changes the mapping wait in the kernel, and are not counted: they are most.
#[must_use]
pub fn waits() -> usize {
    // Relaxed: see `WAITS`.
    WAITS.load(Ordering::Relaxed)
}

/// The barrier of one arena.
#[derive(Debug)]
pub(crate) struct Barrier {
    watch: &'static Watch,
    /// What signals the thread that raised the barrier had blocked before. That thread's alone.
    signals: UnsafeCell<MaybeUninit<libc::sigset_t>>,
}

// SAFETY: `signals` is used only by the thread that holds the watch: see `raise` and `lift`.
unsafe impl Sync for Barrier {}

impl Barrier {
    /// For an arena of `bytes` bytes at `base`.
    pub(crate) fn new(base: usize, bytes: usize) -> Result<Self, Errno> {
        let watch = registry::register(base, base + bytes)?;
        Ok(Self { watch, signals: UnsafeCell::new(MaybeUninit::uninit()) })
    }

    /// Writers that fault at these addresses wait from now on, until the calling thread lifts the barrier. That thread
    /// handles no signals meanwhile: their handlers might write to the run, and would wait for themselves.
    pub(crate) fn raise(&self, start: usize, bytes: usize) -> Result<(), Errno> {
        if !self.watch.hold() {
            return Err(Errno(libc::EBUSY));
        }
        let blocked = block_signals();
        // SAFETY: this thread holds the watch.
        unsafe { *self.signals.get() = blocked };
        self.watch.raise(start, start + bytes);
        Ok(())
    }

    /// Lets the waiting writers go on, if the calling thread raised the barrier for addresses within these, which can be
    /// written again.
    pub(crate) fn lift_within(&self, start: usize, bytes: usize) {
        if !self.watch.is_raised_within(start, start + bytes) {
            return;
        }
        // SAFETY: this thread raised the barrier, so it holds the watch and has written this.
        let blocked = unsafe { *self.signals.get() };
        self.watch.lift();
        restore_signals(&blocked);
    }
}

impl Drop for Barrier {
    fn drop(&mut self) {
        self.watch.release();
    }
}

/// Blocks all signals but those that an instruction itself causes. Returns what was blocked before.
fn block_signals() -> MaybeUninit<libc::sigset_t> {
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

/// Blocks what was blocked before.
fn restore_signals(before: &MaybeUninit<libc::sigset_t>) {
    // SAFETY: `block_signals` filled the set in.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), core::ptr::null_mut()) };
}
