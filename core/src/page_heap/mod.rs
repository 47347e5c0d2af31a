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

mod account;
mod fits;
mod free_runs;
pub(crate) mod map_layout;
pub(crate) mod mappings;
pub(crate) mod page_map;
mod take;

use core::ptr::NonNull;

use crate::base::config::{
    DIRTY_PAGES_MIN, DIRTY_PAGES_PART, DIRTY_PERIOD_NS, DIRTY_SHORT_PERIOD_NS, DIRTY_SHORT_RUN, PURGE_PAGES_PER_FREE,
};
use crate::base::units::{PageIndex, PageLink, PageRun};
use crate::ds::size_class::Cut;
pub(crate) use account::Account;
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
        // Spans fit anywhere: no division for them.
        let skip = if self.align == 1 { 0 } else { absolute.next_multiple_of(u64::from(self.align)) - absolute };
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
    purge_debt: Surplus,
    /// The fewest dirty pages since `idle_since`, for short runs.
    idle_low: u32,
    idle_since: u64,
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
    /// What is charged (I8).
    account: Account,
}

impl PageHeap {
    /// A page heap over `total` fresh pages, which are charged to `account` as they are used.
    ///
    /// # Safety
    /// `bits` must be [`Mappings::bytes`] of zeroed memory, the page heap's alone, for as long as it lives.
    pub(crate) unsafe fn new(total: u32, bits: NonNull<usize>, mapping_budget: usize, account: Account) -> Self {
        Self {
            clean: FreeRuns::default(),
            dirty: FreeRuns::default(),
            frontier: PageIndex::new(0),
            total,
            in_use: 0,
            in_use_peak: 0,
            dirty_low: 0,
            dirty_since: 0,
            purge_debt: Surplus::NONE,
            idle_low: 0,
            idle_since: 0,
            tables: TablePeaks::default(),
            aliased: 0,
            unpurged: 0,
            // SAFETY: by the caller's contract.
            mappings: unsafe { Mappings::new(bits, total, mapping_budget) },
            parted: PageLink::NONE,
            parted_pages: 0,
            account,
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
        self.account.give_back(run.count);
        map.set_kinds(run, PageKind::Free);
        self.set_in_transit(map, run, true, PageLink::NONE);
    }

    /// In transit -> free, for pages that held memory when they were set in transit, and hold it still if their content is old.
    pub(crate) fn insert(&mut self, map: &PageMap, run: PageRun, content: Content) {
        if content == Content::Zero {
            self.account.drop_memory(run.count);
        }
        self.merge(map, run, content);
    }

    /// Off all lists -> free: merged with free neighbours of the same content.
    fn merge(&mut self, map: &PageMap, run: PageRun, content: Content) {
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

    /// Dirty pages to purge now: those beyond [`DIRTY_PAGES_MIN`] and [`DIRTY_PAGES_PART`] that were not reused during the
    /// last [`DIRTY_PERIOD_NS`] of the clock `now_ns`, or at once where there is no clock. No more than
    /// [`PURGE_PAGES_PER_FREE`] at a time, or as many as were just `freed`, so that no small free takes long; the next one
    /// goes on.
    pub(crate) fn surplus_dirty(&mut self, freed: u32, now_ns: impl FnOnce() -> u64) -> Surplus {
        if self.purge_debt.pages == 0 {
            self.purge_debt = self.unused_dirty(now_ns);
        }
        if !self.dirty.has_run_of(self.purge_debt.shortest) {
            self.purge_debt = Surplus::NONE;
        }
        let debt = self.purge_debt.pages.min(self.dirty.pages());
        let pages = debt.min(PURGE_PAGES_PER_FREE.max(freed));
        self.purge_debt.pages = debt - pages;
        Surplus { pages, ..self.purge_debt }
    }

    fn unused_dirty(&mut self, now_ns: impl FnOnce() -> u64) -> Surplus {
        let dirty = self.dirty.pages();
        if self.account.is_pressed() {
            return Surplus { pages: dirty, shortest: 1 };
        }
        let kept = DIRTY_PAGES_MIN.max(self.in_use / DIRTY_PAGES_PART);
        if dirty <= kept {
            return Surplus::NONE;
        }
        let now = now_ns();
        if now == 0 {
            return Surplus { pages: dirty - kept / 2, shortest: 1 };
        }
        if now.saturating_sub(self.dirty_since) < DIRTY_PERIOD_NS {
            return Surplus::NONE;
        }
        let low = self.dirty_low.min(dirty);
        (self.dirty_since, self.dirty_low) = (now, dirty);
        self.idle_low = self.idle_low.min(low);
        let mut unused = Surplus { pages: low, shortest: DIRTY_SHORT_RUN };
        if now.saturating_sub(self.idle_since) >= DIRTY_SHORT_PERIOD_NS {
            unused = Surplus { pages: self.idle_low, shortest: 1 };
            (self.idle_since, self.idle_low) = (now, dirty);
        }
        Surplus { pages: unused.pages.saturating_sub(kept / 2), ..unused }
    }

    /// Free -> in transit: up to `most` pages of one of the longest dirty runs, to be purged; none if that has fewer than
    /// `shortest` pages. It ends at a multiple of `most` if the run does not end before: a huge page is then given back whole, not in
    /// two parts, for which it would have to be split.
    pub(crate) fn take_dirty(&mut self, map: &PageMap, most: u32, shortest: u32) -> Option<PageRun> {
        let whole = self.dirty.longest(map).filter(|run| run.count >= shortest)?;
        self.dirty.remove(map, whole);
        let run = PageRun::new(whole.start, whole.count.min(most - whole.start.get() % most.max(1)));
        self.put_back(map, run.end(), whole.end(), Content::Old);
        self.set_in_transit(map, run, true, PageLink::NONE);
        Some(run)
    }

    /// Free, clean -> in transit, to be held: a run, or all pages behind the frontier if no other is left. None, too, if the
    /// budget has no room for it.
    pub(crate) fn take_clean(&mut self, map: &PageMap) -> Option<PageRun> {
        let clean = self.clean.longest(map);
        let fresh = self.total - self.frontier.get();
        let run = clean.or_else(|| (fresh > 0).then(|| PageRun::new(self.frontier, fresh)))?;
        self.account.hold(run.count).ok()?;
        if clean.is_some() {
            self.clean.remove(map, run);
        } else {
            self.set_frontier(run.end());
        }
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

    /// Whether `run`, a whole span, lies in a mapping of its own.
    pub(crate) fn is_apart(&mut self, run: PageRun) -> bool {
        self.mappings.in_use() > 0 && self.mappings.is_apart(run.start)
    }

    /// In use, shared among private pages -> in transit, like a dead alias: nothing of it is left when it is private again.
    /// `hollow` of its pages hold no memory.
    pub(crate) fn detach_shared(&mut self, map: &PageMap, run: PageRun, hollow: u32, next: PageLink) {
        self.detach(map, run);
        self.account.drop_memory(run.count - hollow);
        self.set_in_transit(map, run, false, next);
    }

    /// In transit -> free, for a dead alias that shows its own pages again.
    pub(crate) fn insert_unaliased(&mut self, map: &PageMap, parted: Parted) {
        self.mappings.remove(parted.run);
        self.merge(map, parted.run, if parted.dirty { Content::Old } else { Content::Zero });
    }

    /// Keeps a dead alias, which is in transit, for a later try to unalias it.
    pub(crate) fn keep_parted(&mut self, map: &PageMap, parted: Parted) {
        self.set_in_transit(map, parted.run, parted.dirty, self.parted);
        self.parted = PageLink::to(parted.run.start);
        self.parted_pages += parted.run.count;
        self.unpurged += if parted.dirty { parted.run.count } else { 0 };
    }

    /// All dead aliases that still have to be unaliased. They stay in transit, and counted until [`PageHeap::take_parted`].
    pub(crate) fn take_all_parted(&mut self) -> PageLink {
        core::mem::replace(&mut self.parted, PageLink::NONE)
    }

    /// One of them is tried again.
    pub(crate) fn take_parted(&mut self, parted: &Parted) {
        self.parted_pages -= parted.run.count;
        self.unpurged -= if parted.dirty { parted.run.count } else { 0 };
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
        if unpurged {
            self.unpurged += run.count;
        } else {
            self.account.drop_memory(run.count);
        }
    }

    /// What is charged.
    #[cfg(feature = "check")]
    pub(crate) const fn account(&self) -> &Account {
        &self.account
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

/// Dirty pages to purge, in runs of at least `shortest`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surplus {
    pub(crate) pages: u32,
    pub(crate) shortest: u32,
}

impl Surplus {
    /// Nothing to purge.
    const NONE: Self = Self { pages: 0, shortest: 1 };
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
