//! The rule: when a pass is worth it, and how fast it may go.
//!
//! A pass begins when the heap holds much more than is in use, has changed since that was last looked into, and an estimate says
//! that a pass would free enough of it. It waits for calm, unless much was freed at once and meshing frees a good part of what is
//! held: whoever goes on at once pays for it, and takes the free pages again, which such a pass leaves alone. Looking and steps take
//! a share of CPU time, a part of which is saved up while there is nothing to do. Memory pressure lifts that.

use core::time::Duration;

use meshheap::{MeshBudget, MeshStep, StepEnd};

use super::usage::Usage;
use super::{pinned, pressure};
use crate::clock;
use crate::process::SharedHeap;

/// A step, the pause of the thread that makes it, takes half of the time since the last, but not much of it: so long at the
/// least, and at the most.
const STEP_LEAST_NS: u64 = 1_000_000; // 1 ms
const STEP_USUAL_NS: u64 = 2_000_000; // 2 ms
/// Where steps come seldom, one part in so many of the time between them, but no more than the most.
const STEP_PART: u64 = 20;
const STEP_MOST_NS: u64 = 5_000_000; // 5 ms

/// How often the heap is looked at while no pass is under way.
const PERIOD_NS: u64 = 100_000_000; // 100 ms

/// A heap that holds less beyond what is in use is left alone, unless memory is short.
const WASTE_LEAST_BYTES: usize = 4 << 20; // 4 MiB

/// So is one that holds less beyond than this part of what it holds.
const WASTE_PART: usize = 8;

/// The heap has changed if what it holds beyond, or has in use, has by one part in this many, or by a part of [`WASTE_LEAST_BYTES`].
const CHANGE_PART: usize = 16;

/// A pass is worth it if it frees one part in this many of what the heap holds, or of [`WASTE_LEAST_BYTES`].
const YIELD_PART: usize = 64;

/// One that begins before it is calm is worth it if it frees so much by meshing alone.
const DROP_YIELD_PART: usize = 8;

/// And what such a pass would free is estimated again only once so many times of what that took have passed.
const ESTIMATE_PART: u64 = 32;

/// What a fork took apart is laid together again so long after that was seen first: many forks come in bursts, and many children end
/// soon.
const THAW_AFTER_NS: u64 = 1_000_000_000; // 1 s

/// What could not be laid together is tried again so seldom, at the least.
const THAW_MOST_NS: u64 = 64 * THAW_AFTER_NS;

/// Meshing may take one part in this many of the time that passes.
const SHARE_PART: u64 = 100;

/// So much of it is saved up: what a burst takes that follows the end of a load.
const CREDIT_MOST_NS: u64 = 1_000_000_000; // 1 s

/// A heap that holds less gets no thread.
const THREAD_LEAST_BYTES: usize = 4 * WASTE_LEAST_BYTES;

/// How often memory pressure is asked for.
const PRESSURE_PERIOD_NS: u64 = 1_000_000_000; // 1 s

/// Looks without a change after which a heap is idle.
const IDLE_LOOKS: u32 = 50;

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wish {
    /// A step.
    Step,
    /// Nothing for so many nanoseconds.
    Wait(u64),
}

/// Why a pass may begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Occasion {
    /// The program is at rest, memory is short, or what a fork took apart is to be laid together.
    Calm,
    /// Much was freed just now.
    Drop,
}

/// What was seen and done so far.
#[derive(Debug)]
pub(super) struct Rule {
    /// Why the pass began that is under way, if one is.
    pass: Option<Occasion>,
    /// Nanoseconds that steps may take.
    credit_ns: u64,
    /// The last look; 0: there was none.
    looked_ns: u64,
    /// What had passed then since the one before.
    passed_ns: u64,
    /// What was found when a pass was last thought of, on any occasion and when it was calm.
    before: Before,
    before_calm: Before,
    /// When it may be estimated again what a pass before it is calm would free.
    estimate_at_ns: u64,
    usage: Usage,
    /// When it was seen that a fork took groups apart, or a pass last began that was to lay them together; 0: none did. And how long
    /// the next pass for that waits: longer each time, as some groups cannot be laid together.
    forked_ns: u64,
    thaw_after_ns: u64,
    pressure_at_ns: u64,
    is_short: bool,
    /// Bytes held at the last look.
    held: usize,
    /// How many looks in a row found the same in use.
    unchanged: u32,
}

/// What the heap holds, and how much of it is in use. Bytes.
#[derive(Clone, Copy, Debug)]
struct Waste {
    held: usize,
    taken: usize,
}

