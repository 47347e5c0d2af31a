//! A pass over the whole heap, in steps: a cursor that remembers where the last step stopped.
//!
//! ```text
//!   Free: dirty pages, which need no search and no mapping
//!   after a fork: Thaw, group by group
//!   for each class that can mesh, if mappings are scarce: rows of spans     ┐ drain its depot; until its pages are through:
//!   for each class again: single spans                                      ┘   Collect ──▶ Search ──▶ Mesh (pair by pair)
//!   Hollow: empty pages of spans ──▶ Purge: dirty pages ──▶ done
//! ```
//!
//! The cursor and the plan are guarded by the lock of rank `MeshPass`, which a step holds throughout and never waits for.

#[cfg(not(all(loom, feature = "loom")))]
use crate::base::sync::Relax;
use crate::base::sync::{AtomicUsize, Mutex, Ordering, Rank};
use crate::mesh::budget::{MeshBudget, MeshStep, StepEnd};
use crate::mesh::pair::Writers;
use crate::mesh::step::{Stage, Step, Unit};
use crate::platform::Platform;
use crate::span::arena::Arena;

/// The pass of one heap.
pub(crate) struct MeshPass {
    stage: Mutex<Option<Stage>>,
    steps: AtomicUsize,
    passes: AtomicUsize,
    pages_freed: AtomicUsize,
    longest_step_ns: AtomicUsize,
    scratch_bytes: AtomicUsize,
    /// Forks after which no pass has laid all groups together again.
    forks: AtomicUsize,
}

/// What all steps together did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassTotals {
    pub(crate) steps: u64,
    pub(crate) passes: u64,
    pub(crate) pages_freed: u64,
    pub(crate) longest_step_ns: u64,
    pub(crate) scratch_bytes: usize,
}

impl MeshPass {
    /// No pass is under way.
    pub(crate) fn new() -> Self {
        Self {
            stage: Mutex::new(Rank::MeshPass, None),
            steps: AtomicUsize::new(0),
            passes: AtomicUsize::new(0),
            pages_freed: AtomicUsize::new(0),
            longest_step_ns: AtomicUsize::new(0),
            scratch_bytes: AtomicUsize::new(0),
            forks: AtomicUsize::new(0),
        }
    }

    /// One step.
    ///
    /// # Safety
    /// As for [`crate::Heap::mesh_at_safepoint`] if the `writers` are at a safepoint, else none.
    pub(crate) unsafe fn step<P: Platform>(&self, arena: &Arena<P>, budget: MeshBudget, writers: Writers) -> MeshStep {
        let started = arena.platform().now_ns();
        let mut step = Step::new(arena, budget, writers, started);
        let facts = arena.facts();
        let has_barrier = writers == Writers::AtSafepoint || facts.write_barrier;
        if !facts.can_alias || !facts.can_purge || !has_barrier {
            return step.ended(StepEnd::Unsupported);
        }
        let Some(mut place) = self.stage.try_lock() else {
            return step.ended(StepEnd::Busy);
        };
        let mut stage = place.take().unwrap_or_else(|| self.first_stage());
        let end = loop {
            // SAFETY: by the function's contract; the pass's lock keeps other meshes out.
            match unsafe { step.unit(stage, &self.forks) } {
                Unit::Next(next) => stage = next,
                Unit::Stop(end, rest) => {
                    *place = rest;
                    break end;
                }
            }
            if step.is_spent() {
                *place = Some(stage);
                break StepEnd::Budget;
            }
        };
        let report = step.ended(end);
        self.count(&report, place.as_ref());
        report
    }

    fn first_stage(&self) -> Stage {
        // Relaxed: a fork holds the pass's lock when it writes.
        Stage::Free { forks: self.forks.load(Ordering::Relaxed) }
    }

    fn count(&self, report: &MeshStep, stage: Option<&Stage>) {
        // Relaxed throughout: statistics that guard nothing; only the holder of the pass's lock writes them.
        self.steps.fetch_add(1, Ordering::Relaxed);
        if matches!(report.end, StepEnd::PassDone) {
            self.passes.fetch_add(1, Ordering::Relaxed);
        }
        self.pages_freed.fetch_add(report.pages_freed, Ordering::Relaxed);
        let nanoseconds = usize::try_from(report.nanoseconds).unwrap_or(usize::MAX);
        self.longest_step_ns.fetch_max(nanoseconds, Ordering::Relaxed);
        let scratch = match stage {
            Some(Stage::Collect(plan, _) | Stage::Search(plan, _) | Stage::Mesh(plan, ..)) => plan.scratch_bytes(),
            _ => 0,
        };
        self.scratch_bytes.store(scratch, Ordering::Relaxed);
    }

    /// What all steps so far did.
    pub(crate) fn totals(&self) -> PassTotals {
        // Relaxed: see `count`.
        PassTotals {
            steps: self.steps.load(Ordering::Relaxed) as u64,
            passes: self.passes.load(Ordering::Relaxed) as u64,
            pages_freed: self.pages_freed.load(Ordering::Relaxed) as u64,
            longest_step_ns: self.longest_step_ns.load(Ordering::Relaxed) as u64,
            scratch_bytes: self.scratch_bytes.load(Ordering::Relaxed),
        }
    }

    /// Whether a fork took groups apart that no pass has laid together again.
    pub(crate) fn has_to_thaw(&self) -> bool {
        // Relaxed: see `first_stage`; whoever else asks wants to know whether a pass is worth while.
        self.forks.load(Ordering::Relaxed) > 0
    }

    /// Waits for a step that is under way, and keeps others out.
    #[cfg(not(all(loom, feature = "loom")))]
    pub(crate) fn lock_for_fork(&self, waiter: &impl Relax) {
        self.stage.lock_for_fork(waiter);
        // Relaxed: see `first_stage`.
        self.forks.fetch_add(1, Ordering::Relaxed);
    }

    /// Lets steps run again.
    ///
    /// # Safety
    /// As for [`Arena::unlock_after_fork`].
    #[cfg(not(all(loom, feature = "loom")))]
    pub(crate) unsafe fn unlock_after_fork(&self) {
        // SAFETY: by the caller's contract.
        unsafe { self.stage.unlock_after_fork() };
    }

    /// Gives up the pass that is under way and its scratch memory.
    pub(crate) fn abandon<P: Platform>(&mut self, arena: &Arena<P>) {
        match self.stage.get_mut().take() {
            Some(Stage::Collect(plan, _) | Stage::Search(plan, _) | Stage::Mesh(plan, ..)) => plan.release(arena),
            Some(Stage::Free { .. } | Stage::Thaw(..) | Stage::Class(..) | Stage::Hollow(..) | Stage::Purge(_))
            | None => {}
        }
    }
}
