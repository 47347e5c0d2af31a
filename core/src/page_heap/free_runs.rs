//! Free runs of pages of one content, in lists by length, linked through the page map's records: O(1) to insert, remove and
//! merge, and a short search to take.

use crate::base::units::{PageIndex, PageLink, PageRun};
use crate::page_heap::page_map::{PageKind, PageMap, PageRecord};
use crate::page_heap::{Content, Fit};

/// Lists for each length up to here; longer runs share a list with those up to twice as long.
const EXACT: u32 = 64;
const LISTS: usize = EXACT as usize + (u32::BITS - EXACT.ilog2()) as usize;

/// Runs of a list of mixed lengths that a quick search looks at.
const QUICK_LOOKS: usize = 32;

/// The lists.
#[derive(Debug)]
pub(crate) struct FreeRuns {
    heads: [PageLink; LISTS],
    /// Bit `l` is set iff list `l` is not empty.
    occupied: u128,
    pages: u32,
}

impl Default for FreeRuns {
    fn default() -> Self {
        Self { heads: [PageLink::NONE; LISTS], occupied: 0, pages: 0 }
    }
}

const _: () = assert!(LISTS <= 128);

/// The list for runs of `count` pages.
const fn list_of(count: u32) -> usize {
    if count < EXACT { count as usize } else { (EXACT + count.ilog2() - EXACT.ilog2()) as usize }
}

impl FreeRuns {
    /// Pages in all runs.
    pub(crate) const fn pages(&self) -> u32 {
        self.pages
    }

    /// Adds a run, unmerged.
    pub(crate) fn insert(&mut self, map: &PageMap, run: PageRun, content: Content) {
        let list = list_of(run.count);
        let (clean, pages, next) = (content == Content::Zero, run.count, self.heads[list]);
        if run.count > 1 {
            set(map, run.last(), PageRecord::FreeRunEnd { clean, pages });
        }
        set(map, run.start, PageRecord::FreeRun { clean, pages, previous: PageLink::NONE, next });
        if let Some(after) = next.get() {
            relink(map, after, |previous, _| *previous = PageLink::to(run.start));
        }
        self.heads[list] = PageLink::to(run.start);
        self.occupied |= 1 << list;
        self.pages += run.count;
    }

    /// Takes a run off its list. Its records still say that it is free.
    pub(crate) fn remove(&mut self, map: &PageMap, run: PageRun) {
        let PageRecord::FreeRun { previous, next, .. } = get(map, run.start) else {
            unreachable!("I1: a run on a list starts with its record");
        };
        match previous.get() {
            Some(before) => relink(map, before, |_, link| *link = next),
            None => self.set_head(list_of(run.count), next),
        }
        if let Some(after) = next.get() {
            relink(map, after, |link, _| *link = previous);
        }
        set(map, run.start, PageRecord::Unused);
        set(map, run.last(), PageRecord::Unused);
        self.pages -= run.count;
    }

    /// Takes the first `count` pages of a run off it, if what is left belongs on the same list: a long run then keeps its place
    /// there. Returns whether it was done.
    pub(crate) fn shorten(&mut self, map: &PageMap, run: PageRun, count: u32) -> bool {
        let list = list_of(run.count);
        // No list holds both runs of one page and longer ones: what is left has an end.
        if count >= run.count || list_of(run.count - count) != list {
            return false;
        }
        let rest = PageRun::new(run.start.plus(count), run.count - count);
        let PageRecord::FreeRun { clean, previous, next, .. } = get(map, run.start) else {
            unreachable!("I1: a run on a list starts with its record");
        };
        set(map, run.start, PageRecord::Unused);
        set(map, rest.start, PageRecord::FreeRun { clean, pages: rest.count, previous, next });
        set(map, rest.last(), PageRecord::FreeRunEnd { clean, pages: rest.count });
        match previous.get() {
            Some(before) => relink(map, before, |_, link| *link = PageLink::to(rest.start)),
            None => self.heads[list] = PageLink::to(rest.start),
        }
        if let Some(after) = next.get() {
            relink(map, after, |link, _| *link = PageLink::to(rest.start));
        }
        self.pages -= count;
        true
    }

    fn set_head(&mut self, list: usize, head: PageLink) {
        self.heads[list] = head;
        if head == PageLink::NONE {
            self.occupied &= !(1 << list);
        }
    }

    /// A run in which `fit` fits: of the shortest list that has one, or, `quick`, of what a short search finds.
    pub(crate) fn find(&self, map: &PageMap, fit: Fit, quick: bool) -> Option<PageRun> {
        let looks = if quick { QUICK_LOOKS } else { usize::MAX };
        let mut lists = self.occupied & (u128::MAX << list_of(fit.count));
        while lists != 0 {
            let list = lists.trailing_zeros() as usize;
            let found = self.runs(map, list).take(looks).find(|&run| fit.start_in(run).is_some());
            if found.is_some() {
                return found;
            }
            lists &= lists - 1;
        }
        None
    }

    /// Whether there is a run of `count` pages or more. One of [`EXACT`] pages and more may be overlooked, if no list of longer ones
    /// holds any.
    pub(crate) const fn has_run_of(&self, count: u32) -> bool {
        let list = list_of(count) + (count > EXACT && !count.is_power_of_two()) as usize;
        self.occupied >> list != 0
    }

    /// A run of the list with the longest runs.
    pub(crate) fn longest(&self, map: &PageMap) -> Option<PageRun> {
        let list = self.occupied.checked_ilog2()? as usize;
        self.runs(map, list).next()
    }

    fn runs<'a>(&self, map: &'a PageMap, list: usize) -> impl Iterator<Item = PageRun> + use<'a> {
        let mut link = self.heads[list];
        core::iter::from_fn(move || {
            let start = link.get()?;
            let PageRecord::FreeRun { pages, next, .. } = get(map, start) else {
                unreachable!("I1: links lead to free runs");
            };
            link = next;
            Some(PageRun::new(start, pages))
        })
    }

    /// The run of this content whose last page is `page`, if there is one.
    pub(crate) fn ending_at(map: &PageMap, page: PageIndex, content: Content) -> Option<PageRun> {
        if map.kind(page) != PageKind::Free {
            return None;
        }
        match get(map, page) {
            PageRecord::FreeRun { clean, pages: 1, .. } if clean == (content == Content::Zero) => {
                Some(PageRun::new(page, 1))
            }
            PageRecord::FreeRunEnd { clean, pages } if clean == (content == Content::Zero) => {
                Some(PageRun::new(PageIndex::new(page.get() + 1 - pages), pages))
            }
            _ => None,
        }
    }

    /// The run of this content whose first page is `page`, if there is one.
    pub(crate) fn starting_at(map: &PageMap, page: PageIndex, content: Content) -> Option<PageRun> {
        if map.kind(page) != PageKind::Free {
            return None;
        }
        match get(map, page) {
            PageRecord::FreeRun { clean, pages, .. } if clean == (content == Content::Zero) => {
                Some(PageRun::new(page, pages))
            }
            _ => None,
        }
    }
}

fn get(map: &PageMap, page: PageIndex) -> PageRecord {
    // SAFETY: called by the page heap, which is locked, for pages of kind Free only.
    unsafe { map.record(page) }
}

fn set(map: &PageMap, page: PageIndex, record: PageRecord) {
    // SAFETY: as for `get`.
    unsafe { map.set_record(page, record) };
}

/// Changes the links of the free run at `page`.
fn relink(map: &PageMap, page: PageIndex, change: impl FnOnce(&mut PageLink, &mut PageLink)) {
    // SAFETY: as for `get`.
    unsafe { map.relink(page, change) };
}
