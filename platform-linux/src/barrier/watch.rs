//! What the signal handler knows of one arena: where it lies, and which of its addresses are read-only just now.
//!
//! `epoch` goes up when a run is raised (it is odd then) and when it is lifted. A handler reads the epoch, the run, and the
//! epoch again: both the same, and the run is that epoch's. All of it is sequentially consistent: a few accesses a mesh,
//! beside two system calls, and one order for everybody.

use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::raised::Raised;
use super::{WAITS, suspects};
use crate::{futex, scheduler};

/// The entry is being set up.
const TAKEN: usize = 1;

/// One entry of the registry. All zeros is a free one.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Watch {
    /// Where the arena starts; 0: the entry is free.
    base: AtomicUsize,
    /// Where it ends.
    end: AtomicUsize,
    /// Counts on for ever, whosever the entry is.
    epoch: AtomicU32,
    /// Threads that wait for the epoch to change, or about to. May stay too high: a handler that interrupts one of them may
    /// jump elsewhere. Then lifting makes a system call for nothing.
    waiters: AtomicU32,
    /// The run that is read-only while the epoch is odd.
    run: Raised,
}

impl Watch {
    /// A free entry.
    pub(super) const fn new() -> Self {
        Self {
            base: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            epoch: AtomicU32::new(0),
            waiters: AtomicU32::new(0),
            run: Raised::new(),
        }
    }

    /// Takes the entry for the arena from `base` to `end`, if it is free.
    pub(super) fn take(&self, base: usize, end: usize) -> bool {
        if self.base.compare_exchange(0, TAKEN, SeqCst, SeqCst).is_err() {
            return false;
        }
        self.end.store(end, SeqCst);
        self.base.store(base, SeqCst);
        true
    }

    /// The arena is gone, and nobody writes to it any more.
    pub(super) fn release(&self) {
        debug_assert!(!self.run.is_held(), "no arena goes while it is meshed");
        self.base.store(0, SeqCst);
    }

    /// Whether `address` lies in the arena.
    pub(super) fn contains(&self, address: usize) -> bool {
        let base = self.base.load(SeqCst);
        // The same base afterwards: `end` is of the same arena.
        base > TAKEN && (base..self.end.load(SeqCst)).contains(&address) && self.base.load(SeqCst) == base
    }

    /// Makes the calling thread the one that raises and lifts; false if another one is.
    pub(super) fn hold(&self) -> bool {
        self.run.hold()
    }

    /// The addresses become read-only. The calling thread holds the watch.
    pub(super) fn raise(&self, start: usize, stop: usize) {
        self.run.set(start, stop);
        self.epoch.fetch_add(1, SeqCst);
    }

    /// Whether the calling thread raised a run that lies between these addresses.
    pub(super) fn is_raised_within(&self, start: usize, stop: usize) -> bool {
        self.run.is_ours_within(start, stop)
    }

    /// The run can be written again; the calling thread holds the watch no more.
    pub(super) fn lift(&self) {
        // Pairs with `wait_for_change`: it counts itself before the kernel looks at the epoch, this looks at the count after
        // the change. One of the two sees the other.
        self.epoch.fetch_add(1, SeqCst);
        if self.waiters.load(SeqCst) > 0 {
            futex::wake_all(&raw const self.epoch);
        }
        self.run.let_go();
    }

    /// A write to `address` faulted. Whether it should be tried again; waits until it can succeed.
    pub(super) fn admit(&self, address: usize) -> bool {
        // Bounded: each round more is a mesh that began or ended meanwhile.
        loop {
            let epoch = self.epoch.load(SeqCst);
            let in_run = self.run.contains(address);
            if self.epoch.load(SeqCst) != epoch {
                continue;
            }
            let thread = scheduler::thread_number();
            if epoch.is_multiple_of(2) || !in_run {
                // A write that faulted in an earlier epoch finds its page writable by now. One that faults again in the same
                // epoch, in which the page is writable, cannot have run into the barrier.
                let is_ours = !suspects::is_repeated(thread, address, epoch);
                if is_ours {
                    count_wait();
                }
                return is_ours;
            }
            if self.run.is_held_by(thread) {
                return false;
            }
            self.wait_for_change(epoch);
            return true;
        }
    }

    fn wait_for_change(&self, epoch: u32) {
        count_wait();
        self.waiters.fetch_add(1, SeqCst);
        while self.epoch.load(SeqCst) == epoch {
            futex::wait(&self.epoch, epoch);
        }
        self.waiters.fetch_sub(1, SeqCst);
    }
}

fn count_wait() {
    // Relaxed: a counter that guards nothing.
    WAITS.fetch_add(1, Ordering::Relaxed);
}
