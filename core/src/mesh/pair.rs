//! The protocol that lays one span, the *source*, with its aliases, onto another, the *keeper*; or a row of spans onto another.
//!
//! ```text
//!  class lock   hold both (Busy)        read bits         link                 read ..          settle both
//!  ────────────────█──────────────────────█────────────────█─────────────────────█── ... ──────────█───────────▶
//!  no lock                                   copy · alias      (next member)          purge source
//! ```
//!
//! Busy spans are on no list, so nobody claims from them; releases go on and only clear bits. Each member of the source's
//! group (its aliases, then itself) moves for itself: its live slots are copied to the same offsets of the keeper, its
//! addresses are aliased, and then it is linked to the keeper with the slots that are live *then*. When a call fails, what
//! has moved stays moved and the rest stays with the source: nothing has to be undone.
//!
//! The spans of a row have no aliases, so they move in one piece.
//!
//! Beside threads that write, a member's addresses are read-only from before the copy until they show the keeper:
//!
//! ```text
//!   read bits     protect ──▶ copy ──▶ alias            a write in between waits, and then goes to the keeper's page
//!                                └ refused ─▶ protect   ... or to the old one, which stays
//! ```
//!
//! The keeper needs no protection: its own objects do not move, and the slots that are copied to are free. Only where pages are
//! private until they are shared, its pages move once, to memory that can be shown elsewhere, before anything is laid on them:
//! protected like a member's. Nor do other members that show the same old page: their objects lie in other slots. No lock is taken while writers wait, since one of
//! them may hold it.

use crate::base::error::PlatformError;
use crate::base::units::{PageIndex, PageLink, PageRun};
use crate::mesh::row::{MAX_SPANS, Row, candidate, is_candidate, join_neighbours};
use crate::page_heap::mappings::Bound;
use crate::platform::{Access, Platform};
use crate::span::arena::{Arena, Class};
use crate::span::bits::{GroupBits, MAX_WORDS, aliases, set_bits};
use crate::span::class_spans::slot_address;
use crate::span::emptied::Emptied;

/// What became of a pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// The source's pages were given back; `mappings` were added.
    Meshed { mappings: usize },
    /// The two overlap, or one of them is gone or full: the plan is stale here.
    Stale,
    /// The step's allowance of mappings does not reach.
    NoAllowance,
    /// The heap's mapping budget does not reach (I7).
    NoBudget,
    /// The platform refused a call. What was moved before stays moved.
    Refused(PlatformError),
}

/// What other threads may do to the heap's objects meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Writers {
    /// Read them: the caller stands at a safepoint.
    AtSafepoint,
    /// Write to them, too: the platform has a write barrier.
    Running,
}

/// The bitmaps of a row's spans.
type RowBits = [GroupBits; MAX_SPANS];

/// One pair at work: all spans of both rows are held.
pub(super) struct Pair<'a, P: Platform> {
    pub(super) arena: &'a Arena<P>,
    pub(super) keeper: Row,
    pub(super) source: Row,
    pub(super) writers: Writers,
    /// Mappings that may still be added.
    pub(super) allowance: usize,
    pub(super) added: usize,
}

/// Lays the source onto the keeper, if they (still) fit. `allowance` bounds the mappings added.
///
/// # Safety
/// With `writers` at a safepoint, no thread may write to objects of the heap until it returns, `alloc_zeroed` and `realloc`
/// included (see [`crate::Heap::mesh_at_safepoint`]); else the platform must have a write barrier. No other mesh may run.
pub(crate) unsafe fn mesh<P: Platform>(
    arena: &Arena<P>,
    keeper: Row,
    source: Row,
    allowance: usize,
    writers: Writers,
) -> Outcome {
    let Some(mut pair) = Pair::hold(arena, keeper, source, allowance, writers) else {
        return Outcome::Stale;
    };
    // SAFETY: by the function's contract.
    let outcome = unsafe { pair.move_members() };
    pair.settle();
    outcome
}

