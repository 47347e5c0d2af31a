//! Meshing step by step at a safepoint, until nothing more is to be had.

use core::time::Duration;

use meshheap::{Heap, MeshBudget, MeshStep, Platform, StepEnd};

/// A pass that frees less than one part in this many of what the heap holds is the last.
const WORTHWHILE_PART: usize = 100;

/// What many steps of meshing came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeshReport {
    /// Steps taken.
    pub steps: usize,
    /// Passes begun.
    pub passes: usize,
    /// Pages freed by meshing.
    pub pages_freed: usize,
    /// Free pages with old content that were given back.
    pub pages_purged: usize,
    /// Mappings added.
    pub mappings: usize,
    /// The longest step.
    pub longest: Duration,
    /// All steps together.
    pub total: Duration,
    /// Why the last step ended.
    pub end: StepEnd,
}

impl MeshReport {
    const fn new() -> Self {
        Self {
            steps: 0,
            passes: 0,
            pages_freed: 0,
            pages_purged: 0,
            mappings: 0,
            longest: Duration::ZERO,
            total: Duration::ZERO,
            end: StepEnd::PassDone,
        }
    }

    fn add(&mut self, step: &MeshStep) {
        let time = Duration::from_nanos(step.nanoseconds);
        self.steps += 1;
        self.pages_freed += step.pages_freed;
        self.pages_purged += step.pages_purged;
        self.mappings += step.mappings;
        self.longest = self.longest.max(time);
        self.total += time;
        self.end = step.end;
    }
}

/// Meshes `heap` in steps of at most `budget`, pass after pass, until a pass frees less than a hundredth of what the heap
/// held before it, or until meshing cannot go on ([`MeshReport::end`] then says why). `see` is shown the report so far after
/// each step.
///
/// # Safety
/// As for [`Heap::mesh_at_safepoint`], for the whole call.
pub unsafe fn mesh_until_settled<P: Platform>(
    heap: &Heap<P>,
    budget: MeshBudget,
    mut see: impl FnMut(&MeshReport),
) -> MeshReport {
    let mut report = MeshReport::new();
    loop {
        let held = heap.statistics().held_bytes;
        report.passes += 1;
        // SAFETY: the caller keeps the same contract.
        unsafe { mesh_one_pass(heap, budget, &mut report, &mut see) };
        let freed = held.saturating_sub(heap.statistics().held_bytes);
        if report.end != StepEnd::PassDone || freed < held / WORTHWHILE_PART {
            return report;
        }
    }
}

/// Steps until one of them ends for another reason than its budget.
///
/// # Safety
/// As for [`Heap::mesh_at_safepoint`], for the whole call.
unsafe fn mesh_one_pass<P: Platform>(
    heap: &Heap<P>,
    budget: MeshBudget,
    report: &mut MeshReport,
    see: &mut impl FnMut(&MeshReport),
) {
    loop {
        // SAFETY: the caller keeps the same contract.
        let step = unsafe { heap.mesh_at_safepoint(budget) };
        report.add(&step);
        see(report);
        if step.end != StepEnd::Budget {
            return;
        }
    }
}
