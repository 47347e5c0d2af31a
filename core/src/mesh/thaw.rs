//! Laying groups together again that a fork took apart: each member shows memory of its own then, with the bytes of its own
//! objects.

use crate::base::units::{PageIndex, PageLink, PageRun, SizeClass};
use crate::mesh::pair::{Outcome, Pair, Writers};
use crate::mesh::row::{Row, join_neighbours};
use crate::page_heap::PageRecord;
use crate::platform::Platform;
use crate::span::arena::Arena;
use crate::span::bits::aliases;

/// Lays the members of the group at `head` together again, if they show memory of their own since a fork. A keeper without aliases
/// is shared again all the same: as long as one page shows the memory of before the fork, the system keeps all of that.
///
/// # Safety
/// As for [`crate::mesh::pair::mesh`].
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
        let run = |page| PageRun::new(page, pages);
        let was_shared = keeper.aliases != PageLink::NONE || arena.page_heap().is_apart(run(head));
        if !was_shared || !members.any(|page| arena.platform().is_private(run(page))) {
            return Outcome::Stale;
        }
        if arena.is_pinned(&guard, class, head) || arena.fill_hollow(&mut guard, core::iter::once(head)).is_err() {
            // Nothing that the pass could change.
            return Outcome::NoBudget;
        }
        guard.spans.hold(arena.map(), head);
    }
    let group = Row::single(class, head);
    let mut pair = Pair { arena, keeper: group, source: group, writers, allowance, added: 0 };
    // SAFETY: by the function's contract.
    let outcome = unsafe { pair.relay_aliases() };
    pair.settle();
    outcome
}

impl<P: Platform> Pair<'_, P> {
    /// The keeper's own aliases show its pages again.
    ///
    /// # Safety
    /// As for [`crate::mesh::pair::mesh`].
    unsafe fn relay_aliases(&mut self) -> Outcome {
        // SAFETY: by the function's contract.
        if let Err(outcome) = unsafe { self.share_keeper() } {
            return outcome;
        }
        // Bounded by the slots of a span. A busy keeper keeps its chain.
        let mut next = self.first_alias();
        while let Some(alias) = next {
            if self.arena.platform().is_private(Row::single(self.keeper.class, alias).run(self.arena))
                // SAFETY: by the function's contract. The alias's slots are free in the keeper's other members (I4).
                && let Err(outcome) = unsafe { self.move_addresses(alias) }
            {
                return outcome;
            }
            join_neighbours(self.arena, Row::single(self.keeper.class, alias));
            next = self.alias_after(alias);
        }
        Outcome::Meshed { mappings: self.added }
    }

    fn alias_after(&self, alias: PageIndex) -> Option<PageIndex> {
        let _guard = self.arena.class(self.keeper.class);
        // SAFETY: the class lock is held.
        match unsafe { self.arena.map().record(alias) } {
            PageRecord::Alias { next, .. } => next.get(),
            _ => None,
        }
    }
}