impl<'a, P: Platform> Pair<'a, P> {
    /// Partial -> Busy for both, if they fit.
    fn hold(arena: &'a Arena<P>, keeper: Row, source: Row, allowance: usize, writers: Writers) -> Option<Self> {
        let mut guard = arena.class(keeper.class);
        if keeper == source
            || !keeper.heads(arena).zip(source.heads(arena)).all(|pair| may_mesh(arena, &guard, keeper, pair))
        {
            return None;
        }
        // Memory that the budget has no room for is not worth it.
        arena.fill_hollow(&mut guard, keeper.heads(arena).chain(source.heads(arena))).ok()?;
        for span in keeper.heads(arena).chain(source.heads(arena)) {
            guard.spans.hold(arena.map(), span);
        }
        Some(Self { arena, keeper, source, writers, allowance, added: 0 })
    }

    /// Moves the source's aliases one by one, then the source itself.
    ///
    /// # Safety
    /// As for [`mesh`].
    unsafe fn move_members(&mut self) -> Outcome {
        // SAFETY: by the function's contract.
        if let Err(outcome) = unsafe { self.share_keeper() } {
            return outcome;
        }
        // Bounded by the slots of a span: each alias has a live slot.
        while let Some(alias) = self.first_alias() {
            // SAFETY: by the function's contract.
            if let Err(outcome) = unsafe { self.move_addresses(alias) } {
                return outcome;
            }
            {
                let mut guard = self.arena.class(self.keeper.class);
                guard.spans.link_member(self.arena.map(), alias, self.source.head, self.keeper.head, false);
            }
            join_neighbours(self.arena, Row::single(self.keeper.class, alias));
        }
        if self.live_slots(self.source).iter().flatten().all(|&bits| bits == 0) {
            // Nothing of its own is left, so there is nothing to show: `settle` frees its pages.
            return Outcome::Meshed { mappings: self.added };
        }
        // SAFETY: by the function's contract.
        if let Err(outcome) = unsafe { self.move_addresses(self.source.head) } {
            return outcome;
        }
        let run = self.source.run(self.arena);
        // SAFETY: the source's addresses show the keeper's pages now, as do those of its former aliases (I6).
        let purged = unsafe { self.arena.platform().purge(run) };
        self.link_source(purged.is_err());
        join_neighbours(self.arena, self.source);
        purged.map_or_else(Outcome::Refused, |()| Outcome::Meshed { mappings: self.added })
    }

    /// Links each span of the source, which shows the keeper's, to its keeper. `dirty`: its own pages could not be purged.
    fn link_source(&self, dirty: bool) {
        let map = self.arena.map();
        let mut guard = self.arena.class(self.keeper.class);
        for (keeper, source) in self.keeper.heads(self.arena).zip(self.source.heads(self.arena)) {
            guard.spans.link_member(map, source, source, keeper, dirty);
        }
        self.arena.page_heap().note_alias(self.source.run(self.arena), dirty);
    }

    /// Makes the keeper's pages such that other addresses can show them, if they are not: all at once, if none was so before.
    ///
    /// # Safety
    /// As for [`mesh`].
    pub(super) unsafe fn share_keeper(&mut self) -> Result<(), Outcome> {
        let Row { class, .. } = self.keeper;
        let span = move |head| Row::single(class, head);
        let is_own = |run| {
            // Spans that were shared before a fork are counted already.
            self.arena.platform().is_private(run) && !self.arena.page_heap().is_apart(run)
        };
        if self.keeper.heads(self.arena).all(|head| is_own(span(head).run(self.arena))) {
            // SAFETY: by the function's contract.
            return unsafe { self.share(self.keeper) };
        }
        for span in self.keeper.heads(self.arena).map(span) {
            if self.arena.platform().is_private(span.run(self.arena)) {
                // SAFETY: by the function's contract.
                unsafe { self.share(span) }?;
            }
        }
        Ok(())
    }

    /// # Safety
    /// As for [`mesh`].
    unsafe fn share(&mut self, row: Row) -> Result<(), Outcome> {
        let run = row.run(self.arena);
        let share = |pair: &Self| {
            // SAFETY: by the function's contract, or by the barrier, nobody writes to the pages meanwhile.
            let share = || unsafe { pair.arena.platform().share(run) };
            // SAFETY: `share` allows writes again.
            unsafe { pair.behind_barrier(run, share) }
        };
        self.make_mapping(run, share)?;
        join_neighbours(self.arena, row);
        Ok(())
    }

