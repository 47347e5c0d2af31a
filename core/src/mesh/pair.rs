//! The protocol that lays one span, the *source*, with its aliases, onto another, the *keeper*.
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
use crate::base::units::{PageIndex, PageLink, PageRun, SizeClass};
use crate::page_heap::PageRecord;
use crate::page_heap::mappings::Bound;
use crate::platform::{Access, Platform};
use crate::span::arena::{Arena, Class};
use crate::span::bits::{GroupBits, MAX_WORDS, aliases, set_bits, union};
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

/// One pair at work: both spans are held.
struct Pair<'a, P: Platform> {
    arena: &'a Arena<P>,
    class: SizeClass,
    keeper: PageIndex,
    source: PageIndex,
    writers: Writers,
    /// Mappings that may still be added.
    allowance: usize,
    added: usize,
}

/// Lays the source onto the keeper, if they (still) fit. `allowance` bounds the mappings added.
///
/// # Safety
/// With `writers` at a safepoint, no thread may write to objects of the heap until it returns, `alloc_zeroed` and `realloc`
/// included (see [`crate::Heap::mesh_at_safepoint`]); else the platform must have a write barrier. No other mesh may run.
pub(crate) unsafe fn mesh<P: Platform>(
    arena: &Arena<P>,
    class: SizeClass,
    keeper: PageIndex,
    source: PageIndex,
    allowance: usize,
    writers: Writers,
) -> Outcome {
    let Some(mut pair) = Pair::hold(arena, class, keeper, source, allowance, writers) else {
        return Outcome::Stale;
    };
    // SAFETY: by the function's contract.
    let outcome = unsafe { pair.move_members() };
    pair.settle();
    outcome
}

