//! A heap at one moment, as data that can be sent.

use std::collections::BTreeMap;

use meshheap::{Budget, ClassUse, Heap, Platform, Resource};
use serde::{Deserialize, Serialize};

use crate::heap_map::{Cell, HeapMap, Panel, Picture, single};

/// What a heap holds, class by class and page by page.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// What the program calls the heap.
    pub name: String,
    /// Bytes of a page.
    pub page_size: usize,
    /// The heap's statistics, by the names of their fields.
    pub statistics: BTreeMap<String, u64>,
    /// The heap's budget and those above it.
    pub budgets: Vec<BudgetNode>,
    /// The size classes that have spans.
    pub classes: Vec<SizeClass>,
    /// Every page up to the last in use, as runs of equal ones.
    pages: Vec<(Cell, u32)>,
}

/// A node of a tree of budgets.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BudgetNode {
    /// The number that the program gave it.
    pub id: u32,
    /// Which resource: `virtual`, `physical` or `objects`.
    pub resource: String,
    /// Bytes in use.
    pub used: usize,
    /// The most that this has been.
    pub peak: usize,
    /// The limit.
    pub hard: usize,
}

/// What a size class holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SizeClass {
    /// Bytes of a slot.
    pub slot_size: usize,
    /// Slots that are taken.
    pub taken: usize,
    /// All slots.
    pub slots: usize,
    /// Spans.
    pub spans: usize,
    /// Spans that show others' pages.
    pub aliases: usize,
    /// Bytes of memory.
    pub held_bytes: usize,
}

impl SizeClass {
    /// How much of the class's memory holds nothing, in percent.
    #[must_use]
    pub const fn free_percent(&self) -> usize {
        let live = self.taken * self.slot_size;
        if self.held_bytes == 0 {
            0
        } else {
            100 - if live < self.held_bytes { live * 100 / self.held_bytes } else { 100 }
        }
    }
}

impl From<ClassUse> for SizeClass {
    fn from(class: ClassUse) -> Self {
        let ClassUse { slot_size, taken, slots, spans, aliases, held_bytes, .. } = class;
        Self { slot_size, taken, slots, spans, aliases, held_bytes }
    }
}

/// The limited resources of a budget and of those above it.
fn budgets(budget: Option<&Budget>) -> Vec<BudgetNode> {
    let nodes = core::iter::successors(budget, |node| node.parent());
    let resources = [(Resource::Virtual, "virtual"), (Resource::Physical, "physical"), (Resource::Objects, "objects")];
    let each = nodes.flat_map(|node| resources.map(|(resource, name)| (node.id(), node.usage(resource), name)));
    each.filter(|(_, usage, _)| usage.hard < usize::MAX)
        .map(|(id, usage, name)| BudgetNode {
            id,
            resource: name.to_owned(),
            used: usage.used,
            peak: usage.peak,
            hard: usage.hard,
        })
        .collect()
}

impl Snapshot {
    /// `heap` as it is now. Other threads may use it meanwhile; each part is then from a moment of its own.
    ///
    /// # Panics
    /// Never: statistics are valid JSON.
    pub fn of<P: Platform>(name: &str, heap: &Heap<P>) -> Self {
        let map = HeapMap::of(heap);
        let runs = map.cells().chunk_by(|left, right| left == right);
        let statistics = heap.statistics().json().to_string();
        Self {
            name: name.to_owned(),
            page_size: map.page_size(),
            statistics: serde_json::from_str(&statistics).expect("statistics are valid JSON"),
            budgets: budgets(heap.budget()),
            classes: heap.classes().map(SizeClass::from).collect(),
            pages: runs.map(|run| (run[0], u32::try_from(run.len()).unwrap_or(u32::MAX))).collect(),
        }
    }

    /// A field of the statistics; 0 for one that the program's version does not have.
    #[must_use]
    pub fn figure(&self, name: &str) -> usize {
        self.statistics.get(name).and_then(|&value| usize::try_from(value).ok()).unwrap_or(0)
    }

    /// The pages.
    #[must_use]
    pub fn map(&self) -> HeapMap {
        let cells = self.pages.iter().flat_map(|&(cell, count)| core::iter::repeat_n(cell, count as usize));
        HeapMap::new(cells.collect(), self.page_size)
    }

    /// The heap as a picture.
    #[must_use]
    pub fn picture(&self) -> Picture {
        let panel = Panel {
            caption: "now",
            map: &self.map(),
            live: self.figure("taken_bytes"),
            held: self.figure("held_bytes"),
            metadata: self.figure("metadata_bytes"),
            dirty: self.figure("dirty_bytes"),
        };
        single(&self.name, &panel)
    }
}