    /// Counts `run` as a mapping of its own, if it is not, and makes the change by which it becomes one. Refused, it is counted as it
    /// was.
    fn make_mapping(
        &mut self,
        run: PageRun,
        change: impl FnOnce(&Self) -> Result<(), PlatformError>,
    ) -> Result<(), Outcome> {
        // An alias, or a keeper whose pages are shared or were before a fork, is counted already.
        let was_apart = self.arena.page_heap().is_apart(run);
        let added = self.count_mapping(run)?;
        if let Err(error) = change(self) {
            if !was_apart {
                self.arena.page_heap().mappings_mut().remove(run);
            }
            return Err(Outcome::Refused(error));
        }
        self.allowance -= added;
        self.added += added;
        Ok(())
    }

    /// Counts `run` as a mapping of its own, before it becomes one. Returns how many that adds.
    fn count_mapping(&self, run: PageRun) -> Result<usize, Outcome> {
        let mut pages = self.arena.page_heap();
        let mappings = pages.mappings_mut();
        let is_thaw = self.keeper == self.source;
        let added = if is_thaw { mappings.add_again(run, self.allowance) } else { mappings.add(run, self.allowance) };
        added.map_err(|bound| match bound {
            Bound::Allowance => Outcome::NoAllowance,
            Bound::Budget => Outcome::NoBudget,
        })
    }

    pub(super) fn first_alias(&self) -> Option<PageIndex> {
        let guard = self.arena.class(self.keeper.class);
        let source = guard.spans.keeper(self.arena.map(), self.source.head).expect("a busy span stays a keeper");
        source.aliases.get()
    }

    /// The spans that move together with `member`: the source's, or an alias alone.
    fn moving(&self, member: PageIndex) -> Row {
        if member == self.source.head { self.source } else { Row::single(self.keeper.class, member) }
    }

    /// Copies the live slots of `member` to the keeper's pages and makes the member's addresses show these.
    ///
    /// # Safety
    /// As for [`mesh`].
    pub(super) unsafe fn move_addresses(&mut self, member: PageIndex) -> Result<(), Outcome> {
        let row = self.moving(member);
        self.make_mapping(row.run(self.arena), |pair| {
            // Slots that are released from here on are copied for nothing; none is claimed.
            let bits = pair.live_slots(row);
            // SAFETY: the bits were just read; the rest is the function's contract.
            unsafe { pair.copy_and_alias(row, &bits) }
        })
    }

    /// # Safety
    /// As for [`mesh`]; `bits` must hold all live slots of `members`.
    unsafe fn copy_and_alias(&self, members: Row, bits: &RowBits) -> Result<(), PlatformError> {
        let run = members.run(self.arena);
        let copy_and_alias = || {
            for ((member, keeper), bits) in members.heads(self.arena).zip(self.keeper.heads(self.arena)).zip(bits) {
                // SAFETY: by the function's contract, or by the barrier, nobody writes to the member's objects meanwhile.
                unsafe { self.copy_live_slots(member, keeper, bits) };
            }
            // SAFETY: the members' live slots were just copied to the keeper's pages (I5), which show their own memory.
            unsafe { self.arena.platform().alias(run, self.keeper.head) }
        };
        // SAFETY: `alias` allows writes again.
        unsafe { self.behind_barrier(run, copy_and_alias) }
    }

    /// Makes a change of what the addresses of `run` show, with its writers waiting if there may be any.
    ///
    /// # Safety
    /// If the change succeeds, it must have made the run writable, in the same step in which it changed.
    unsafe fn behind_barrier(
        &self,
        run: PageRun,
        change: impl FnOnce() -> Result<(), PlatformError>,
    ) -> Result<(), PlatformError> {
        if self.writers == Writers::AtSafepoint {
            return change();
        }
        let platform = self.arena.platform();
        // Takes the two borders that the change takes, which are counted already (I7).
        // SAFETY: the run is the arena's; writers that run into it wait, by the platform's word, until it is changed.
        unsafe { platform.protect(run, Access::ReadOnly) }?;
        change().inspect_err(|_| {
            // Should this fail as well, there is nothing left to do: see the verb's contract.
            // SAFETY: allows what was allowed before.
            let _ = unsafe { platform.protect(run, Access::ReadWrite) };
        })
    }

