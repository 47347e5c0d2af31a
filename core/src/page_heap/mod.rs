//! The arena's pages: which are free, which are known to be zero, what each page belongs to, which are aliases.
//!
//! ```text
//!   arena   [ span ][ free ][ large ........ ][ free ][ span ]|  never handed out  ...
//!                    dirty                     clean          ^ frontier
//! ```
//!
//! Every arena page is in exactly one of: behind the frontier, a free run, in transit (its thread is purging or unaliasing
//! it), a span, a large object (I1). Free runs are *clean* (read as zero, hold no memory) or *dirty* (hold old content);
//! neighbours of one kind are merged at once, so that a purge of the last dirty page between two clean runs joins all three.

mod free_runs;
pub(crate) mod map_layout;
pub(crate) mod mappings;
pub(crate) mod page_map;

use core::ptr::NonNull;

use crate::base::config::{DIRTY_PAGES_MIN, DIRTY_PAGES_PART, DIRTY_PERIOD_NS, PURGE_PAGES_PER_FREE};
use crate::base::units::{PageIndex, PageLink, PageRun};
use crate::ds::size_class::Cut;
use free_runs::FreeRuns;
pub(crate) use map_layout::TablePeaks;
use mappings::Mappings;
pub(crate) use page_map::{PageKind, PageMap, PageRecord};

/// Whether pages are known to read as zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// They read as zero and, where commit is lazy, hold no memory.
    Zero,
    /// They hold whatever was written last.
    Old,
}

/// How a run must lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fit {
    /// Pages wanted.
    pub(crate) count: u32,
    /// The first page's index plus `phase` must be a multiple of this.
    pub(crate) align: u32,
    /// What the arena's base is off a multiple of the alignment, in pages.
    pub(crate) phase: u32,
    /// The content that is looked for first.
    pub(crate) prefer: Content,
    /// Old pages come before fresh memory, even if zeroes are preferred.
    pub(crate) spare_fresh: bool,
}

impl Fit {
    /// `count` pages anywhere, rather used ones than fresh memory.
    pub(crate) const fn anywhere(count: u32) -> Self {
        Self { count, align: 1, phase: 0, prefer: Content::Old, spare_fresh: true }
    }

    /// Where in `run` a fitting start lies.
    fn start_in(&self, run: PageRun) -> Option<PageIndex> {
        let absolute = u64::from(run.start.get()) + u64::from(self.phase);
        let skip = absolute.next_multiple_of(u64::from(self.align)) - absolute;
        let fits = skip + u64::from(self.count) <= u64::from(run.count);
        #[expect(clippy::cast_possible_truncation, reason = "it fits into the run")]
        fits.then(|| run.start.plus(skip as u32))
    }
}

/// The page heap. Guarded by the lock of rank `PageHeap`.
#[derive(Debug)]
pub(crate) struct PageHeap {
    clean: FreeRuns,
    dirty: FreeRuns,
    /// Pages from here on were never handed out, or were given back as a whole.
    frontier: PageIndex,
    /// Pages of the arena.
    total: u32,
    /// Pages in spans and large objects.
    in_use: u32,
    /// The most that `in_use` has been.
    in_use_peak: u32,
    /// The fewest dirty pages since `dirty_since`: so many were not needed.
    dirty_low: u32,
    dirty_since: u64,
    /// Dirty pages that are to be purged bit by bit.
    purge_debt: u32,
    /// How far the page map's tables have been used.
    tables: TablePeaks,
    /// Pages of spans that are aliases: they show other pages' memory and hold none of their own.
    aliased: u32,
    /// Backing pages of aliases whose purge failed: no address shows them.
    unpurged: u32,
    mappings: Mappings,
    /// Dead aliases that could not be unaliased yet, linked through their records.
    parted: PageLink,
    /// Pages of those.
    parted_pages: u32,
}

impl PageHeap {
    /// A page heap over `total` fresh pages.
    ///
    /// # Safety
    /// `bits` must be [`Mappings::bytes`] of zeroed memory, the page heap's alone, for as long as it lives.
    pub(crate) unsafe fn new(total: u32, bits: NonNull<usize>, mapping_budget: usize) -> Self {
        Self {
            clean: FreeRuns::default(),
            dirty: FreeRuns::default(),
            frontier: PageIndex::new(0),
            total,
            in_use: 0,
            in_use_peak: 0,
            dirty_low: 0,
            dirty_since: 0,
            purge_debt: 0,
            tables: TablePeaks::default(),
            aliased: 0,
            unpurged: 0,
            // SAFETY: by the caller's contract.
            mappings: unsafe { Mappings::new(bits, total, mapping_budget) },
            parted: PageLink::NONE,
            parted_pages: 0,
        }
    }

