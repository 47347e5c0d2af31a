//! Meshing until there is nothing more to do.

use core::time::Duration;

use anyhow::bail;
use meshheap::{MeshBudget, StepEnd};
use serde::Serialize;

use crate::measure::{cpu_time, milliseconds};
use crate::residue::heap::LinuxHeap;

/// Meshing has come to its end when a pass frees less than one page in this many.
const LITTLE: usize = 1000;
/// It has not come to an end after this many passes.
const MOST_PASSES: u32 = 20;

/// What meshing to the end did.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Passes {
    pub(crate) passes: u32,
    pub(crate) steps: u32,
    pub(crate) cpu_ms: f64,
    pub(crate) pages_meshed: usize,
    pub(crate) pages_purged: usize,
    /// The longest step by the wall clock: other programs' load counts.
    pub(crate) longest_step_us: f64,
    /// The longest step in CPU time.
    pub(crate) longest_step_cpu_us: f64,
    /// Meshing ended since the mapping budget was used up.
    pub(crate) mappings_used_up: bool,
}

/// Meshes in steps of `budget` until a pass frees nothing or little.
pub(crate) fn to_the_end(heap: &LinuxHeap, budget: MeshBudget) -> anyhow::Result<Passes> {
    let mut done = Passes::default();
    let mut meshed_before = 0;
    while done.passes < MOST_PASSES {
        // SAFETY: nobody else knows of the heap, and this thread writes to no object meanwhile.
        let (step, cpu) = cpu_time(|| unsafe { heap.mesh_at_safepoint(budget) });
        done.steps += 1;
        done.cpu_ms += milliseconds(cpu);
        done.pages_meshed += step.pages_freed;
        done.pages_purged += step.pages_purged;
        done.longest_step_us = done.longest_step_us.max(step.nanoseconds as f64 / 1e3);
        done.longest_step_cpu_us = done.longest_step_cpu_us.max(cpu.as_secs_f64() * 1e6);
        match step.end {
            StepEnd::Budget => continue,
            StepEnd::PassDone => done.passes += 1,
            StepEnd::MappingsUsedUp => return Ok(Passes { mappings_used_up: true, passes: done.passes + 1, ..done }),
            end => bail!("a step of meshing ended with {end:?}"),
        }
        let meshed = done.pages_meshed - meshed_before;
        let in_use = heap.statistics().span_bytes / page_bytes(heap);
        if meshed * LITTLE <= in_use {
            return Ok(done);
        }
        meshed_before = done.pages_meshed;
    }
    bail!("meshing still frees pages after {MOST_PASSES} passes")
}

/// Steps that may take a millisecond each.
pub(crate) const fn short() -> MeshBudget {
    MeshBudget::time(Duration::from_millis(1))
}

fn page_bytes(heap: &LinuxHeap) -> usize {
    meshheap::Platform::facts(heap.platform()).page_size
}
