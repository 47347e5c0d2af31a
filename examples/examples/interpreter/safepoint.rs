//! What is done while the script pauses: collections, steps of meshing, and a note of how long each took.

use core::time::Duration;
use std::time::Instant;

use meshheap::{MeshBudget, MeshStep, StepEnd};

use crate::memory::Store;

/// Garbage of at least so many bytes may pile up before a collection: below, marking costs more than it gives back.
const MIN_GROWTH_BYTES: usize = 16 << 20; // 16 MiB

/// A collection for want of memory that frees less than this part of all objects is the last: a script that only just
/// fits would else spend all its time in collections.
const MIN_FREED_PART: usize = 16;

/// The housekeeping of one interpreter.
#[derive(Debug)]
pub(crate) struct Safepoints {
    budget: MeshBudget,
    /// A pass is not through the heap yet.
    meshing: bool,
    pub(crate) collections: u64,
    pub(crate) longest_collection: Duration,
    /// How long each step of meshing took.
    steps: Vec<Duration>,
}

impl Safepoints {
    /// Meshes in steps of about `step`.
    pub(crate) fn new(step: Duration) -> Self {
        Self {
            budget: MeshBudget::time(step),
            meshing: false,
            collections: 0,
            longest_collection: Duration::ZERO,
            steps: Vec::new(),
        }
    }

    /// How long all steps of meshing took so far, the shortest first.
    pub(crate) fn sorted_steps(&mut self) -> &[Duration] {
        self.steps.sort_unstable();
        &self.steps
    }

    /// A collection if one is due, else a step of meshing if the last collection left something to mesh.
    pub(crate) fn visit(&mut self, store: &mut Store<'_>) {
        if store.collection_due() {
            self.collect(store);
        } else if self.meshing {
            self.meshing = self.mesh(store).end == StepEnd::Budget;
        }
    }

    pub(crate) fn collect(&mut self, store: &mut Store<'_>) -> usize {
        let begun = Instant::now();
        let freed = store.collect();
        self.longest_collection = self.longest_collection.max(begun.elapsed());
        self.collections += 1;
        store.collect_at(store.live_bytes() + store.live_bytes().max(MIN_GROWTH_BYTES));
        self.meshing = true;
        freed
    }

    /// A collection because the heap has no room. Says whether it is worthwhile to go on.
    pub(crate) fn make_room(&mut self, store: &mut Store<'_>) -> bool {
        let before = store.live_bytes();
        let freed = self.collect(store);
        // The free slots of a class that the local heap holds may be the pages that another class needs.
        store.flush();
        freed > before / MIN_FREED_PART
    }

    /// Collects, and meshes until there is nothing left to gain. Returns the bytes held between the two.
    pub(crate) fn settle(&mut self, store: &mut Store<'_>) -> usize {
        self.collect(store);
        store.flush();
        let held = store.heap().statistics().held_bytes;
        while self.pass(store) {}
        self.meshing = false;
        held
    }

    /// A pass through the heap, or the rest of one. Says whether another may gain more.
    fn pass(&mut self, store: &mut Store<'_>) -> bool {
        let mut pages_freed = 0;
        loop {
            let step = self.mesh(store);
            pages_freed += step.pages_freed;
            match step.end {
                StepEnd::Budget => {}
                StepEnd::PassDone => return pages_freed > 0,
                _ => return false,
            }
        }
    }

    fn mesh(&mut self, store: &mut Store<'_>) -> MeshStep {
        let begun = Instant::now();
        let step = store.mesh(self.budget);
        self.steps.push(begun.elapsed());
        step
    }
}
