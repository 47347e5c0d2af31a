//! Free -> in use, charged to the budget before anything changes; and pages inside spans that lose and get memory.

use crate::base::budget::OverBudget;
use crate::base::error::AllocError;
use crate::base::units::{PageIndex, PageRun};
use crate::page_heap::{Content, Fit, PageHeap, PageMap};

impl PageHeap {
    /// Free -> in use: a run that fits, whole and off all lists, its pages' kinds and records still those of free pages.
    ///
    /// # Errors
    /// [`AllocError::OutOfMemory`], [`AllocError::OverBudget`]; everything is as it was.
    pub(crate) fn take(&mut self, map: &PageMap, fit: Fit) -> Result<(PageRun, Content), AllocError> {
        self.account.take(fit.count)?;
        let Some((run, content)) = self.take_run(map, fit) else {
            self.account.give_back(fit.count);
            return Err(AllocError::OutOfMemory);
        };
        if content == Content::Zero
            && let Err(error) = self.account.hold(fit.count)
        {
            self.account.give_back(fit.count);
            self.merge(map, run, content);
            return Err(error.into());
        }
        self.in_use += fit.count;
        self.in_use_peak = self.in_use_peak.max(self.in_use);
        Ok((run, content))
    }

    /// Whether a run of `count` pages that were used before is free, by a look at the lists: those of up to twice as many may hide one.
    pub(crate) fn has_free_run(&self, count: u32) -> bool {
        self.dirty.has_run_of(count) || self.clean.has_run_of(count)
    }

    /// Takes a run that fits off all lists, uncharged.
    fn take_run(&mut self, map: &PageMap, fit: Fit) -> Option<(PageRun, Content)> {
        let order = match fit.prefer {
            Content::Old => [Content::Old, Content::Zero],
            Content::Zero => [Content::Zero, Content::Old],
        };
        self.take_free(map, fit, order[0], true)
            .or_else(|| self.take_second(map, fit, order[1]))
            .or_else(|| self.take_free(map, fit, order[0], false))
            .or_else(|| self.take_free(map, fit, order[1], false))
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
        let start = fit.start_in(whole).expect("`find` found that it fits");
        let wanted = PageRun::new(start, fit.count);
        if start > whole.start || !runs.shorten(map, whole, fit.count) {
            runs.remove(map, whole);
            self.put_back(map, whole.start, wanted.start, content);
            self.put_back(map, wanted.end(), whole.end(), content);
        }
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

    /// Lengthens the used run `run` by the free pages behind it, if there are `more` of them and the budget allows. Tells their
    /// content.
    pub(crate) fn extend(&mut self, map: &PageMap, run: PageRun, more: u32) -> Option<Content> {
        self.account.take(more).ok()?;
        let content = self.extend_run(map, run, more);
        if content.is_none() {
            self.account.give_back(more);
        } else {
            self.in_use += more;
            self.in_use_peak = self.in_use_peak.max(self.in_use);
        }
        content
    }

    fn extend_run(&mut self, map: &PageMap, run: PageRun, more: u32) -> Option<Content> {
        if run.end() == self.frontier {
            if more > self.total - self.frontier.get() {
                return None;
            }
            self.account.hold(more).ok()?;
            self.set_frontier(self.frontier.plus(more));
            return Some(Content::Zero);
        }
        let contents = [Content::Old, Content::Zero];
        let found = contents.into_iter().find_map(|c| Some((self.neighbour_after(map, run, c)?, c)));
        let (after, content) = found.filter(|(after, _)| after.count >= more)?;
        if content == Content::Zero {
            self.account.hold(more).ok()?;
        }
        self.runs(content).remove(map, after);
        self.put_back(map, after.start.plus(more), after.end(), content);
        Some(content)
    }

    /// In use -> free, for a span that shows its own memory, of which `hollow` has a bit set for each page that holds none.
    pub(crate) fn free_hollow(&mut self, map: &PageMap, run: PageRun, hollow: u16) {
        self.detach(map, run);
        let is_hollow = |page: PageIndex| hollow >> page.since(run.start) & 1 != 0;
        let mut page = run.start;
        while page < run.end() {
            let same = PageRun::new(page, run.end().since(page))
                .pages()
                .take_while(|&other| is_hollow(other) == is_hollow(page));
            #[expect(clippy::cast_possible_truncation, reason = "a span has at most 16 pages")]
            let piece = PageRun::new(page, same.count() as u32);
            // Hollow pages are uncharged already.
            self.merge(map, piece, if is_hollow(page) { Content::Zero } else { Content::Old });
            page = piece.end();
        }
    }

    /// `pages` pages of spans hold no memory any more.
    pub(crate) fn note_hollow(&mut self, pages: u32) {
        self.account.drop_memory(pages);
    }

    /// `pages` hollow pages of spans are about to be used.
    pub(crate) fn fill_hollow(&mut self, pages: u32) -> Result<(), OverBudget> {
        self.account.hold(pages)
    }
}
