//! Where the page map's tables lie, and how far they have been used.

use crate::base::config::MIN_ALIGN;
use crate::base::sync::{AtomicU8, UnsafeCell};
use crate::ds::table::Table;
use crate::page_heap::PageRecord;

/// How the page map's tables lie in one block of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MapLayout {
    pub(super) pages: u32,
    pub(super) page_size: usize,
    /// Words of a page's bitmap.
    pub(super) words: usize,
}

impl MapLayout {
    /// The layout for `pages` pages of `page_size` bytes.
    pub(crate) fn new(pages: u32, page_size: usize) -> Self {
        Self { pages, page_size, words: (page_size / MIN_ALIGN).div_ceil(64) }
    }

    /// Bytes of each table, in the order records, word 0, word 1, rest, kinds, backs; each starts on a page of its own, so
    /// that a table that is not used is not touched.
    pub(super) fn parts(&self) -> [usize; 6] {
        let pages = self.pages;
        let word1 = if self.words > 1 { pages } else { 0 };
        self.parts_for(TablePeaks { records: pages, word0: pages, word1, rest: pages, backs: pages })
    }

    fn parts_for(&self, peaks: TablePeaks) -> [usize; 6] {
        let bytes = [
            Table::<UnsafeCell<PageRecord>>::bytes(peaks.records as usize),
            Table::<UnsafeCell<u64>>::bytes(peaks.word0 as usize),
            Table::<UnsafeCell<u64>>::bytes(peaks.word1 as usize),
            Table::<UnsafeCell<u64>>::bytes(peaks.rest as usize * self.words.saturating_sub(2)),
            Table::<AtomicU8>::bytes(peaks.records as usize),
            Table::<AtomicU8>::bytes(peaks.backs as usize),
        ];
        bytes.map(|bytes| bytes.next_multiple_of(self.page_size))
    }

    /// Bytes of all tables: a multiple of the page size.
    pub(crate) fn bytes(&self) -> usize {
        self.parts().iter().sum()
    }

    /// Bytes of the tables that are touched when each was used up to its peak.
    pub(crate) fn touched_bytes(&self, peaks: TablePeaks) -> usize {
        self.parts_for(peaks).iter().sum()
    }
}

/// Up to which page (exclusive) each table has been used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TablePeaks {
    pub(crate) records: u32,
    word0: u32,
    word1: u32,
    rest: u32,
    backs: u32,
}

impl TablePeaks {
    /// A span with `words` words of bitmap and `pages` pages ends at page `end`.
    pub(crate) fn note(&mut self, end: u32, words: usize, pages: u32) {
        let raise = |peak: &mut u32, used: bool| *peak = if used { end.max(*peak) } else { *peak };
        raise(&mut self.word0, words > 0);
        raise(&mut self.word1, words > 1);
        raise(&mut self.rest, words > 2);
        raise(&mut self.backs, pages > 1);
    }
}
