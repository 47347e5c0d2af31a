//! How many mappings of the system the arena takes, counted by its borders: where neighbouring pages cannot lie in one
//! mapping. An arena without aliases is one mapping; a scattered alias adds two borders, one beside another alias adds one,
//! a run of pages that one call aliased adds two for all of it. Where the system happens to join neighbours, the count is
//! above the truth, never below.

use bitvec::order::Lsb0;
use bitvec::slice::BitSlice;
use core::ptr::NonNull;

use crate::base::config::MAPPING_RESERVE_PART;
use crate::base::units::{PageIndex, PageRun};

/// Which bound keeps mappings from being added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bound {
    /// What the caller may add.
    Allowance,
    /// What the heap may have (I7).
    Budget,
}

/// The borders. Guarded by the page-heap lock.
#[derive(Debug)]
pub(crate) struct Mappings {
    /// First one bit a page: whether it lies apart, an alias or shared among private ones. Then one bit a page: whether a border
    /// lies before it.
    words: NonNull<usize>,
    pages: usize,
    in_use: usize,
    budget: usize,
}

// SAFETY: the words are this structure's own.
unsafe impl Send for Mappings {}

/// Words of one of the two bit tables.
const fn table_words(pages: usize) -> usize {
    (pages + 1).div_ceil(usize::BITS as usize)
}

impl Mappings {
    /// Bytes of memory for `pages` pages.
    pub(crate) const fn bytes(pages: u32) -> usize {
        2 * table_words(pages as usize) * size_of::<usize>()
    }

    /// No aliases yet.
    ///
    /// # Safety
    /// `words` must be [`Mappings::bytes`] of zeroed memory, this structure's alone, for as long as it lives.
    pub(crate) unsafe fn new(words: NonNull<usize>, pages: u32, budget: usize) -> Self {
        Self { words, pages: pages as usize, in_use: 0, budget }
    }

    fn tables(&mut self) -> (&mut BitSlice<usize, Lsb0>, &mut BitSlice<usize, Lsb0>) {
        let words = table_words(self.pages);
        // SAFETY: the memory holds twice as many words, by `new`'s contract, and `&mut self` is exclusive.
        let all = unsafe { core::slice::from_raw_parts_mut(self.words.as_ptr(), 2 * words) };
        let (apart, borders) = all.split_at_mut(words);
        (BitSlice::from_slice_mut(apart), BitSlice::from_slice_mut(borders))
    }

    /// Mappings beyond the first that the arena takes.
    pub(crate) const fn in_use(&self) -> usize {
        self.in_use
    }

    /// The most that `in_use` may become (I7).
    pub(crate) const fn budget(&self) -> usize {
        self.budget
    }

    /// How many meshes may add.
    pub(crate) const fn free(&self) -> usize {
        (self.budget - self.reserve()).saturating_sub(self.in_use)
    }

    /// Changes the budget. Mappings in use above it stay; none are added.
    pub(crate) const fn set_budget(&mut self, budget: usize) {
        self.budget = budget;
    }

    /// What is kept for parts of mappings that go back: taking pages out of the middle of one makes two of the rest.
    const fn reserve(&self) -> usize {
        self.budget / MAPPING_RESERVE_PART
    }

    /// Counts `run` as one mapping of its own, before the call that makes it one. `allowance` is what the caller may still add. Returns
    /// what it added, or the bound that does not reach.
    pub(crate) fn add(&mut self, run: PageRun, allowance: usize) -> Result<usize, Bound> {
        self.set_apart(run, self.budget - self.reserve(), allowance)
    }

    /// The same for what was counted before a fork and is laid together again: what it adds goes again when its neighbours are, too.
    pub(crate) fn add_again(&mut self, run: PageRun, allowance: usize) -> Result<usize, Bound> {
        self.set_apart(run, self.budget, allowance)
    }

    /// Counts `run`, a part of a mapping or all of it, as one of its own, before the call that gives it back. Tells which of its two
    /// borders that made; none if the budget has no room for the rests that it leaves. Until the run is gone one or two more may
    /// be counted than there are.
    pub(crate) fn part(&mut self, run: PageRun) -> Option<[bool; 2]> {
        let (from, to) = (run.start.as_usize(), run.end().as_usize());
        let (in_use, budget) = (self.in_use, self.budget);
        let (apart, borders) = self.tables();
        let rests = usize::from(from > 0 && apart[from - 1]) + usize::from(apart[to]);
        let before = borders[from..=to].count_ones();
        if rests > before && in_use + rests - before > budget {
            return None;
        }
        let made = [from, to].map(|border| !borders[border]);
        self.set_apart(run, usize::MAX, usize::MAX).ok()?;
        Some(made)
    }

