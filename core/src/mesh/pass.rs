//! A pass over the whole heap, in steps: a cursor that remembers where the last step stopped.
//!
//! ```text
//!   Free: dirty pages, which need no search and no mapping
//!   after a fork: Thaw, group by group
//!   for each class that can mesh:
//!     drain its depot
//!     until its pages are through:   Collect ──▶ Search ──▶ Mesh (group by group, pair by pair)
//!   Hollow: empty pages of spans ──▶ Purge: dirty pages ──▶ done
//! ```
//!
//! The cursor and the plan are guarded by the lock of rank `MeshPass`, which a step holds throughout and never waits for.

use crate::base::config::{
    CLASS_COUNT, MAX_DRAIN_UNITS, PLAN_PAGES_PER_LOCK, PURGE_PAGES_PER_FREE, PURGE_PAGES_PER_UNIT,
    SEARCH_TESTS_PER_LOOK,
};
#[cfg(not(all(loom, feature = "loom")))]
use crate::base::sync::Relax;
use crate::base::sync::{AtomicUsize, Mutex, Ordering, Rank};
use crate::base::units::{PageIndex, SizeClass};
use crate::mesh::budget::{MeshBudget, MeshStep, StepEnd};
use crate::mesh::pair::{Outcome, Writers, alias_count, candidate, mesh, thaw};
use crate::mesh::plan::Plan;
use crate::page_heap::PageKind;
use crate::platform::Platform;
use crate::span::arena::{Arena, class_number};

/// Where a pass is.
enum Stage {
    /// Giving dirty pages back, then thawing from the start if a fork needs it.
    Free { thaws: bool },
    /// Laying groups together again whose pages became private for a fork, from this page on.
    Thaw(PageIndex),
    /// About to begin with the class of this number; so many units of what it keeps were given back already.
    Class(usize, usize),
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

/// How far the groups of a plan are meshed.
#[derive(Clone, Copy, Debug)]
struct Progress {
    group: usize,
    /// The keeper of the group, once it is chosen.
    keeper: Option<u32>,
    /// The member that is looked at next.
    member: Option<u32>,
}

/// The pass of one heap.
pub(crate) struct MeshPass {
    stage: Mutex<Option<Stage>>,
    steps: AtomicUsize,
    passes: AtomicUsize,
    pages_freed: AtomicUsize,
    longest_step_ns: AtomicUsize,
    scratch_bytes: AtomicUsize,
    /// Forks since a pass began.
    forks: AtomicUsize,
}

/// What all steps together did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassTotals {
    pub(crate) steps: u64,
    pub(crate) passes: u64,
    pub(crate) pages_freed: u64,
    pub(crate) longest_step_ns: u64,
    pub(crate) scratch_bytes: usize,
}

/// Whether a step goes on after a unit of work.
enum Unit {
    Next(Stage),
    Stop(StepEnd, Option<Stage>),
}

/// One step at work.
struct Step<'a, P: Platform> {
    arena: &'a Arena<P>,
    budget: MeshBudget,
    writers: Writers,
    started: u64,
    report: MeshStep,
}

impl MeshPass {
    /// No pass is under way.
    pub(crate) fn new() -> Self {
        Self {
            stage: Mutex::new(Rank::MeshPass, None),
            steps: AtomicUsize::new(0),
            passes: AtomicUsize::new(0),
            pages_freed: AtomicUsize::new(0),
            longest_step_ns: AtomicUsize::new(0),
            scratch_bytes: AtomicUsize::new(0),
            forks: AtomicUsize::new(0),
        }
    }

    /// One step.
    ///
    /// # Safety
    /// As for [`crate::Heap::mesh_at_safepoint`] if the `writers` are at a safepoint, else none.
    pub(crate) unsafe fn step<P: Platform>(&self, arena: &Arena<P>, budget: MeshBudget, writers: Writers) -> MeshStep {
        let started = arena.platform().now_ns();
        let mut step = Step::new(arena, budget, writers, started);
        let facts = arena.facts();
        let has_barrier = writers == Writers::AtSafepoint || facts.write_barrier;
        if !facts.can_alias || !facts.can_purge || !has_barrier {
            return step.ended(StepEnd::Unsupported);
        }
        let Some(mut place) = self.stage.try_lock() else {
            return step.ended(StepEnd::Busy);
        };
        let mut stage = place.take().unwrap_or_else(|| self.first_stage());
        let end = loop {
            // SAFETY: by the function's contract; the pass's lock keeps other meshes out.
            match unsafe { step.unit(stage) } {
                Unit::Next(next) => stage = next,
                Unit::Stop(end, rest) => {
                    *place = rest;
                    break end;
                }
            }
            if step.is_spent() {
                *place = Some(stage);
                break StepEnd::Budget;
            }
        };
        let report = step.ended(end);
        self.count(&report, place.as_ref());
        report
    }

