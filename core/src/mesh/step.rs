//! One step of a pass: units of work, one after another, until a bound of its budget is met. See `pass` for their order.

use crate::base::config::{
    MAX_DRAIN_UNITS, PLAN_PAGES_PER_LOCK, PURGE_PAGES_PER_FREE, PURGE_PAGES_PER_UNIT, SEARCH_TESTS_PER_LOOK,
};
use crate::base::error::PlatformError;
use crate::base::sync::{AtomicUsize, Ordering};
use crate::base::units::{PageIndex, SizeClass};
use crate::mesh::budget::{MeshBudget, MeshStep, StepEnd};
use crate::mesh::pair::{Outcome, Writers, mesh, worth_as_keeper};
use crate::mesh::plan::Plan;
use crate::mesh::round::{Round, Rows, Turn};
use crate::mesh::thaw::thaw;
use crate::page_heap::PageKind;
use crate::platform::Platform;
use crate::span::arena::Arena;

/// Where a pass is.
pub(super) enum Stage {
    /// Giving dirty pages back, then thawing from the start if there were forks.
    Free { forks: usize },
    /// Laying groups together again whose pages became private for a fork, from this page on.
    Thaw(PageIndex, Thaw),
    /// About to begin with a class; so many units of what it keeps were given back already.
    Class(Turn, usize),
    /// Collecting candidates from this page on.
    Collect(Plan, PageIndex),
    /// Searching groups; candidates further on start at the page.
    Search(Plan, PageIndex),
    /// Meshing the groups of the plan; the next candidates start at the page.
    Mesh(Plan, PageIndex, Progress),
    /// Giving back the empty pages of spans from this page on; then the purge.
    Hollow(PageIndex, StepEnd),
    /// Unaliasing dead aliases that were refused before, and giving dirty pages back; the pass then ends like this.
    Purge(StepEnd),
}

/// What a pass thaws for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thaw {
    /// Forks before the pass began.
    forks: usize,
    /// Whether a group had to be left as it was.
    skipped: bool,
    /// Why the platform refused the last that it did.
    refused: Option<PlatformError>,
}

/// How far the groups of a plan are meshed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    group: usize,
    /// The keeper of the group, once it is chosen.
    keeper: Option<u32>,
    /// The member that is looked at next.
    member: Option<u32>,
}

/// Whether a step goes on after a unit of work.
pub(super) enum Unit {
    Next(Stage),
    Stop(StepEnd, Option<Stage>),
}

/// One step at work.
pub(super) struct Step<'a, P: Platform> {
    arena: &'a Arena<P>,
    budget: MeshBudget,
    writers: Writers,
    started: u64,
    pub(super) report: MeshStep,
}

impl<'a, P: Platform> Step<'a, P> {
    pub(super) fn new(arena: &'a Arena<P>, budget: MeshBudget, writers: Writers, started: u64) -> Self {
        let report = MeshStep {
            end: StepEnd::PassDone,
            spans: 0,
            groups: 0,
            pages_freed: 0,
            pages_purged: 0,
            mappings: 0,
            nanoseconds: 0,
        };
        Self { arena, budget, writers, started, report }
    }

    pub(super) fn ended(self, end: StepEnd) -> MeshStep {
        let nanoseconds = self.elapsed_ns();
        MeshStep { end, nanoseconds, ..self.report }
    }

    fn elapsed_ns(&self) -> u64 {
        self.arena.platform().now_ns().saturating_sub(self.started)
    }

    pub(super) fn is_spent(&self) -> bool {
        self.report.pages_freed >= self.budget.pages as usize
            || u128::from(self.elapsed_ns()) >= self.budget.time.as_nanos()
    }

    /// One unit of work.
    ///
    /// # Safety
    /// As for [`crate::mesh::pass::MeshPass::step`].
    pub(super) unsafe fn unit(&mut self, stage: Stage, forks: &AtomicUsize) -> Unit {
        match stage {
            Stage::Free { forks } => self.free(forks),
            // SAFETY: by the function's contract.
            Stage::Thaw(page, thaw) => unsafe { self.thaw(page, thaw, forks) },
            Stage::Class(turn, drained) => self.begin_class(turn, drained),
            Stage::Collect(plan, page) => self.collect(plan, page),
            Stage::Search(mut plan, page) => {
                if !plan.search(SEARCH_TESTS_PER_LOOK) {
                    return Unit::Next(Stage::Search(plan, page));
                }
                self.report.groups += plan.group_count();
                let member = plan.first_member(0);
                Unit::Next(Stage::Mesh(plan, page, Progress { group: 0, keeper: None, member }))
            }
            // SAFETY: by the function's contract.
            Stage::Mesh(plan, page, progress) => unsafe { self.mesh(plan, page, progress) },
            Stage::Hollow(page, end) => self.hollow(page, end),
            Stage::Purge(end) => self.purge(end),
        }
    }