    /// Bytes of the table that [`PageHeap::new`] needs.
    pub(crate) const fn table_bytes(total: u32) -> usize {
        Mappings::bytes(total)
    }

    /// Notes that a span that is cut like this ends at `end`: its class's tables are used up to there.
    pub(crate) fn note_tables(&mut self, end: PageIndex, cut: &Cut) {
        self.tables.note(end.get(), cut.words(), cut.pages);
    }

    /// Free -> in use: a run that fits, whole and off all lists, its pages' kinds and records still those of free pages.
    pub(crate) fn take(&mut self, map: &PageMap, fit: Fit) -> Option<(PageRun, Content)> {
        let order = match fit.prefer {
            Content::Old => [Content::Old, Content::Zero],
            Content::Zero => [Content::Zero, Content::Old],
        };
        let taken = self
            .take_free(map, fit, order[0], true)
            .or_else(|| self.take_second(map, fit, order[1]))
            .or_else(|| self.take_free(map, fit, order[0], false))
            .or_else(|| self.take_free(map, fit, order[1], false))?;
        self.in_use += fit.count;
        self.in_use_peak = self.in_use_peak.max(self.in_use);
        Some(taken)
    }

    /// What comes after the preferred content: clean runs before the frontier, and both before dirty ones, unless
    /// fresh memory is to be spared.
    fn take_second(&mut self, map: &PageMap, fit: Fit, second: Content) -> Option<(PageRun, Content)> {
        match second {
            Content::Zero => self.take_free(map, fit, Content::Zero, true).or_else(|| self.take_fresh(map, fit)),
            Content::Old if fit.spare_fresh => {
                self.take_free(map, fit, Content::Old, true).or_else(|| self.take_fresh(map, fit))
            }
            Content::Old => self.take_fresh(map, fit).or_else(|| self.take_free(map, fit, Content::Old, true)),
        }
    }

    fn take_free(&mut self, map: &PageMap, fit: Fit, content: Content, quick: bool) -> Option<(PageRun, Content)> {
        let runs = self.runs(content);
        let whole = runs.find(map, fit, quick)?;
        runs.remove(map, whole);
        let start = fit.start_in(whole).expect("`find` found that it fits");
        let wanted = PageRun::new(start, fit.count);
        self.put_back(map, whole.start, wanted.start, content);
        self.put_back(map, wanted.end(), whole.end(), content);
        self.dirty_low = self.dirty_low.min(self.dirty.pages());
        Some((wanted, content))
    }

    fn take_fresh(&mut self, map: &PageMap, fit: Fit) -> Option<(PageRun, Content)> {
        let left = self.total - self.frontier.get();
        if left == 0 {
            return None;
        }
        let start = fit.start_in(PageRun::new(self.frontier, left))?;
        let wanted = PageRun::new(start, fit.count);
        let skipped = self.frontier;
        self.set_frontier(wanted.end());
        self.put_back(map, skipped, wanted.start, Content::Zero);
        Some((wanted, Content::Zero))
    }

    fn set_frontier(&mut self, frontier: PageIndex) {
        self.frontier = frontier;
        self.tables.records = self.tables.records.max(frontier.get());
    }

    fn put_back(&mut self, map: &PageMap, from: PageIndex, to: PageIndex, content: Content) {
        if from < to {
            self.runs(content).insert(map, PageRun::new(from, to.since(from)), content);
        }
    }

    fn runs(&mut self, content: Content) -> &mut FreeRuns {
        match content {
            Content::Zero => &mut self.clean,
            Content::Old => &mut self.dirty,
        }
    }

    /// In use -> in transit: the pages belong to no span any more, and to the calling thread alone.
    pub(crate) fn detach(&mut self, map: &PageMap, run: PageRun) {
        self.in_use -= run.count;
        map.set_kinds(run, PageKind::Free);
        self.set_in_transit(map, run, true, PageLink::NONE);
    }