impl<'a, P: Platform> Pair<'a, P> {
    /// Partial -> Busy for both, if they fit.
    fn hold(
        arena: &'a Arena<P>,
        class: SizeClass,
        keeper: PageIndex,
        source: PageIndex,
        allowance: usize,
        writers: Writers,
    ) -> Option<Self> {
        let mut guard = arena.class(class);
        let keeper_bits = candidate(arena, &guard, class, keeper)?;
        let source_bits = candidate(arena, &guard, class, source)?;
        let overlap = keeper_bits.iter().zip(&source_bits).any(|(a, b)| a & b != 0);
        if overlap || keeper == source || !may_mesh(arena, &guard, class, keeper, source) {
            return None;
        }
        // Memory that the budget has no room for is not worth it.
        arena.fill_hollow(&mut guard, &[keeper, source]).ok()?;
        for span in [keeper, source] {
            guard.spans.hold(arena.map(), span);
        }
        Some(Self { arena, class, keeper, source, writers, allowance, added: 0 })
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
            self.arena.class(self.class).spans.link_member(self.arena.map(), alias, self.source, self.keeper, false);
        }
        if self.own_bits(self.source).iter().all(|&bits| bits == 0) {
            // Nothing of its own is left, so there is nothing to show: `settle` frees its pages.
            return Outcome::Meshed { mappings: self.added };
        }
        // SAFETY: by the function's contract.
        if let Err(outcome) = unsafe { self.move_addresses(self.source) } {
            return outcome;
        }
        let run = self.run(self.source);
        // SAFETY: the source's addresses show the keeper's pages now, as do those of its former aliases (I6).
        let purged = unsafe { self.arena.platform().purge(run) };
        {
            let mut guard = self.arena.class(self.class);
            guard.spans.link_member(self.arena.map(), self.source, self.source, self.keeper, purged.is_err());
            self.arena.page_heap().note_alias(run, purged.is_err());
        }
        purged.map_or_else(Outcome::Refused, |()| Outcome::Meshed { mappings: self.added })
    }

    /// The keeper's own aliases show its pages again.
    ///
    /// # Safety
    /// As for [`mesh`].
    unsafe fn relay_aliases(&mut self) -> Outcome {
        // SAFETY: by the function's contract.
        if let Err(outcome) = unsafe { self.share_keeper() } {
            return outcome;
        }
        // Bounded by the slots of a span. A busy keeper keeps its chain.
        let mut next = self.first_alias();
        while let Some(alias) = next {
            if self.arena.platform().is_private(self.run(alias))
                // SAFETY: by the function's contract. The alias's slots are free in the keeper's other members (I4).
                && let Err(outcome) = unsafe { self.move_addresses(alias) }
            {
                return outcome;
            }
            next = self.alias_after(alias);
        }
        Outcome::Meshed { mappings: self.added }
    }

    fn alias_after(&self, alias: PageIndex) -> Option<PageIndex> {
        let _guard = self.arena.class(self.class);
        // SAFETY: the class lock is held.
        match unsafe { self.arena.map().record(alias) } {
            PageRecord::Alias { next, .. } => next.get(),
            _ => None,
        }
    }

    /// Makes the keeper's pages such that other addresses can show them, if they are not.
    ///
    /// # Safety
    /// As for [`mesh`].
    unsafe fn share_keeper(&mut self) -> Result<(), Outcome> {
        let run = self.run(self.keeper);
        if !self.arena.platform().is_private(run) {
            return Ok(());
        }
        // Those of a keeper that was shared before a fork are counted already.
        let was_apart = self.arena.page_heap().is_apart(run);
        let added = self.count_mapping(run)?;
        let share = || {
            // SAFETY: by the function's contract, or by the barrier, nobody writes to the pages meanwhile.
            unsafe { self.arena.platform().share(run) }
        };
        // SAFETY: `share` allows writes again.
        let shared = unsafe { self.behind_barrier(run, share) };
        if let Err(error) = shared {
            if !was_apart {
                self.arena.page_heap().mappings_mut().remove(run);
            }
            return Err(Outcome::Refused(error));
        }
        self.note_mappings(added);
        Ok(())
    }

    /// Counts `run` as a mapping of its own, before it becomes one. Returns how many that adds.
    fn count_mapping(&self, run: PageRun) -> Result<usize, Outcome> {
        self.arena.page_heap().mappings_mut().add(run, self.allowance).map_err(|bound| match bound {
            Bound::Allowance => Outcome::NoAllowance,
            Bound::Budget => Outcome::NoBudget,
        })
    }

    const fn note_mappings(&mut self, added: usize) {
        self.allowance -= added;
        self.added += added;
    }

    fn first_alias(&self) -> Option<PageIndex> {
        let guard = self.arena.class(self.class);
        let source = guard.spans.keeper(self.arena.map(), self.source).expect("a busy span stays a keeper");
        source.aliases.get()
    }

    fn run(&self, head: PageIndex) -> PageRun {
        PageRun::new(head, self.arena.cut(self.class).pages)
    }

    /// Copies the live slots of `member` to the keeper's pages and makes the member's addresses show these.
    ///
    /// # Safety
    /// As for [`mesh`].
    unsafe fn move_addresses(&mut self, member: PageIndex) -> Result<(), Outcome> {
        let run = self.run(member);
        // What is moved out of its own pages becomes an alias by it; everything else is one.
        let was_alias = member != self.source;
        let added = self.count_mapping(run)?;
        // Slots that are released from here on are copied for nothing; none is claimed.
        let bits = self.own_bits(member);
        // SAFETY: the bits were just read; the rest is the function's contract.
        if let Err(error) = unsafe { self.copy_and_alias(member, run, &bits) } {
            if !was_alias {
                self.arena.page_heap().mappings_mut().remove(run);
            }
            return Err(Outcome::Refused(error));
        }
        self.note_mappings(added);
        Ok(())
    }

    /// # Safety
    /// As for [`mesh`]; `bits` must hold all live slots of `member`, whose pages are `run`.
    unsafe fn copy_and_alias(&self, member: PageIndex, run: PageRun, bits: &GroupBits) -> Result<(), PlatformError> {
        let copy_and_alias = || {
            // SAFETY: by the function's contract, or by the barrier, nobody writes to the member's objects meanwhile.
            unsafe { self.copy_live_slots(member, bits) };
            // SAFETY: the member's live slots were just copied to the keeper's pages (I5), which show their own memory.
            unsafe { self.arena.platform().alias(run, self.keeper) }
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
    unsafe fn copy_live_slots(&self, member: PageIndex, bits: &GroupBits) {
        let (map, cut) = (self.arena.map(), self.arena.cut(self.class));
        for (word, &bits) in bits.iter().enumerate().take(cut.words()) {
            for bit in set_bits(bits) {
                let slot = 64 * word as u32 + bit;
                let (from, to) = (slot_address(map, cut, member, slot), slot_address(map, cut, self.keeper, slot));
                // SAFETY: both slots lie in spans of this class; the keeper's is free in its whole group (I4) and nobody
                // claims from a busy span; the member's is stable by the function's contract.
                unsafe { to.copy_from_nonoverlapping(from, cut.size as usize) };
            }
        }
    }

    fn own_bits(&self, member: PageIndex) -> GroupBits {
        let _guard = self.arena.class(self.class);
        let words = self.arena.cut(self.class).words();
        let mut bits = [0; MAX_WORDS];
        for (word, bits) in bits.iter_mut().enumerate().take(words) {
            // SAFETY: the class lock is held.
            *bits = unsafe { self.arena.map().word(member, word) };
        }
        bits
    }

    /// Busy -> Partial, Full or free for the keeper, and for the source if it is a keeper still.
    fn settle(&self) {
        let map = self.arena.map();
        let mut guard = self.arena.class(self.class);
        let mut emptied = Emptied::new(self.arena.cut(self.class).pages);
        guard.spans.settle(map, self.keeper, &mut emptied);
        if guard.spans.keeper(map, self.source).is_some() {
            guard.spans.settle(map, self.source, &mut emptied);
        }
        self.arena.give_back(guard, emptied);
    }
}

/// Lays the members of the group at `head` together again, if they show memory of their own since a fork.
///
/// # Safety
/// As for [`mesh`].
pub(crate) unsafe fn thaw<P: Platform>(
    arena: &Arena<P>,
    class: SizeClass,
    head: PageIndex,
    allowance: usize,
    writers: Writers,
) -> Outcome {
    {
        let mut guard = arena.class(class);
        let Some(keeper) = guard.spans.resting_keeper(arena.map(), head) else { return Outcome::Stale };
        // SAFETY: the class lock is held.
        let mut members =
            core::iter::once(head).chain(unsafe { aliases(arena.map(), keeper.aliases) }.map(|(alias, _)| alias));
        let pages = arena.cut(class).pages;
        if keeper.aliases == PageLink::NONE
            || !members.any(|page| arena.platform().is_private(PageRun::new(page, pages)))
        {
            return Outcome::Stale;
        }
        if arena.is_pinned(&guard, class, head) || arena.fill_hollow(&mut guard, &[head]).is_err() {
            return Outcome::Stale;
        }
        guard.spans.hold(arena.map(), head);
    }
    let mut pair = Pair { arena, class, keeper: head, source: head, writers, allowance, added: 0 };
    // SAFETY: by the function's contract.
    let outcome = unsafe { pair.relay_aliases() };
    pair.settle();
    outcome
}

/// The taken slots of the whole group at `head`, if it is a partial span of `class`.
pub(crate) fn candidate<P: Platform>(
    arena: &Arena<P>,
    guard: &Class,
    class: SizeClass,
    head: PageIndex,
) -> Option<GroupBits> {
    let keeper = guard.spans.partial_keeper(arena.map(), head)?;
    // SAFETY: `guard` shows that the class lock is held.
    Some(unsafe { union(arena.map(), head, keeper.aliases, arena.cut(class).words()) })
}

/// Whether no pin is in the way: the source's pages go, and a keeper's that are private until they are shared change once.
fn may_mesh<P: Platform>(
    arena: &Arena<P>,
    guard: &Class,
    class: SizeClass,
    keeper: PageIndex,
    source: PageIndex,
) -> bool {
    let keeper_changes = arena.platform().is_private(PageRun::new(keeper, arena.cut(class).pages));
    let is_pinned = |head| arena.is_pinned(guard, class, head);
    !is_pinned(source) && (!keeper_changes || !is_pinned(keeper))
}

/// How many aliases the group at `head` has: what moving it costs. More than any if it is pinned, and cannot move.
pub(crate) fn alias_count<P: Platform>(arena: &Arena<P>, class: SizeClass, head: PageIndex) -> usize {
    let guard = arena.class(class);
    let Some(keeper) = guard.spans.partial_keeper(arena.map(), head) else { return 0 };
    if arena.is_pinned(&guard, class, head) {
        return usize::MAX;
    }
    // SAFETY: the class lock is held until the iterator ends.
    unsafe { aliases(arena.map(), keeper.aliases) }.count()
}
