//! The handler of SIGSEGV, and whatever handled it before.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::mem::{MaybeUninit, transmute};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicUsize, Ordering};

use super::handle_fault;
use crate::errno::{Errno, check};
use crate::scheduler;

/// A write to memory that may only be read. The C library's own number, which not all bindings have.
const SEGV_ACCERR: c_int = 2;

/// Nobody has asked for the handler.
const NONE: u8 = 0;
/// One thread installs it.
const INSTALLING: u8 = 1;
/// It is there, for good.
const INSTALLED: u8 = 2;
/// The system refused.
const REFUSED: u8 = 3;

static PHASE: AtomicU8 = AtomicU8::new(NONE);

/// Why it did. Written before the phase says so.
static REFUSAL: AtomicI32 = AtomicI32::new(0);

/// What handled SIGSEGV before: the one that [`WHICH`] names. Each is written once, before it is named.
static PREVIOUS: [Previous; 2] = [Previous::new(), Previous::new()];
static WHICH: AtomicUsize = AtomicUsize::new(0);

/// The previous handler was to run once (SA_RESETHAND), and has.
static IS_SPENT: AtomicBool = AtomicBool::new(false);

/// An action, once it is written.
struct Previous(UnsafeCell<MaybeUninit<libc::sigaction>>);

// SAFETY: written by the thread that moved `PHASE` to INSTALLING, and read only after that.
unsafe impl Sync for Previous {}

impl Previous {
    const fn new() -> Self {
        Self(UnsafeCell::new(MaybeUninit::uninit()))
    }
}

/// Installs the handler if it never was.
pub(super) fn install() -> Result<(), Errno> {
    // Acquire: pairs with the Release of the thread that installed it, below.
    if PHASE.compare_exchange(NONE, INSTALLING, Ordering::Acquire, Ordering::Acquire).is_ok() {
        let installed = install_first();
        // Relaxed: the phase's Release orders it.
        REFUSAL.store(installed.err().map_or(0, |errno| errno.0), Ordering::Relaxed);
        PHASE.store(if installed.is_ok() { INSTALLED } else { REFUSED }, Ordering::Release);
    }
    // Bounded by the other thread's two system calls.
    while PHASE.load(Ordering::Acquire) == INSTALLING {
        scheduler::yield_now();
    }
    if PHASE.load(Ordering::Acquire) == INSTALLED { Ok(()) } else { Err(Errno(REFUSAL.load(Ordering::Relaxed))) }
}

fn install_first() -> Result<(), Errno> {
    // Kept before ours is there, since a fault may come at once.
    let before = exchange(None)?;
    // SAFETY: this thread alone is in the phase INSTALLING, and no handler is there to read it.
    unsafe { (*PREVIOUS[0].0.get()).write(before) };
    let mut ours = before;
    ours.sa_sigaction = on_fault as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
    // Nothing is blocked: signals that come while a thread waits are handled, and their handlers may write, and wait, too.
    // SA_RESTART is for those who send the signal by hand.
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER | (before.sa_flags & libc::SA_RESTART);
    // SAFETY: the set is a whole one.
    unsafe { libc::sigemptyset(&raw mut ours.sa_mask) };
    let replaced = exchange(Some(&ours))?;
    if replaced.sa_sigaction != before.sa_sigaction {
        // Another thread installed its handler in between.
        // SAFETY: as above; nobody reads this one before it is named.
        unsafe { (*PREVIOUS[1].0.get()).write(replaced) };
        // Release: pairs with the Acquire in `previous`.
        WHICH.store(1, Ordering::Release);
    }
    Ok(())
}

/// Sets SIGSEGV's action, if one is given, and returns the one before.
fn exchange(action: Option<&libc::sigaction>) -> Result<libc::sigaction, Errno> {
    let mut before = MaybeUninit::uninit();
    let new = action.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the kernel reads the one and fills the other in, or fails. The handlers that this file sets are fit for signals.
    check(unsafe { libc::sigaction(libc::SIGSEGV, new, before.as_mut_ptr()) })?;
    // SAFETY: it did not fail.
    Ok(unsafe { before.assume_init() })
}

fn previous() -> &'static libc::sigaction {
    // Acquire: pairs with the Release in `install_first`.
    let previous = PREVIOUS[WHICH.load(Ordering::Acquire)].0.get();
    // SAFETY: our handler runs, so that nobody writes this any more.
    let previous = unsafe { &*previous };
    // SAFETY: it was written before our handler was installed, or named.
    unsafe { previous.assume_init_ref() }
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives a whole description, for as long as the handler runs.
    let description = unsafe { &*info };
    let code = description.si_code;
    // SAFETY: with this code the description has an address.
    if code == SEGV_ACCERR && handle_fault(unsafe { description.si_addr() }) {
        return;
    }
    let errno = Errno::last();
    pass_on(signal, code, info, context);
    errno.restore();
}

/// Does what would have been done without our handler.
fn pass_on(signal: c_int, code: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // Signals that somebody sent have codes up to 0.
    let is_fault = code > 0;
    let action = previous();
    let is_once = action.sa_flags & libc::SA_RESETHAND != 0;
    // Relaxed: the flag alone matters.
    let is_default = action.sa_sigaction == libc::SIG_DFL || (is_once && IS_SPENT.swap(true, Ordering::Relaxed));
    // The kernel does not let a process ignore its own fault.
    let is_ignored = action.sa_sigaction == libc::SIG_IGN;
    if is_ignored && !is_fault {
        return;
    }
    if is_default || is_ignored {
        return end_process(signal, is_fault);
    }
    block_as_asked(signal, action);
    // What is blocked from here on is undone when our handler returns.
    if action.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: with this flag it is such a function.
        let function: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
            unsafe { transmute(action.sa_sigaction) };
        function(signal, info, context);
    } else {
        // SAFETY: without the flag, and being neither the default nor to be ignored, it is such a function.
        let function: extern "C" fn(c_int) = unsafe { transmute(action.sa_sigaction) };
        function(signal);
    }
}

/// Blocks what the kernel would have blocked for this action.
fn block_as_asked(signal: c_int, action: &libc::sigaction) {
    let mut blocked = action.sa_mask;
    if action.sa_flags & libc::SA_NODEFER == 0 {
        // SAFETY: the set is a whole one.
        unsafe { libc::sigaddset(&raw mut blocked, signal) };
    }
    // SAFETY: as above.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const blocked, ptr::null_mut()) };
}

/// The default action. After a fault the instruction runs again and faults for the kernel, which then tells the truth about
/// it, in a core dump for one.
fn end_process(signal: c_int, is_fault: bool) {
    let mut action = *previous();
    (action.sa_sigaction, action.sa_flags) = (libc::SIG_DFL, 0);
    if exchange(Some(&action)).is_err() || !is_fault {
        // SAFETY: takes a number only.
        unsafe { libc::raise(signal) };
    }
}