    fn first_stage(&self) -> Stage {
        // Relaxed: a fork holds the pass's lock when it writes.
        Stage::Free { thaws: self.forks.swap(0, Ordering::Relaxed) > 0 }
    }

    fn count(&self, report: &MeshStep, stage: Option<&Stage>) {
        // Relaxed throughout: statistics that guard nothing; only the holder of the pass's lock writes them.
        self.steps.fetch_add(1, Ordering::Relaxed);
        if matches!(report.end, StepEnd::PassDone) {
            self.passes.fetch_add(1, Ordering::Relaxed);
        }
        self.pages_freed.fetch_add(report.pages_freed, Ordering::Relaxed);
        let nanoseconds = usize::try_from(report.nanoseconds).unwrap_or(usize::MAX);
        self.longest_step_ns.fetch_max(nanoseconds, Ordering::Relaxed);
        let scratch = match stage {
            Some(Stage::Collect(plan, _) | Stage::Search(plan, _) | Stage::Mesh(plan, ..)) => plan.scratch_bytes(),
            _ => 0,
        };
        self.scratch_bytes.store(scratch, Ordering::Relaxed);
    }

    /// What all steps so far did.
    pub(crate) fn totals(&self) -> PassTotals {
        // Relaxed: see `count`.
        PassTotals {
            steps: self.steps.load(Ordering::Relaxed) as u64,
            passes: self.passes.load(Ordering::Relaxed) as u64,
            pages_freed: self.pages_freed.load(Ordering::Relaxed) as u64,
            longest_step_ns: self.longest_step_ns.load(Ordering::Relaxed) as u64,
            scratch_bytes: self.scratch_bytes.load(Ordering::Relaxed),
        }
    }

    /// Waits for a step that is under way, and keeps others out.
    #[cfg(not(all(loom, feature = "loom")))]
    pub(crate) fn lock_for_fork(&self, waiter: &impl Relax) {
        self.stage.lock_for_fork(waiter);
        // Relaxed: see `first_stage`.
        self.forks.fetch_add(1, Ordering::Relaxed);
    }

    /// Lets steps run again.
    ///
    /// # Safety
    /// As for [`Arena::unlock_after_fork`].
    #[cfg(not(all(loom, feature = "loom")))]
    pub(crate) unsafe fn unlock_after_fork(&self) {
        // SAFETY: by the caller's contract.
        unsafe { self.stage.unlock_after_fork() };
    }

    /// Gives up the pass that is under way and its scratch memory.
    pub(crate) fn abandon<P: Platform>(&mut self, arena: &Arena<P>) {
        match self.stage.get_mut().take() {
            Some(Stage::Collect(plan, _) | Stage::Search(plan, _) | Stage::Mesh(plan, ..)) => plan.release(arena),
            Some(Stage::Free { .. } | Stage::Thaw(_) | Stage::Class(..) | Stage::Hollow(..) | Stage::Purge(_))
            | None => {}
        }
    }
}

impl<'a, P: Platform> Step<'a, P> {
    fn new(arena: &'a Arena<P>, budget: MeshBudget, writers: Writers, started: u64) -> Self {
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

    fn ended(self, end: StepEnd) -> MeshStep {
        let nanoseconds = self.elapsed_ns();
        MeshStep { end, nanoseconds, ..self.report }
    }

    fn elapsed_ns(&self) -> u64 {
        self.arena.platform().now_ns().saturating_sub(self.started)
    }

    fn is_spent(&self) -> bool {
        self.report.pages_freed >= self.budget.pages as usize
            || u128::from(self.elapsed_ns()) >= self.budget.time.as_nanos()
    }

    /// One unit of work.
    ///
    /// # Safety
    /// As for [`MeshPass::step`].
    unsafe fn unit(&mut self, stage: Stage) -> Unit {
        match stage {
            Stage::Free { thaws } => self.free(thaws),
            // SAFETY: by the function's contract.
            Stage::Thaw(page) => unsafe { self.thaw(page) },
            Stage::Class(index, drained) => self.begin_class(index, drained),
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
    /// As for [`MeshPass::step`].
    unsafe fn thaw(&mut self, mut page: PageIndex) -> Unit {
        let end = PageIndex::new(self.arena.page_heap().counts().frontier);
        if !self.arena.facts().private_until_shared || page >= end {
            return Unit::Next(Stage::Class(0, 0));
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
                        return Unit::Next(Stage::Thaw(next));
                    }
                    Outcome::Refused(error) => return Unit::Stop(StepEnd::Refused(error), None),
                    // The mappings of all but the keeper's were never given back.
                    Outcome::Stale | Outcome::NoAllowance | Outcome::NoBudget => {}
                }
            }
            page = next;
        }
        Unit::Next(Stage::Thaw(stop))
    }