    /// In transit -> free: merged with free neighbours of the same content.
    pub(crate) fn insert(&mut self, map: &PageMap, run: PageRun, content: Content) {
        let mut merged = run;
        if let Some(before) = self.neighbour_before(map, run, content) {
            self.runs(content).remove(map, before);
            merged = PageRun::new(before.start, before.count + merged.count);
        }
        if let Some(after) = self.neighbour_after(map, run, content) {
            self.runs(content).remove(map, after);
            merged.count += after.count;
        }
        if content == Content::Zero && merged.end() == self.frontier {
            self.frontier = merged.start;
            map.clear_records(merged);
        } else {
            self.runs(content).insert(map, merged, content);
        }
    }

    fn neighbour_before(&self, map: &PageMap, run: PageRun, content: Content) -> Option<PageRun> {
        let page = PageIndex::new(run.start.get().checked_sub(1)?);
        FreeRuns::ending_at(map, page, content)
    }

    fn neighbour_after(&self, map: &PageMap, run: PageRun, content: Content) -> Option<PageRun> {
        if run.end() >= self.frontier { None } else { FreeRuns::starting_at(map, run.end(), content) }
    }

    /// In use -> free, for pages that show their own memory.
    pub(crate) fn free(&mut self, map: &PageMap, run: PageRun) {
        self.detach(map, run);
        self.insert(map, run, Content::Old);
    }

    /// Lengthens the used run `run` by the free pages behind it, if there are `more` of them. Tells their content.
    pub(crate) fn extend(&mut self, map: &PageMap, run: PageRun, more: u32) -> Option<Content> {
        let content = if run.end() == self.frontier {
            if more > self.total - self.frontier.get() {
                return None;
            }
            self.set_frontier(self.frontier.plus(more));
            Content::Zero
        } else {
            let contents = [Content::Old, Content::Zero];
            let found = contents.into_iter().find_map(|c| Some((self.neighbour_after(map, run, c)?, c)));
            let (after, content) = found.filter(|(after, _)| after.count >= more)?;
            self.runs(content).remove(map, after);
            self.put_back(map, after.start.plus(more), after.end(), content);
            content
        };
        self.in_use += more;
        self.in_use_peak = self.in_use_peak.max(self.in_use);
        Some(content)
    }

    /// Dirty pages to purge now: those beyond [`DIRTY_PAGES_MIN`] and [`DIRTY_PAGES_PART`] that were not reused during the
    /// last [`DIRTY_PERIOD_NS`] of the clock `now_ns`, or at once where there is no clock. No more than
    /// [`PURGE_PAGES_PER_FREE`] at a time, or as many as were just `freed`, so that no small free takes long; the next one
    /// goes on.
    pub(crate) fn surplus_dirty(&mut self, freed: u32, now_ns: impl FnOnce() -> u64) -> u32 {
        if self.purge_debt == 0 {
            self.purge_debt = self.unused_dirty(now_ns);
        }
        let debt = self.purge_debt.min(self.dirty.pages());
        let now = debt.min(PURGE_PAGES_PER_FREE.max(freed));
        self.purge_debt = debt - now;
        now
    }

    fn unused_dirty(&mut self, now_ns: impl FnOnce() -> u64) -> u32 {
        let dirty = self.dirty.pages();
        let kept = DIRTY_PAGES_MIN.max(self.in_use / DIRTY_PAGES_PART);
        if dirty <= kept {
            return 0;
        }
        let now = now_ns();
        if now == 0 {
            return dirty - kept / 2;
        }
        if now.saturating_sub(self.dirty_since) < DIRTY_PERIOD_NS {
            return 0;
        }
        let unused = self.dirty_low.min(dirty);
        (self.dirty_since, self.dirty_low) = (now, dirty);
        unused.saturating_sub(kept / 2)
    }

    /// Free -> in transit: up to `most` pages of one of the longest dirty runs, to be purged.
    pub(crate) fn take_dirty(&mut self, map: &PageMap, most: u32) -> Option<PageRun> {
        let whole = self.dirty.longest(map)?;
        self.dirty.remove(map, whole);
        let run = PageRun::new(whole.start, whole.count.min(most));
        self.put_back(map, run.end(), whole.end(), Content::Old);
        self.set_in_transit(map, run, true, PageLink::NONE);
        Some(run)
    }

    /// Free, clean -> in transit: a run, or all pages behind the frontier if no other is left.
    pub(crate) fn take_clean(&mut self, map: &PageMap) -> Option<PageRun> {
        let run = match self.clean.longest(map) {
            Some(run) => {
                self.clean.remove(map, run);
                run
            }
            None => {
                let fresh = self.total - self.frontier.get();
                let run = (fresh > 0).then(|| PageRun::new(self.frontier, fresh))?;
                self.set_frontier(run.end());
                run
            }
        };
        self.set_in_transit(map, run, false, PageLink::NONE);
        Some(run)
    }