impl Waste {
    fn of(heap: &SharedHeap) -> (Self, usize) {
        let figures = heap.statistics();
        let held = figures.held_bytes.saturating_sub(figures.metadata_bytes);
        (Self { held, taken: figures.taken_bytes }, figures.dirty_bytes)
    }

    const fn bytes(&self) -> usize {
        self.held.saturating_sub(self.taken)
    }
}

/// What was found when a pass was last thought of, and whether that has changed since, be it that it is the same again by now. What
/// the pass changed is looked into as well: the next may free more.
#[derive(Clone, Copy, Debug)]
struct Before {
    waste: Waste,
    has_changed: bool,
}

impl Before {
    const NEVER: Self = Self { waste: Waste { held: 0, taken: 0 }, has_changed: false };

    fn compare(&mut self, waste: &Waste) {
        let most = self.waste.bytes().max(WASTE_LEAST_BYTES) / CHANGE_PART;
        self.has_changed |=
            waste.bytes().abs_diff(self.waste.bytes()) > most || waste.taken.abs_diff(self.waste.taken) > most;
    }

    const fn set(&mut self, waste: &Waste) {
        *self = Self { waste: *waste, has_changed: false };
    }
}

impl Rule {
    pub(super) const fn new() -> Self {
        Self {
            pass: None,
            credit_ns: CREDIT_MOST_NS,
            looked_ns: 0,
            passed_ns: 0,
            before: Before::NEVER,
            before_calm: Before::NEVER,
            estimate_at_ns: 0,
            usage: Usage::new(),
            forked_ns: 0,
            thaw_after_ns: THAW_AFTER_NS,
            pressure_at_ns: 0,
            is_short: false,
            held: 0,
            unchanged: 0,
        }
    }

    /// Whether the heap is so large that it may hold much more than is in use.
    pub(super) const fn is_large(&self) -> bool {
        self.held >= THREAD_LEAST_BYTES
    }

    /// Whether nothing has changed for a while.
    pub(super) const fn is_idle(&self) -> bool {
        self.unchanged >= IDLE_LOOKS
            && self.pass.is_none()
            && (self.forked_ns == 0 || self.thaw_after_ns > THAW_AFTER_NS)
    }

    /// What the step may do that is due: it may take longer if nobody has looked for long, as in programs that hardly allocate.
    pub(super) fn budget(&self) -> MeshBudget {
        let usual = (self.passed_ns / 2).clamp(STEP_LEAST_NS, STEP_USUAL_NS);
        let time = usual.max(STEP_MOST_NS.min(self.passed_ns / STEP_PART));
        let budget = MeshBudget::time(Duration::from_nanos(time));
        if self.pass == Some(Occasion::Drop) && !self.is_short { budget.without_purge() } else { budget }
    }

    /// What is to be done at the moment `now_ns`. Takes some 12 KiB of stack.
    pub(super) fn decide(&mut self, now_ns: u64, heap: &SharedHeap) -> Wish {
        self.note_time(now_ns);
        if self.pass.is_some() {
            return self.step_or_wait();
        }
        let (waste, dirty) = self.note_waste(now_ns, heap);
        self.look_at_pressure(now_ns, &waste);
        self.pass = if self.has_to_thaw(now_ns, heap) {
            Some(Occasion::Calm)
        } else {
            self.occasion(now_ns, &waste).filter(|&occasion| self.is_worth_it(now_ns, heap, &waste, dirty, occasion))
        };
        if self.pass.is_some() { self.step_or_wait() } else { Wish::Wait(PERIOD_NS) }
    }

    /// The same for a thread that makes no step itself and may have a small stack: wishes for a step if one may be worth it.
    pub(super) fn glance(&mut self, now_ns: u64, heap: &SharedHeap) -> Wish {
        self.note_time(now_ns);
        let (waste, _) = self.note_waste(now_ns, heap);
        let may_step = self.pass.is_some() || self.occasion(now_ns, &waste).is_some();
        if may_step { Wish::Step } else { Wish::Wait(PERIOD_NS) }
    }

    fn note_time(&mut self, now_ns: u64) {
        let passed = now_ns.saturating_sub(self.looked_ns);
        (self.looked_ns, self.passed_ns) = (now_ns, passed);
        self.credit_ns = CREDIT_MOST_NS.min(self.credit_ns.saturating_add(passed / SHARE_PART));
    }