    fn begin_class(&mut self, index: usize, drained: usize) -> Unit {
        if index == CLASS_COUNT {
            return Unit::Next(Stage::Hollow(PageIndex::new(0), StepEnd::PassDone));
        }
        // Longest spans first: where mappings are scarce, each should free as much as it can.
        let class = class_number(CLASS_COUNT - 1 - index);
        // Bounded, as other threads may fill the depot again meanwhile.
        if drained < MAX_DRAIN_UNITS && self.arena.drain_some(class) {
            return Unit::Next(Stage::Class(index, drained + 1));
        }
        let counts = self.arena.class(class).spans.counts();
        let keepers = (counts.spans - counts.aliases) as usize;
        if keepers < 2 || !self.arena.cut(class).can_mesh() {
            return Unit::Next(Stage::Class(index + 1, 0));
        }
        match Plan::new(self.arena, class, keepers) {
            Ok(plan) => Unit::Next(Stage::Collect(plan, PageIndex::new(0))),
            Err(error) => Unit::Stop(StepEnd::Refused(error), None),
        }
    }

    /// Collects candidates from some pages more.
    fn collect(&mut self, mut plan: Plan, mut page: PageIndex) -> Unit {
        let (arena, class) = (self.arena, plan.class());
        let end = PageIndex::new(arena.page_heap().counts().frontier);
        let stop = end.min(page.plus(PLAN_PAGES_PER_LOCK));
        let guard = arena.class(class);
        while page < stop && !plan.is_full() {
            if arena.map().kind(page) == PageKind::Small(class)
                && let Some(bits) = candidate(arena, &guard, class, page)
            {
                plan.add(page, &bits);
                self.report.spans += 1;
            }
            page = page.plus(1);
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
    /// As for [`MeshPass::step`].
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
        let (class, allowance) = (plan.class(), self.budget.mappings - self.report.mappings);
        // SAFETY: by the function's contract.
        let outcome = unsafe { mesh(self.arena, class, plan.head(keeper), plan.head(member), allowance, self.writers) };
        match outcome {
            Outcome::Meshed { mappings } => {
                self.report.mappings += mappings;
                self.report.pages_freed += self.arena.cut(class).pages as usize;
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

    /// The member of the group from `first` on with the most aliases: moving the others takes the fewest calls.
    fn choose_keeper(&self, plan: &Plan, first: u32) -> u32 {
        let members = core::iter::successors(Some(first), |&member| plan.next_member(member));
        let mut best = (first, 0);
        for member in members {
            let count = alias_count(self.arena, plan.class(), plan.head(member));
            if count > best.1 {
                best = (member, count);
            }
        }
        best.0
    }

    /// The plan is carried out: further candidates of the class, or the next class.
    fn end_plan(&mut self, plan: Plan, page: PageIndex) -> Unit {
        let class: SizeClass = plan.class();
        let was_full = plan.is_full();
        plan.release(self.arena);
        let counts = self.arena.class(class).spans.counts();
        let keepers = (counts.spans - counts.aliases) as usize;
        if !was_full || keepers < 2 {
            return Unit::Next(Stage::Class(CLASS_COUNT - class.index(), 0));
        }
        match Plan::new(self.arena, class, keepers) {
            Ok(plan) => Unit::Next(Stage::Collect(plan, page)),
            Err(error) => Unit::Stop(StepEnd::Refused(error), None),
        }
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

    fn free(&mut self, thaws: bool) -> Unit {
        match self.arena.purge_run(PURGE_PAGES_PER_FREE, 1) {
            Ok(0) if thaws => Unit::Next(Stage::Thaw(PageIndex::new(0))),
            Ok(0) => Unit::Next(Stage::Class(0, 0)),
            Ok(pages) => {
                self.report.pages_purged += pages as usize;
                Unit::Next(Stage::Free { thaws })
            }
            Err(error) => Unit::Stop(StepEnd::Refused(error), None),
        }
    }

    fn purge(&mut self, end: StepEnd) -> Unit {
        if self.arena.retry_one_parted() {
            return Unit::Next(Stage::Purge(end));
        }
        match self.arena.purge_run(PURGE_PAGES_PER_UNIT, 1) {
            Ok(0) => Unit::Stop(end, None),
            Ok(pages) => {
                self.report.pages_purged += pages as usize;
                Unit::Next(Stage::Purge(end))
            }
            Err(error) => Unit::Stop(StepEnd::Refused(error), None),
        }
    }
}
