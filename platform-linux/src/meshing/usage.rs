//! How what is in use changes: calm, restless, or much less at once.
//!
//! While it changes, a pass had better wait: sparser spans fit together better, and what is laid together too early stays in many
//! small groups. Once much was freed at once, by a collector or at the end of a phase, it had better not: the spans are as sparse
//! as they will be, and what comes next needs memory.

/// How far apart looks are that are compared for calm.
const PERIOD_NS: u64 = 100_000_000; // 100 ms

/// It is restless if it changes by more than one part in this many in a period.
const RESTLESS_PART: usize = 128;

/// Calm periods after which it is calm, and the most that it can be restless.
const CALM_PERIODS: u32 = 3;
const RESTLESS_MOST_NS: u64 = 5_000_000_000; // 5 s

/// Much was freed if one part in this many of the most within the last periods, one to three, was.
const DROP_PART: usize = 8;

/// From look to look, less than one part in this many is hardly anything.
const SETTLED_PART: usize = 256;

/// What was seen so far. Bytes.
#[derive(Debug)]
pub(super) struct Usage {
    taken: usize,
    /// At the start of this period, and the most within it and within the one before.
    period_ns: u64,
    period_taken: usize,
    most: usize,
    most_before: usize,
    /// Calm periods in a row, and when they last began to be too few; 0: they are not.
    calm: u32,
    restless_since_ns: u64,
    is_falling: bool,
    has_dropped: bool,
}

impl Usage {
    pub(super) const fn new() -> Self {
        Self {
            taken: 0,
            period_ns: 0,
            period_taken: 0,
            most: 0,
            most_before: 0,
            calm: 0,
            restless_since_ns: 0,
            is_falling: false,
            has_dropped: false,
        }
    }

    /// Notes what is in use at the moment `now_ns`.
    pub(super) const fn look(&mut self, now_ns: u64, taken: usize) {
        self.is_falling = self.taken.saturating_sub(taken) > self.taken / SETTLED_PART;
        let most = if self.most > self.most_before { self.most } else { self.most_before };
        self.has_dropped = !self.is_falling && taken < most - most / DROP_PART;
        self.taken = taken;
        if taken > self.most {
            self.most = taken;
        }
        if now_ns.saturating_sub(self.period_ns) >= PERIOD_NS {
            self.end_period(now_ns);
        }
    }

    const fn end_period(&mut self, now_ns: u64) {
        let is_calm = self.taken.abs_diff(self.period_taken) <= self.period_taken / RESTLESS_PART;
        self.calm = if is_calm { self.calm.saturating_add(1) } else { 0 };
        if self.calm >= CALM_PERIODS {
            self.restless_since_ns = 0;
        } else if self.restless_since_ns == 0 {
            self.restless_since_ns = now_ns;
        }
        (self.period_ns, self.period_taken) = (now_ns, self.taken);
        (self.most, self.most_before) = (self.taken, self.most);
    }

    /// Bytes in use at the last look.
    pub(super) const fn taken(&self) -> usize {
        self.taken
    }

    /// Whether it has been calm for some periods, or restless for long.
    pub(super) const fn is_calm(&self, now_ns: u64) -> bool {
        self.calm >= CALM_PERIODS
            || (self.restless_since_ns != 0 && now_ns.saturating_sub(self.restless_since_ns) >= RESTLESS_MOST_NS)
    }

    /// Whether more is being freed than allocated.
    pub(super) const fn is_falling(&self) -> bool {
        self.is_falling
    }

    /// Whether much was freed at once, just now, and no more is being freed.
    pub(super) const fn has_dropped(&self) -> bool {
        self.has_dropped
    }
}

#[cfg(test)]
mod tests {
    use super::{PERIOD_NS, RESTLESS_MOST_NS, Usage};

    const MIB: usize = 1 << 20;
    const START_NS: u64 = 1_000_000_000;

    /// Looks ten times a period, for so many periods, at what `taken` says is in use at each look. Returns the usage and the time.
    fn watched(periods: u64, taken: impl Fn(u64) -> usize) -> (Usage, u64) {
        let (mut usage, mut now) = (Usage::new(), START_NS);
        for look in 0..10 * periods {
            now = START_NS + look * PERIOD_NS / 10;
            usage.look(now, taken(look));
        }
        (usage, now)
    }

    #[test]
    fn what_stays_the_same_is_calm_after_some_periods() {
        let (usage, now) = watched(2, |_| 100 * MIB);
        assert!(!usage.is_calm(now));
        let (usage, now) = watched(6, |_| 100 * MIB);
        assert!(usage.is_calm(now) && !usage.has_dropped());
    }

    #[test]
    fn what_goes_little_by_little_is_restless_until_it_has_lasted_too_long() {
        // A 67th of it each period at first, more later.
        let taken = |look: u64| 2000 * MIB - 3 * MIB * look as usize;
        let (usage, now) = watched(20, taken);
        assert!(!usage.is_calm(now) && !usage.has_dropped());
        let (usage, now) = watched(RESTLESS_MOST_NS / PERIOD_NS + 3, taken);
        assert!(usage.is_calm(now));
    }

    #[test]
    fn a_drop_is_seen_once_it_is_over() {
        let (mut usage, now) = watched(5, |_| 100 * MIB);
        usage.look(now + 1, 80 * MIB);
        assert!(!usage.has_dropped(), "it may go on falling");
        usage.look(now + 2, 50 * MIB);
        assert!(!usage.has_dropped());
        usage.look(now + 3, 50 * MIB);
        assert!(usage.has_dropped());
        usage.look(now + 4, 60 * MIB);
        assert!(usage.has_dropped(), "something new does not change that");
        for period in 1..=3 {
            usage.look(now + period * PERIOD_NS, 60 * MIB);
        }
        assert!(!usage.has_dropped(), "that was long ago");
    }
}
