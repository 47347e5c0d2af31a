//! When a process's heap is meshed without being asked: steps on the allocator's slow paths, or a thread of its own.
//!
//! ```text
//!   slow path ──▶ due? ──▶ look ──▶ decide: is a pass worth it?  ──▶ steps, within the share of CPU time ──▶ decide ..
//!   thread    ──▶ sleep ─▶ look      (rule.rs)
//! ```
//!
//! Beside other threads, a step is made by a thread that runs no code of the program: a thread that makes one behind userfaultfd
//! must do nothing else that writes to objects, and the kernel writes in the name of a thread that used io_uring whenever that
//! makes a system call.

mod pinned;
mod pressure;
mod rule;
mod single_thread;
mod thread;
mod usage;

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use meshheap::{MeshBudget, MeshStep, StepEnd};

use crate::barrier::{WriteBarrier, signals};
use crate::clock;
use crate::process::SharedHeap;
use rule::{Rule, Wish};
use thread::Helper;

/// Whether and how a process's heap is meshed without being asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Meshing {
    /// Not at all, and not on request either: memory stays private, and spans are short.
    Off,
    /// On request only.
    #[default]
    OnRequest,
    /// In steps of a millisecond, on slow paths of threads that allocate and free. A program that does neither keeps what it holds.
    /// With several threads, where writers may come to wait in the kernel, a thread makes the steps.
    Steps,
    /// By a thread, which is started when there is something to do.
    Thread,
    /// By a thread once the program has several of its own, which can tell that there is one more; in steps until then.
    Auto,
}

impl Meshing {
    const ALL: [Self; 5] = [Self::Off, Self::OnRequest, Self::Steps, Self::Thread, Self::Auto];

    /// The variant with this number, or none of the kind.
    pub(crate) fn from_number(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or_default()
    }

    const fn is_automatic(self) -> bool {
        matches!(self, Self::Steps | Self::Thread | Self::Auto)
    }
}

/// Steps on slow paths keep at least this far from each other.
const STEP_PAUSE_NS: u64 = 1_000_000; // 1 ms

/// On slow paths the heap is looked at this often at the least: the program is awake anyway, and what a collector leaves should be
/// meshed before the program allocates more.
const LOOK_PAUSE_NS: u64 = 10_000_000; // 10 ms

/// The policy of one heap.
#[derive(Debug)]
pub(crate) struct Policy {
    meshing: AtomicU8,
    /// Whether any thread may make a step beside others: none waits in the kernel for it.
    is_anywhere: AtomicBool,
    /// The moment before which nobody need look, in nanoseconds of the coarse clock.
    due: AtomicU64,
    /// Whether a thread looks: the rule is its own.
    is_looking: AtomicBool,
    rule: UnsafeCell<Rule>,
    helper: Helper,
}

// SAFETY: `rule` is used only by the thread that set `is_looking`.
unsafe impl Sync for Policy {}

impl Policy {
    pub(crate) const fn new() -> Self {
        Self {
            meshing: AtomicU8::new(Meshing::OnRequest as u8),
            is_anywhere: AtomicBool::new(false),
            due: AtomicU64::new(0),
            is_looking: AtomicBool::new(false),
            rule: UnsafeCell::new(Rule::new()),
            helper: Helper::new(),
        }
    }

    /// Once, when the heap is made; with the barrier that was asked for, or none: the first that works.
    pub(crate) fn set(&self, meshing: Meshing, barrier: Option<WriteBarrier>) {
        let is_anywhere = matches!(barrier, Some(WriteBarrier::PageProtection | WriteBarrier::None));
        // Relaxed: published with the heap.
        self.is_anywhere.store(is_anywhere, Ordering::Relaxed);
        self.meshing.store(meshing as u8, Ordering::Relaxed);
    }

    fn meshing(&self) -> Meshing {
        Meshing::from_number(self.meshing.load(Ordering::Relaxed))
    }

    /// On slow paths, with no lock held: a few nanoseconds, unless something is due.
    #[inline]
    pub(crate) fn poll(&self, heap: &SharedHeap) {
        if self.meshing().is_automatic() {
            self.poll_automatic(heap);
        }
    }

