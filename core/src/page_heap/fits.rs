//! Whether there is a run for an allocation, without taking it.

use crate::base::units::PageRun;
use crate::page_heap::{Fit, PageHeap, PageMap};

impl PageHeap {
    /// Whether a free run fits, or fresh pages do.
    pub(crate) fn fits(&self, map: &PageMap, fit: Fit) -> bool {
        let fresh = self.total - self.frontier.get();
        (fresh > 0 && fit.start_in(PageRun::new(self.frontier, fresh)).is_some())
            || self.clean.find(map, fit, false).is_some()
            || self.dirty.find(map, fit, false).is_some()
    }
}
