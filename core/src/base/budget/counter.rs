//! One resource of one node.

use crate::base::budget::limits::{Limits, Usage};
use crate::base::sync::{AtomicUsize, Ordering, const_unless_loom};

/// What is in use, and what may be. All loads and stores are relaxed: the counters guard no data, and a charge and a change of
/// the hard limit are ordered by the fences in `Budget::charge_bytes` and `Budget::set_hard`.
pub(super) struct Counter {
    used: AtomicUsize,
    soft: AtomicUsize,
    hard: AtomicUsize,
    peak: AtomicUsize,
    refusals: AtomicUsize,
    floor: usize,
    reserve: usize,
}

impl Counter {
    const_unless_loom! {
        pub(super) fn new(limits: Limits) -> Self {
            Self {
                used: AtomicUsize::new(0),
                soft: AtomicUsize::new(limits.soft),
                hard: AtomicUsize::new(limits.hard),
                peak: AtomicUsize::new(0),
                refusals: AtomicUsize::new(0),
                floor: limits.floor,
                reserve: limits.reserve,
            }
        }
    }

    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) const fn floor(&self) -> usize {
        self.floor
    }

    /// What those above are charged for `used` bytes here, apart from the floor.
    pub(super) const fn beyond_floor(&self, used: usize) -> usize {
        used.saturating_sub(self.floor)
    }

    /// What may be in use, with the reserve if that is `open`.
    fn allowed(&self, open: bool) -> usize {
        self.hard.load(Ordering::Relaxed).saturating_add(if open { self.reserve } else { 0 })
    }

    /// `used` and `bytes` together, if that may be in use.
    pub(super) fn after(&self, used: usize, bytes: usize, open: bool) -> Option<usize> {
        used.checked_add(bytes).filter(|&after| after <= self.allowed(open))
    }

    pub(super) fn is_over_hard(&self, open: bool) -> bool {
        self.used() > self.allowed(open)
    }

    /// `used` -> `after`, or what is in use instead of `used`.
    pub(super) fn exchange(&self, used: usize, after: usize) -> Result<(), usize> {
        self.used.compare_exchange_weak(used, after, Ordering::Relaxed, Ordering::Relaxed).map(|_| ())
    }

    /// Gives `bytes` back. Returns what of it comes back to those above.
    pub(super) fn subtract(&self, bytes: usize) -> usize {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "I8: no more comes back than was charged");
        self.beyond_floor(before) - self.beyond_floor(before.wrapping_sub(bytes))
    }

    pub(super) fn is_over_soft(&self) -> bool {
        self.used() > self.soft.load(Ordering::Relaxed)
    }

    pub(super) fn set_soft(&self, bytes: usize) {
        self.soft.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn set_hard(&self, bytes: usize) {
        self.hard.store(bytes, Ordering::Relaxed);
    }

    /// After a charge that was made.
    pub(super) fn note_peak(&self) {
        let used = self.used();
        // Looked at first: a peak is seldom new, and a read does not take the cache line from other threads.
        if used > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(used, Ordering::Relaxed);
        }
    }

    pub(super) fn note_refusal(&self) {
        self.refusals.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn usage(&self) -> Usage {
        Usage {
            used: self.used(),
            peak: self.peak.load(Ordering::Relaxed),
            soft: self.soft.load(Ordering::Relaxed),
            hard: self.hard.load(Ordering::Relaxed),
            refusals: self.refusals.load(Ordering::Relaxed),
        }
    }
}