    fn poll_automatic(&self, heap: &SharedHeap) {
        if self.helper.is_running() {
            self.helper.wake();
            return;
        }
        let now = clock::coarse_ns();
        // Relaxed: a race looks twice, or later.
        if now < self.due.load(Ordering::Relaxed) {
            return;
        }
        let Some(wait) = self.look(heap, false) else { return };
        self.due.store(now + wait.next_ns.clamp(STEP_PAUSE_NS, LOOK_PAUSE_NS), Ordering::Relaxed);
        if wait.is_worth_a_thread && self.wants_thread() {
            self.helper.ask();
        }
    }

    /// Where threads may be started: on slow paths that allocate. The C library frees while it holds locks that starting a thread
    /// takes.
    #[inline]
    pub(crate) fn start_thread_if_wanted(&'static self, heap: &'static SharedHeap) {
        if self.helper.is_asked_for() {
            self.helper.start(self, heap);
        }
    }

    fn wants_thread(&self) -> bool {
        match self.meshing() {
            Meshing::Thread => true,
            Meshing::Auto => single_thread::is_single() == Some(false),
            Meshing::Steps => !self.may_step_here(),
            _ => false,
        }
    }

    /// Whether a thread of the program may make a step.
    fn may_step_here(&self) -> bool {
        // Relaxed: see `set`.
        self.is_anywhere.load(Ordering::Relaxed) || single_thread::is_single() == Some(true)
    }

    /// One step of meshing on request, beside whatever threads there are; none if it takes a thread and none can be started, or
    /// while the kernel keeps pages of the process.
    pub(crate) fn step_on_request(&self, heap: &'static SharedHeap, budget: MeshBudget) -> Option<MeshStep> {
        if pinned::are_any() {
            return None;
        }
        if self.may_step_here() { Some(step(heap, budget)) } else { thread::step_in_own_thread(heap, budget) }
    }

    /// Decides, or makes a step; none if another thread is at it. `is_own`: in a thread that is ours.
    fn look(&self, heap: &SharedHeap, is_own: bool) -> Option<Wait> {
        // Acquire: pairs with the Release below.
        if self.is_looking.swap(true, Ordering::Acquire) {
            return None;
        }
        // SAFETY: this thread set the flag.
        let rule = unsafe { &mut *self.rule.get() };
        let now = clock::now_ns();
        let may_step = is_own || self.may_step_here();
        let wait = match if may_step { rule.decide(now, heap) } else { rule.glance(now, heap) } {
            Wish::Wait(next_ns) => {
                let is_idle = rule.is_idle();
                Wait { next_ns, is_worth_a_thread: rule.is_large() && !is_idle, is_idle }
            }
            Wish::Step if !may_step => Wait { next_ns: LOOK_PAUSE_NS, is_worth_a_thread: true, is_idle: false },
            Wish::Step => {
                let (step, cpu_ns) = clock::with_cpu_ns(|| step(heap, rule.budget()));
                let next_ns = rule.note_step(&step, cpu_ns);
                Wait { next_ns, is_worth_a_thread: step.end == StepEnd::Budget, is_idle: false }
            }
        };
        // Release: pairs with the Acquire above.
        self.is_looking.store(false, Ordering::Release);
        Some(wait)
    }

    /// In the child of a fork, which has one thread.
    pub(crate) fn begin_again_in_child(&self) {
        self.helper.forget();
        // Relaxed: there is no other thread.
        self.is_looking.store(false, Ordering::Relaxed);
        self.due.store(0, Ordering::Relaxed);
        // SAFETY: as above; the thread that was at it is gone.
        unsafe { *self.rule.get() = Rule::new() };
    }
}

/// When to look again.
#[derive(Clone, Copy, Debug)]
struct Wait {
    next_ns: u64,
    /// There is, or will be, so much to do that a thread should.
    is_worth_a_thread: bool,
    /// Nothing has changed for a while: it is enough to look once somebody allocates.
    is_idle: bool,
}

/// One step of meshing beside whatever threads the program has, in a thread that may make it.
fn step(heap: &SharedHeap, budget: MeshBudget) -> MeshStep {
    if single_thread::is_single() != Some(true) {
        return heap.mesh(budget);
    }
    // A handler might write to an object.
    let blocked = signals::block();
    // SAFETY: no other thread exists and none can begin, as this one is here, where it writes to no object, and handles no
    // signal.
    let step = unsafe { heap.mesh_at_safepoint(budget) };
    signals::restore(&blocked);
    step
}