    /// Thaws the next group that needs it, if there is one near.
    ///
    /// # Safety
    /// As for [`crate::mesh::pass::MeshPass::step`].
    unsafe fn thaw(&mut self, mut page: PageIndex, mut state: Thaw, forks: &AtomicUsize) -> Unit {
        let end = PageIndex::new(self.arena.page_heap().counts().frontier);
        if !self.arena.facts().private_until_shared || page >= end {
            if !state.skipped {
                // Relaxed: the pass's lock is held, as a fork does when it writes. One that came meanwhile took apart what was thawed.
                let _ = forks.compare_exchange(state.forks, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
            let next = Stage::Class(Turn::FIRST, 0);
            return match state.refused {
                // Told once, behind all groups: what is refused for good must not keep the rest from being meshed.
                Some(error) => Unit::Stop(StepEnd::Refused(error), Some(next)),
                None => Unit::Next(next),
            };
        }
        let stop = end.min(page.plus(PLAN_PAGES_PER_LOCK));
        while page < stop {
            let next = page.plus(1);
            if let PageKind::Small(class) = self.arena.map().kind(page) {
                let allowance = self.budget.mappings - self.report.mappings;
                // SAFETY: by the function's contract.
                match unsafe { thaw(self.arena, class, page, allowance, self.writers) } {
                    Outcome::Meshed { mappings } => {
                        self.report.mappings += mappings;
                        return Unit::Next(Stage::Thaw(next, state));
                    }
                    Outcome::Refused(error) => (state.skipped, state.refused) = (true, Some(error)),
                    Outcome::NoAllowance if self.report.mappings > 0 => {
                        return Unit::Stop(StepEnd::Budget, Some(Stage::Thaw(page, state)));
                    }
                    Outcome::NoAllowance | Outcome::NoBudget => state.skipped = true,
                    Outcome::Stale => {}
                }
            }
            page = next;
        }
        Unit::Next(Stage::Thaw(stop, state))
    }

    fn begin_class(&mut self, turn: Turn, drained: usize) -> Unit {
        let class = turn.round.class(turn.index);
        // Bounded, as other threads may fill the depot again meanwhile.
        if drained < MAX_DRAIN_UNITS && self.arena.drain_some(class) {
            return Unit::Next(Stage::Class(turn, drained + 1));
        }
        match Rows::of_class(self.arena, class, turn.round) {
            Some(rows) => self.plan(class, rows, PageIndex::new(0)),
            None => Self::next_class(turn.round, class),
        }
    }

    fn next_class(round: Round, class: SizeClass) -> Unit {
        Unit::Next(match Turn::after(round, class) {
            Some(turn) => Stage::Class(turn, 0),
            None => Stage::Hollow(PageIndex::new(0), StepEnd::PassDone),
        })
    }

    /// Collects candidates of the class from `page` on.
    fn plan(&self, class: SizeClass, rows: Rows, page: PageIndex) -> Unit {
        let counts = self.arena.class(class).spans.counts();
        let candidates = ((counts.spans - counts.aliases) / rows.spans) as usize;
        if candidates.min(rows.wanted) < 2 {
            return self.shorter_rows(class, rows);
        }
        match Plan::new(self.arena, class, rows, candidates) {
            Ok(plan) => Unit::Next(Stage::Collect(plan, page)),
            Err(error) => Unit::Stop(StepEnd::Refused(error), None),
        }
    }

    /// The class again with shorter rows, or the next class of the round.
    fn shorter_rows(&self, class: SizeClass, rows: Rows) -> Unit {
        match rows.shorter() {
            Some(shorter) => self.plan(class, shorter, PageIndex::new(0)),
            None => Self::next_class(rows.round, class),
        }
    }

    /// Collects candidates from some pages more.
    fn collect(&mut self, mut plan: Plan, mut page: PageIndex) -> Unit {
        let (arena, class) = (self.arena, plan.class());
        let end = PageIndex::new(arena.page_heap().counts().frontier);
        let stop = end.min(page.plus(PLAN_PAGES_PER_LOCK));
        let guard = arena.class(class);
        while page < stop && !plan.is_full() {
            let row = plan.row(page);
            let added = arena.map().kind(page) == PageKind::Small(class)
                && row.run(arena).end() <= end
                && plan.add_if_candidate(arena, &guard, row);
            self.report.spans += if added { row.spans as usize } else { 0 };
            page = page.plus(if added { row.pages(arena) } else { 1 });
        }
        drop(guard);
        if page < end && !plan.is_full() {
            return Unit::Next(Stage::Collect(plan, page));
        }
        Unit::Next(Stage::Search(plan, page))
    }

    /// Meshes one pair of the plan's groups.
    ///
    /// # Safety
    /// As for [`crate::mesh::pass::MeshPass::step`].
    unsafe fn mesh(&mut self, plan: Plan, page: PageIndex, mut progress: Progress) -> Unit {
        let Some(member) = progress.member else {
            progress.group += 1;
            let Some(first) = plan.first_member(progress.group) else {
                return self.end_plan(plan, page);
            };
            let next = Progress { keeper: None, member: Some(first), ..progress };
            return Unit::Next(Stage::Mesh(plan, page, next));
        };
        let keeper = *progress.keeper.get_or_insert_with(|| self.choose_keeper(&plan, member));
        if member == keeper {
            progress.member = plan.next_member(member);
            return Unit::Next(Stage::Mesh(plan, page, progress));
        }
        let allowance = self.budget.mappings - self.report.mappings;
        // SAFETY: by the function's contract.
        let outcome =
            unsafe { mesh(self.arena, plan.candidate(keeper), plan.candidate(member), allowance, self.writers) };
        match outcome {
            Outcome::Meshed { mappings } => {
                self.report.mappings += mappings;
                self.report.pages_freed += plan.candidate(member).pages(self.arena) as usize;
            }
            Outcome::Stale => {}
            // Even a whole step's allowance does not reach: waiting for the next one would be for ever.
            Outcome::NoAllowance if self.report.mappings == 0 => {}
            Outcome::NoAllowance => return Unit::Stop(StepEnd::Budget, Some(Stage::Mesh(plan, page, progress))),
            Outcome::NoBudget => return self.give_up(plan, StepEnd::MappingsUsedUp),
            Outcome::Refused(error) => return self.give_up(plan, StepEnd::Refused(error)),
        }
        progress.member = plan.next_member(member);
        Unit::Next(Stage::Mesh(plan, page, progress))
    }

    /// The member of the group from `first` on that had better stay than any other.
    fn choose_keeper(&self, plan: &Plan, first: u32) -> u32 {
        let members = core::iter::successors(Some(first), |&member| plan.next_member(member));
        let mut best = (first, 0);
        for member in members {
            let worth = worth_as_keeper(self.arena, plan.candidate(member));
            if worth > best.1 {
                best = (member, worth);
            }
        }
        best.0
    }

    /// The plan is carried out: further candidates of the class, or shorter rows, or the next class.
    fn end_plan(&mut self, plan: Plan, page: PageIndex) -> Unit {
        let (class, was_full, rows) = (plan.class(), plan.is_full(), plan.rows_left());
        plan.release(self.arena);
        if was_full { self.plan(class, rows, page) } else { self.shorter_rows(class, rows) }
    }

    /// Ends the pass early. Empty and dirty pages are given back all the same.
    fn give_up(&mut self, plan: Plan, end: StepEnd) -> Unit {
        plan.release(self.arena);
        Unit::Next(Stage::Hollow(PageIndex::new(0), end))
    }

    /// Gives back the empty pages of the next span that has some, if there is one near.
    fn hollow(&mut self, page: PageIndex, end: StepEnd) -> Unit {
        match self.arena.hollow_next(page, PLAN_PAGES_PER_LOCK) {
            Ok((pages, Some(next))) => {
                self.report.pages_purged += pages as usize;
                Unit::Next(Stage::Hollow(next, end))
            }
            Ok((pages, None)) => {
                self.report.pages_purged += pages as usize;
                Unit::Next(Stage::Purge(end))
            }
            Err(error) => Unit::Stop(StepEnd::Refused(error), None),
        }
    }

    fn free(&mut self, forks: usize) -> Unit {
        match self.purge_some(PURGE_PAGES_PER_FREE) {
            Ok(0) if forks > 0 => {
                Unit::Next(Stage::Thaw(PageIndex::new(0), Thaw { forks, skipped: false, refused: None }))
            }
            Ok(0) => Unit::Next(Stage::Class(Turn::FIRST, 0)),
            Ok(pages) => {
                self.report.pages_purged += pages as usize;
                Unit::Next(Stage::Free { forks })
            }
            Err(error) => Unit::Stop(StepEnd::Refused(error), None),
        }
    }

    fn purge(&mut self, end: StepEnd) -> Unit {
        if self.arena.retry_each_parted() {
            return Unit::Next(Stage::Purge(end));
        }
        match self.purge_some(PURGE_PAGES_PER_UNIT) {
            Ok(0) => Unit::Stop(end, None),
            Ok(pages) => {
                self.report.pages_purged += pages as usize;
                Unit::Next(Stage::Purge(end))
            }
            Err(error) => Unit::Stop(StepEnd::Refused(error), None),
        }
    }

    /// Gives some dirty pages back, if the budget wants that.
    fn purge_some(&self, most: u32) -> Result<u32, PlatformError> {
        if self.budget.purge { self.arena.purge_run(most, 1) } else { Ok(0) }
    }
}