    /// # Safety
    /// As for [`Pair::copy_and_alias`].
    unsafe fn copy_live_slots(&self, member: PageIndex, keeper: PageIndex, bits: &GroupBits) {
        let (map, cut) = (self.arena.map(), self.arena.cut(self.keeper.class));
        for (word, &bits) in bits.iter().enumerate().take(cut.words()) {
            for bit in set_bits(bits) {
                let slot = 64 * word as u32 + bit;
                let (from, to) = (slot_address(map, cut, member, slot), slot_address(map, cut, keeper, slot));
                // SAFETY: both slots lie in spans of this class; the keeper's is free in its whole group (I4) and nobody
                // claims from a busy span; the member's is stable by the function's contract.
                unsafe { to.copy_from_nonoverlapping(from, cut.size as usize) };
            }
        }
    }

    /// The slots that the spans of `row` have taken themselves.
    fn live_slots(&self, row: Row) -> RowBits {
        let _guard = self.arena.class(row.class);
        let words = self.arena.cut(row.class).words();
        let mut all = [[0; MAX_WORDS]; MAX_SPANS];
        for (head, bits) in row.heads(self.arena).zip(&mut all) {
            for (word, bits) in bits.iter_mut().enumerate().take(words) {
                // SAFETY: the class lock is held.
                *bits = unsafe { self.arena.map().word(head, word) };
            }
        }
        all
    }

    /// Busy -> Partial, Full or free for the keeper, and for the source if it is a keeper still.
    pub(super) fn settle(&self) {
        let map = self.arena.map();
        let mut guard = self.arena.class(self.keeper.class);
        let mut emptied = Emptied::new(self.arena.cut(self.keeper.class).pages);
        for keeper in self.keeper.heads(self.arena) {
            guard.spans.settle(map, keeper, &mut emptied);
        }
        for source in self.source.heads(self.arena).filter(|_| self.source != self.keeper) {
            if guard.spans.keeper(map, source).is_some() {
                guard.spans.settle(map, source, &mut emptied);
            }
        }
        self.arena.give_back(guard, emptied);
    }
}

/// Whether the two spans do not overlap, and no pin is in the way: the source's pages go, and a keeper's that are private until they
/// are shared change once. Spans of rows have no aliases, other than a keeper's.
fn may_mesh<P: Platform>(arena: &Arena<P>, guard: &Class, row: Row, (keeper, source): (PageIndex, PageIndex)) -> bool {
    let bits = |head| candidate(arena, guard, row.class, head);
    let run = |head| Row::single(row.class, head).run(arena);
    let (Some(keeper_bits), Some(source_bits)) = (bits(keeper), bits(source)) else { return false };
    // What moves as one shows private memory of its own that is counted in no mapping.
    let own = || is_candidate(arena, guard, source, row.spans) && !arena.page_heap().is_apart(run(source));
    let may_move = row.spans == 1 || own();
    let overlap = keeper_bits.iter().zip(&source_bits).any(|(a, b)| a & b != 0);
    let keeper_changes = arena.platform().is_private(run(keeper));
    let is_pinned = |head| arena.is_pinned(guard, row.class, head);
    may_move && !overlap && !is_pinned(source) && (!keeper_changes || !is_pinned(keeper))
}

/// How much better the candidate stays where it is than another moves: by its aliases, which moving takes a call each, and then by
/// its neighbours, if one is a keeper, too, and the two may lie in one mapping. More than any if it is pinned, and cannot move.
pub(crate) fn worth_as_keeper<P: Platform>(arena: &Arena<P>, row: Row) -> usize {
    let guard = arena.class(row.class);
    let mut count = 0;
    for head in row.heads(arena) {
        let Some(keeper) = guard.spans.partial_keeper(arena.map(), head) else { return 0 };
        if arena.is_pinned(&guard, row.class, head) {
            return usize::MAX;
        }
        // SAFETY: the class lock is held until the iterator ends.
        count += unsafe { aliases(arena.map(), keeper.aliases) }.count();
    }
    2 * count + usize::from(is_beside_keeper(arena, &guard, row))
}

fn is_beside_keeper<P: Platform>(arena: &Arena<P>, guard: &Class, row: Row) -> bool {
    let pages = arena.cut(row.class).pages;
    let (before, after) = (row.head.get().checked_sub(pages).map(PageIndex::new), row.run(arena).end());
    let after = (after.get() < arena.page_heap().counts().frontier).then_some(after);
    let is_keeper = |head| {
        let keeper = guard.spans.resting_keeper(arena.map(), head);
        keeper.is_some_and(|keeper| keeper.aliases != PageLink::NONE)
    };
    before.into_iter().chain(after).any(is_keeper)
}
