//! The run of an arena that is read-only just now, and the thread that made it so: one at a time.

use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::{AtomicU32, AtomicUsize};

use crate::scheduler;

/// All zeros: no thread holds it. Sequentially consistent throughout: a few accesses a mesh, beside some system calls.
#[derive(Debug)]
pub(super) struct Raised {
    start: AtomicUsize,
    stop: AtomicUsize,
    /// The thread that raised it; 0: none.
    thread: AtomicU32,
}

impl Raised {
    /// Nobody's.
    pub(super) const fn new() -> Self {
        Self { start: AtomicUsize::new(0), stop: AtomicUsize::new(0), thread: AtomicU32::new(0) }
    }

    /// Makes the calling thread the one that raises and lifts; false if another one is.
    pub(super) fn hold(&self) -> bool {
        self.thread.compare_exchange(0, scheduler::thread_number(), SeqCst, SeqCst).is_ok()
    }

    /// Names the run. The calling thread is the holder.
    pub(super) fn set(&self, start: usize, stop: usize) {
        self.start.store(start, SeqCst);
        self.stop.store(stop, SeqCst);
    }

    /// Whether `address` lies in the run that was named last.
    pub(super) fn contains(&self, address: usize) -> bool {
        (self.start.load(SeqCst)..self.stop.load(SeqCst)).contains(&address)
    }

    /// Whether `thread` is the holder.
    pub(super) fn is_held_by(&self, thread: u32) -> bool {
        self.thread.load(SeqCst) == thread
    }

    /// Whether the calling thread raised a run that lies between these addresses. Other threads that ask while it changes may
    /// read the start of one run and the end of another; their number is not the thread's.
    pub(super) fn is_ours_within(&self, start: usize, stop: usize) -> bool {
        let within = start <= self.start.load(SeqCst) && self.stop.load(SeqCst) <= stop;
        within && self.is_held_by(scheduler::thread_number())
    }

    /// Whether some thread holds it.
    pub(super) fn is_held(&self) -> bool {
        self.thread.load(SeqCst) != 0
    }

    /// The calling thread holds it no more.
    pub(super) fn let_go(&self) {
        self.thread.store(0, SeqCst);
    }
}
