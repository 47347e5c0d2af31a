//! One scenario, measured.

use meshheap::{MeshBudget, Statistics};
use serde::Serialize;

use crate::measure::{ratio, warm};
use crate::residue::heap::{self, Cost};
use crate::residue::passes::{self, Passes};
use crate::residue::population::Population;
use crate::residue::scenario::{Scenario, Survivors};

/// What one scenario came to. Bytes, unless the name says otherwise.
#[derive(Serialize)]
pub(crate) struct Trial {
    pub(crate) object_size: usize,
    pub(crate) survivors: Survivors,
    pub(crate) slot_order: &'static str,
    pub(crate) heap_bytes: usize,
    pub(crate) live_bytes: usize,
    /// By the heap's own statistics, metadata included.
    pub(crate) held_before_bytes: usize,
    pub(crate) held_bytes: usize,
    pub(crate) metadata_bytes: usize,
    pub(crate) held_per_live: f64,
    /// By the system's count.
    pub(crate) pss_bytes: Option<usize>,
    pub(crate) pss_per_live: Option<f64>,
    /// Memory of the file behind the arena, shown at an address or not.
    pub(crate) arena_file_bytes: Option<usize>,
    pub(crate) limit: Option<f64>,
    pub(crate) mappings: usize,
    pub(crate) mapping_budget: usize,
    /// In one go.
    pub(crate) whole: Passes,
    /// A second heap, in steps of a millisecond.
    pub(crate) stepped: Passes,
}

/// A heap after meshing.
struct Residue {
    live_bytes: usize,
    before: Statistics,
    after: Statistics,
    pss: Option<usize>,
    file: Option<usize>,
    passes: Passes,
}

pub(crate) fn run(scenario: Scenario, seed: u64) -> anyhow::Result<Trial> {
    let whole = mesh(&scenario, seed, MeshBudget::UNLIMITED)?;
    let stepped = mesh(&scenario, seed, passes::short())?;
    Ok(Trial {
        object_size: scenario.size,
        survivors: scenario.survivors,
        slot_order: scenario.order_name(),
        heap_bytes: scenario.bytes,
        live_bytes: whole.live_bytes,
        held_before_bytes: whole.before.held_bytes,
        held_bytes: whole.after.held_bytes,
        metadata_bytes: whole.after.metadata_bytes,
        held_per_live: ratio(whole.after.held_bytes, whole.live_bytes),
        pss_bytes: whole.pss,
        pss_per_live: whole.pss.map(|pss| ratio(pss, whole.live_bytes)),
        arena_file_bytes: whole.file,
        limit: scenario.limit,
        mappings: whole.after.mappings,
        mapping_budget: whole.after.mapping_budget,
        whole: whole.passes,
        stepped: stepped.passes,
    })
}

/// Fills a heap, fragments it, meshes it and verifies what is left.
fn mesh(scenario: &Scenario, seed: u64, budget: MeshBudget) -> anyhow::Result<Residue> {
    warm(scenario.bytes);
    let mut population = Population::new(scenario, seed)?;
    let cost_before = Cost::now();
    let heap = heap::new(seed, scenario.order)?;
    let mut local = heap.local();
    population.fill(&mut local)?;
    population.thin(&mut local, scenario.survivors);
    local.flush();
    let before = heap.statistics();
    let passes = passes::to_the_end(&heap, budget)?;
    population.verify()?;
    let cost = Cost::now();
    Ok(Residue {
        live_bytes: population.live_bytes(),
        before,
        after: heap.statistics(),
        pss: cost.pss_since(&cost_before),
        file: cost.file_since(&cost_before),
        passes,
    })
}

#[cfg(test)]
mod tests {
    use super::run;
    use crate::residue::scenario::Scenario;

    #[test]
    fn a_small_scenario_is_meshed_and_verified() {
        let trial = run(Scenario::rehearsal(), 1).expect("the survivors' bytes are theirs");
        assert!(trial.live_bytes > 0 && trial.held_bytes >= trial.live_bytes);
        assert!(trial.whole.pages_meshed > 0 && trial.held_bytes < trial.held_before_bytes);
    }
}