    /// Takes back what [`Mappings::part`] did, and told: the call was refused, and the run is where it was.
    pub(crate) fn rejoin(&mut self, run: PageRun, made: [bool; 2]) {
        for (border, _) in [run.start, run.end()].into_iter().zip(made).filter(|&(_, made)| made) {
            self.join(border);
        }
    }

    fn set_apart(&mut self, run: PageRun, most: usize, allowance: usize) -> Result<usize, Bound> {
        let (from, to) = (run.start.as_usize(), run.end().as_usize());
        let in_use = self.in_use;
        let (apart, borders) = self.tables();
        let before = borders[from..=to].count_ones();
        let added = 2_usize.saturating_sub(before);
        if added > 0 && in_use + added > most {
            return Err(Bound::Budget);
        }
        if added > allowance {
            return Err(Bound::Allowance);
        }
        apart[from..to].fill(true);
        borders[from..=to].fill(false);
        // The arena's two ends are borders of the reservation already, but neighbours may be mapped there.
        borders.set(from, true);
        borders.set(to, true);
        self.in_use = in_use + 2 - before;
        Ok(added)
    }

    /// Counts the pages on both sides of the border before `page` as one mapping, if they lie apart: they show pages that are
    /// neighbours as well.
    pub(crate) fn join(&mut self, page: PageIndex) {
        let at = page.as_usize();
        let (apart, borders) = self.tables();
        if at > 0 && apart[at - 1] && apart[at] && borders.replace(at, false) {
            self.in_use -= 1;
        }
    }

    /// Counts `run` as lying in one mapping with its neighbours again.
    pub(crate) fn remove(&mut self, run: PageRun) {
        let (from, to) = (run.start.as_usize(), run.end().as_usize());
        let in_use = self.in_use;
        let (apart, borders) = self.tables();
        let before = borders[from..=to].count_ones();
        apart[from..to].fill(false);
        borders[from..=to].fill(false);
        let first = from > 0 && apart[from - 1];
        let last = apart[to];
        borders.set(from, first);
        borders.set(to, last);
        self.in_use = in_use + usize::from(first) + usize::from(last) - before;
    }

    /// Whether `page` is counted as lying apart.
    pub(crate) fn is_apart(&mut self, page: PageIndex) -> bool {
        self.tables().0[page.as_usize()]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Bound, Mappings};
    use crate::base::units::{PageIndex, PageRun};
    use core::ptr::NonNull;
    use quickcheck::quickcheck;
    use std::vec::Vec;

    const PAGES: u32 = 70;

    /// Mappings by their definition: each page shows `Some(call)` of the call that aliased it, or its own memory.
    fn borders(shown: &[Option<usize>]) -> usize {
        let own_ends = [None];
        let all: Vec<_> = own_ends.iter().chain(shown).chain(&own_ends).collect();
        all.windows(2).filter(|pair| pair[0] != pair[1]).count()
    }

    quickcheck! {
        fn borders_are_counted_exactly(calls: Vec<(bool, u8, u8)>) -> bool {
            let mut words = [0usize; 16];
            assert!(Mappings::bytes(PAGES) <= size_of_val(&words));
            let start = NonNull::new(words.as_mut_ptr()).expect("an array");
            // SAFETY: the array is zeroed, large enough and used by nothing else.
            let mut mappings = unsafe { Mappings::new(start, PAGES, usize::MAX) };
            let mut shown = [None; PAGES as usize];
            for (call, &(alias, from, count)) in calls.iter().enumerate() {
                let from = u32::from(from) % PAGES;
                let count = (u32::from(count) % 5 + 1).min(PAGES - from);
                let run = PageRun::new(PageIndex::new(from), count);
                let (low, high) = (from as usize, (from + count) as usize);
                if alias {
                    mappings.add(run, usize::MAX).expect("no budget");
                    shown[low..high].fill(Some(call));
                } else {
                    mappings.remove(run);
                    shown[low..high].fill(None);
                }
                if mappings.in_use() != borders(&shown) {
                    return false;
                }
            }
            true
        }
    }

    #[test]
    fn the_budget_and_the_allowance_hold() {
        let mut words = [0usize; 16];
        let start = NonNull::new(words.as_mut_ptr()).expect("an array");
        // SAFETY: the array is zeroed, large enough and used by nothing else.
        let mut mappings = unsafe { Mappings::new(start, PAGES, 3) };
        let page = |index| PageRun::new(PageIndex::new(index), 1);
        assert_eq!(mappings.add(page(5), 1), Err(Bound::Allowance), "two borders exceed an allowance of one");
        assert_eq!(mappings.add(page(5), 2), Ok(2));
        assert_eq!(mappings.add(page(9), 2), Err(Bound::Budget), "four borders exceed a budget of three");
        assert_eq!(mappings.add(page(6), 2), Ok(1), "a neighbour adds one");
        assert_eq!(mappings.in_use(), 3);
    }
}
