//! The write barrier: threads that write to a page while it is being meshed wait until it shows the keeper's memory.
//!
//! There are two kinds. [`WriteBarrier::Userfaultfd`] is the better one, where the system permits it: writers wait in the
//! kernel, its own writes included, and the program sees nothing of it: no signal, no call that fails. It keeps one
//! descriptor for each heap, opened when the heap is made and closed with it.
//!
//! * A program that closes descriptors which it did not open must not do so while another thread meshes: that ends the
//!   barrier early. Meshing then stops with an error ([`Operation::Protect`](meshheap::Operation), EBADF) before the next
//!   run, and no file that got the number is ever touched. A [`HybridPlatform`](crate::HybridPlatform), which opens its
//!   descriptor at the first mesh, opens another before the next run instead, since a process's heap has to outlive a
//!   program that becomes a daemon.
//! * **The thread that meshes must not use io_uring.** What the kernel received for a thread's ring it writes in that thread's
//!   name, when the thread makes a system call; if it writes to the page that the thread has just made read-only, it waits for
//!   that same thread, for ever. A process's heap makes its steps in threads of its own; whoever calls
//!   [`Heap::mesh`](meshheap::Heap::mesh) himself does so in a thread for whose requests no buffer is an object of that
//!   heap, or that has none under way, or whose ring has a thread of the kernel's (`IORING_SETUP_SQPOLL`).
//! * A child of a fork opens a descriptor of its own at its first mesh.
//!
//! [`WriteBarrier::PageProtection`] works everywhere:
//!
//! ```text
//!   meshing thread   raise ─▶ mprotect(READ) ─▶ copy ─▶ mremap ─▶ lift, wake
//!                                     │                            │
//!   writing thread          store ─▶ SIGSEGV ─▶ handler waits ─────┘─▶ the store again, to the new page
//! ```
//!
//! It needs a handler for SIGSEGV, installed once in a process and for good: the library that it is part of must not be
//! unloaded. It runs on the thread's signal stack if there
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
//! # What the program owes a barrier of page protection
//! * A handler for SIGSEGV that it installs **later** replaces this one. It must call [`handle_fault`] first and return if that
//!   says so; or call its predecessor, as well-behaved ones do.
//! * No thread that writes to objects may block SIGSEGV: the kernel ends the process if it does.
//! * No thread's stack and no signal stack may lie in an object that can be meshed (64 KiB and more never are).
//! * In a debugger, let the signal pass: `handle SIGSEGV nostop noprint pass`.

mod choice;
mod fault_barrier;
mod handler;
mod page_protection;
mod raised;
mod registry;
pub(crate) mod signals;
mod suspects;
mod userfaultfd;
mod watch;

use core::ffi::c_void;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use meshheap::Access;

use crate::errno::Errno;
pub use choice::{BarrierChoice, WriteBarrier};
use fault_barrier::FaultBarrier;
use page_protection::PageProtection;

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

/// How many writes have run into a barrier of page protection so far, in all heaps of the process: each is a SIGSEGV that the
/// program never saw. Those that come while the kernel changes the mapping wait in the kernel, and are not counted: they are most.
#[must_use]
pub fn waits() -> usize {
    // Relaxed: see `WAITS`.
    WAITS.load(Ordering::Relaxed)
}

/// The barrier of one arena.
#[derive(Debug)]
pub(crate) enum Barrier {
    Userfaultfd(FaultBarrier),
    PageProtection(PageProtection),
}

impl Barrier {
    /// For an arena of `bytes` bytes at `base`; none if none was chosen.
    pub(crate) fn new(kind: WriteBarrier, base: usize, bytes: usize) -> Result<Option<Self>, Errno> {
        Ok(match kind {
            WriteBarrier::None => None,
            WriteBarrier::Userfaultfd => Some(Self::Userfaultfd(FaultBarrier::new())),
            WriteBarrier::PageProtection => Some(Self::PageProtection(PageProtection::new(base, bytes)?)),
        })
    }

    /// The same, for a heap whose owner cannot know of descriptors: one that the program closed is opened again.
    pub(crate) fn opened_again(self) -> Self {
        match self {
            Self::Userfaultfd(barrier) => Self::Userfaultfd(barrier.opened_again()),
            other @ Self::PageProtection(_) => other,
        }
    }

    /// Forbids or allows writes to addresses of the arena: one run at a time can be read-only, and the thread that made it so
    /// makes it writable. Writers wait meanwhile; that thread handles no signals.
    ///
    /// # Safety
    /// The addresses must be the arena's.
    pub(crate) unsafe fn protect(&self, at: NonNull<u8>, bytes: usize, access: Access) -> Result<(), Errno> {
        match self {
            Self::Userfaultfd(barrier) => barrier.protect(at, bytes, access),
            // SAFETY: the caller keeps the same contract.
            Self::PageProtection(barrier) => unsafe { barrier.protect(at, bytes, access) },
        }
    }

    /// Lets the waiting writers go on, if the calling thread raised the barrier for addresses within these, whose mapping was
    /// replaced by one that can be written.
    pub(crate) fn lift_within(&self, start: usize, bytes: usize) {
        match self {
            Self::Userfaultfd(barrier) => barrier.lift_within(start, bytes),
            Self::PageProtection(barrier) => barrier.lift_within(start, bytes),
        }
    }
}