    fn set_in_transit(&self, map: &PageMap, run: PageRun, dirty: bool, next: PageLink) {
        if run.count > 1 {
            let last = PageRecord::InTransit { dirty, pages: 0, next: PageLink::NONE };
            // SAFETY: the pages' kind is Free and they are off all lists: their records are the page heap's, which is locked.
            unsafe { map.set_record(run.last(), last) };
        }
        // SAFETY: as above.
        unsafe { map.set_record(run.start, PageRecord::InTransit { dirty, pages: run.count, next }) };
    }

    /// In use, an alias -> in transit, linked to `next`. Its mapping stays until it is unaliased. `dirty`: its own backing
    /// pages still hold memory.
    pub(crate) fn detach_alias(&mut self, map: &PageMap, run: PageRun, dirty: bool, next: PageLink) {
        self.detach(map, run);
        self.set_in_transit(map, run, dirty, next);
        self.aliased -= run.count;
        self.unpurged -= if dirty { run.count } else { 0 };
    }

    /// In transit -> free, for a dead alias that shows its own pages again.
    pub(crate) fn insert_unaliased(&mut self, map: &PageMap, parted: Parted) {
        self.mappings.remove(parted.run);
        self.insert(map, parted.run, if parted.dirty { Content::Old } else { Content::Zero });
    }

    /// Keeps a dead alias, which is in transit, for a later try to unalias it.
    pub(crate) fn keep_parted(&mut self, map: &PageMap, parted: Parted) {
        self.set_in_transit(map, parted.run, parted.dirty, self.parted);
        self.parted = PageLink::to(parted.run.start);
        self.parted_pages += parted.run.count;
        self.unpurged += if parted.dirty { parted.run.count } else { 0 };
    }

    /// A dead alias that still has to be unaliased. It stays in transit.
    pub(crate) fn take_parted(&mut self, map: &PageMap) -> Option<Parted> {
        let (parted, next) = Self::parted_at(map, self.parted)?;
        self.parted = next;
        self.parted_pages -= parted.run.count;
        self.unpurged -= if parted.dirty { parted.run.count } else { 0 };
        Some(parted)
    }

    /// The dead alias that `link` names, and the next one.
    pub(crate) fn parted_at(map: &PageMap, link: PageLink) -> Option<(Parted, PageLink)> {
        let start = link.get()?;
        // SAFETY: pages in transit are written by their thread alone, which calls this, or under the page-heap lock.
        let PageRecord::InTransit { dirty, pages, next } = (unsafe { map.record(start) }) else {
            unreachable!("I1: a parted page is in transit");
        };
        Some((Parted { run: PageRun::new(start, pages), dirty }, next))
    }

    /// Counts the span `run` as an alias; `unpurged` if its own backing pages still hold memory.
    pub(crate) fn note_alias(&mut self, run: PageRun, unpurged: bool) {
        self.aliased += run.count;
        self.unpurged += if unpurged { run.count } else { 0 };
    }

    /// The mappings in use and their budget.
    pub(crate) const fn mappings(&self) -> &Mappings {
        &self.mappings
    }

    /// The same, to change them.
    pub(crate) const fn mappings_mut(&mut self) -> &mut Mappings {
        &mut self.mappings
    }

    /// Page counts and how far the tables are used.
    pub(crate) const fn counts(&self) -> PageCounts {
        PageCounts {
            in_use: self.in_use,
            in_use_peak: self.in_use_peak,
            dirty: self.dirty.pages(),
            clean: self.clean.pages(),
            aliased: self.aliased,
            unpurged: self.unpurged,
            parted: self.parted_pages,
            tables: self.tables,
            frontier: self.frontier.get(),
            total: self.total,
        }
    }
}

/// A dead alias in transit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Parted {
    pub(crate) run: PageRun,
    /// Its own backing pages hold old content.
    pub(crate) dirty: bool,
}

/// What [`PageHeap::counts`] tells, in pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageCounts {
    pub(crate) in_use: u32,
    pub(crate) in_use_peak: u32,
    pub(crate) dirty: u32,
    pub(crate) clean: u32,
    pub(crate) aliased: u32,
    pub(crate) unpurged: u32,
    pub(crate) parted: u32,
    pub(crate) frontier: u32,
    pub(crate) tables: TablePeaks,
    pub(crate) total: u32,
}
