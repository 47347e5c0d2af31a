//! What every page of a heap is used for, a byte a page.

use meshheap::{Heap, PageUse, Platform};
use serde::{Deserialize, Serialize};

/// Steps by which occupancy is told apart: enough for the eye, few enough for neighbours to be alike.
pub const LEVELS: u8 = 12;

/// What a page is used for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Cell {
    /// Free, without memory.
    Clean,
    /// Free, with memory of old content.
    Dirty,
    /// Shows another page's memory and has none of its own.
    Alias,
    /// Holds small objects, its aliases' included: so full, from 0 (nearly empty) to `LEVELS - 1` (full).
    Span(u8),
    /// A large object's.
    Large,
}

/// Every page of a heap up to the last in use, in address order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeapMap {
    cells: Vec<Cell>,
    page_size: usize,
}

impl HeapMap {
    /// The heap as it is now.
    pub fn of<P: Platform>(heap: &Heap<P>) -> Self {
        let mut cells = Vec::new();
        heap.walk_pages(|run, used| cells.resize(cells.len() + run.count as usize, Cell::from(used)));
        while cells.last() == Some(&Cell::Clean) {
            cells.pop();
        }
        Self { cells, page_size: heap.platform().facts().page_size }
    }

    /// These pages.
    #[must_use]
    pub const fn new(cells: Vec<Cell>, page_size: usize) -> Self {
        Self { cells, page_size }
    }

    /// The pages.
    #[must_use]
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Bytes of a page.
    #[must_use]
    pub const fn page_size(&self) -> usize {
        self.page_size
    }

    /// How many pages are such as `wanted` says.
    #[must_use]
    pub fn count(&self, wanted: impl Fn(Cell) -> bool) -> usize {
        self.cells.iter().filter(|&&cell| wanted(cell)).count()
    }
}

impl From<PageUse> for Cell {
    fn from(used: PageUse) -> Self {
        match used {
            PageUse::Clean => Self::Clean,
            PageUse::Span { slots, shared_live, .. } => Self::Span(level(shared_live, slots)),
            PageUse::Alias { .. } => Self::Alias,
            PageUse::Large => Self::Large,
            // Dirty, and what later versions may add: pages with memory that no object uses.
            _ => Self::Dirty,
        }
    }
}

fn level(live: usize, slots: usize) -> u8 {
    let level = live * usize::from(LEVELS) / slots.max(1);
    u8::try_from(level).unwrap_or(LEVELS).min(LEVELS - 1)
}

#[cfg(test)]
mod tests {
    use super::{LEVELS, level};

    #[test]
    fn occupancy_has_levels() {
        assert_eq!((level(0, 64), level(63, 64), level(64, 64)), (0, LEVELS - 1, LEVELS - 1));
        assert!(level(16, 64) < level(32, 64));
    }
}