    /// What the heap wastes now, and the part of it in dirty pages.
    fn note_waste(&mut self, now_ns: u64, heap: &SharedHeap) -> (Waste, usize) {
        let (waste, dirty) = Waste::of(heap);
        self.unchanged = if waste.taken == self.usage.taken() { self.unchanged.saturating_add(1) } else { 0 };
        self.usage.look(now_ns, waste.taken);
        self.held = waste.held;
        self.before.compare(&waste);
        self.before_calm.compare(&waste);
        (waste, dirty)
    }

    /// A pass goes on, unless it has no time, or the kernel keeps pages of the process.
    fn step_or_wait(&self) -> Wish {
        if self.may_go_on() && !pinned::are_any() { Wish::Step } else { Wish::Wait(PERIOD_NS) }
    }

    /// Why a pass may be worth it and need not wait, if so: also where two thirds are wasted.
    fn occasion(&self, now_ns: u64, waste: &Waste) -> Option<Occasion> {
        let is_mostly_wasted = self.held > 3 * self.usage.taken();
        let has_dropped = self.usage.has_dropped() || is_mostly_wasted && !self.usage.is_falling();
        let (occasion, has_changed) = if self.usage.is_calm(now_ns) || self.is_short {
            (Occasion::Calm, self.before_calm.has_changed)
        } else {
            let may_estimate = has_dropped && now_ns >= self.estimate_at_ns;
            (Occasion::Drop, may_estimate && self.before.has_changed)
        };
        let least = if self.is_short { WASTE_LEAST_BYTES / 4 } else { WASTE_LEAST_BYTES.max(waste.held / WASTE_PART) };
        (has_changed && waste.bytes() >= least && self.may_go_on()).then_some(occasion)
    }

    fn look_at_pressure(&mut self, now_ns: u64, waste: &Waste) {
        if waste.bytes() < WASTE_LEAST_BYTES / 4 || now_ns < self.pressure_at_ns {
            return;
        }
        self.pressure_at_ns = now_ns + PRESSURE_PERIOD_NS;
        self.is_short = pressure::is_memory_short();
    }

    fn has_to_thaw(&mut self, now_ns: u64, heap: &SharedHeap) -> bool {
        let is_apart = heap.has_to_thaw();
        self.forked_ns = match self.forked_ns {
            _ if !is_apart => 0,
            0 => now_ns,
            since => since,
        };
        if !is_apart {
            self.thaw_after_ns = THAW_AFTER_NS;
        }
        let is_time = is_apart && now_ns.saturating_sub(self.forked_ns) >= self.thaw_after_ns && self.may_go_on();
        if is_time {
            (self.forked_ns, self.thaw_after_ns) = (now_ns, THAW_MOST_NS.min(2 * self.thaw_after_ns));
        }
        is_time
    }

    const fn may_go_on(&self) -> bool {
        self.credit_ns > 0 || self.is_short
    }

    /// By an estimate, which takes about as long as a step.
    fn is_worth_it(&mut self, now_ns: u64, heap: &SharedHeap, waste: &Waste, dirty: usize, occasion: Occasion) -> bool {
        self.before.set(waste);
        let (meshable, took) = clock::with_cpu_ns(|| heap.meshable_bytes());
        self.credit_ns = self.credit_ns.saturating_sub(took);
        let held = waste.held.max(WASTE_LEAST_BYTES);
        match occasion {
            Occasion::Calm => {
                self.before_calm.set(waste);
                dirty + meshable >= held / YIELD_PART
            }
            Occasion::Drop => {
                self.estimate_at_ns = now_ns + ESTIMATE_PART * took;
                meshable >= held / DROP_YIELD_PART
            }
        }
    }

    /// Notes what a step did, and the CPU time that it took: where it waited for the kernel, others had the time. Returns how long to
    /// wait for the next.
    pub(super) fn note_step(&mut self, step: &MeshStep, cpu_ns: u64) -> u64 {
        self.credit_ns = self.credit_ns.saturating_sub(cpu_ns);
        match step.end {
            StepEnd::Budget => 0,
            StepEnd::Busy => PERIOD_NS,
            _ => {
                self.pass = None;
                PERIOD_NS
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Before, Waste};

    const MIB: usize = 1 << 20;

    #[test]
    fn what_has_changed_and_is_the_same_again_has_changed() {
        let (full, empty) = (Waste { held: 160 * MIB, taken: 128 * MIB }, Waste { held: 160 * MIB, taken: 32 * MIB });
        let mut before = Before::NEVER;
        before.set(&empty);
        before.compare(&empty);
        assert!(!before.has_changed);
        before.compare(&full);
        before.compare(&empty);
        assert!(before.has_changed);
        before.set(&empty);
        assert!(!before.has_changed, "it was looked into");
    }
}
