//! Groups: a keeper and its aliases. Holding spans for a mesh step, linking what it moved, parting aliases that died.

use crate::base::units::{PageIndex, PageLink};
use crate::page_heap::page_map::Place;
use crate::page_heap::{PageMap, PageRecord};
use crate::span::bits::{aliases, own_live};
use crate::span::class_spans::{ClassSpans, Keeper};
use crate::span::emptied::Emptied;

impl ClassSpans {
    /// Takes the alias at `dead` out of the chain that starts at `first` if it has no live slot. Returns the chain's start.
    pub(super) fn part_if_dead(
        &mut self,
        map: &PageMap,
        first: PageLink,
        dead: PageIndex,
        emptied: &mut Emptied,
    ) -> PageLink {
        // SAFETY: the class lock is held.
        let PageRecord::Alias { backing_is_dirty, live: 0, next, .. } = (unsafe { map.record(dead) }) else {
            return first;
        };
        self.spans -= 1;
        self.aliases -= 1;
        self.groups -= u32::from(first == PageLink::to(dead) && next == PageLink::NONE);
        let start = if first == PageLink::to(dead) {
            next
        } else {
            // SAFETY: the class lock is held.
            let mut chain = unsafe { aliases(map, first) };
            let (before, record) = chain
                .find(|(_, record)| matches!(record, PageRecord::Alias { next, .. } if *next == PageLink::to(dead)))
                .expect("I2: a keeper links all of its aliases");
            set_next(map, before, record, next);
            first
        };
        // SAFETY: the class lock is held, and the alias is linked nowhere any more.
        unsafe { emptied.push_alias(map, dead, backing_is_dirty) };
        start
    }

    /// Partial or Full -> Busy: nobody claims from the keeper at `head` or frees it until it is settled.
    pub(crate) fn hold(&mut self, map: &PageMap, head: PageIndex) {
        let keeper = self.keeper(map, head).expect("callers hold keepers");
        self.unlink(map, keeper);
        self.link(map, head, Keeper { place: Place::BUSY, ..keeper });
    }

    /// Busy -> wherever it belongs: aliases that died meanwhile are parted, an empty span goes to `emptied`.
    pub(crate) fn settle(&mut self, map: &PageMap, head: PageIndex, emptied: &mut Emptied) {
        let mut keeper = self.keeper(map, head).expect("a busy span stays a keeper");
        let mut link = keeper.aliases;
        while let Some(alias) = link.get() {
            // SAFETY: the class lock is held.
            let PageRecord::Alias { next, .. } = (unsafe { map.record(alias) }) else {
                unreachable!("I4: a keeper links aliases");
            };
            link = next;
            keeper.aliases = self.part_if_dead(map, keeper.aliases, alias, emptied);
        }
        if keeper.live == 0 {
            self.hand_over_hollow(map, head);
            self.spans -= 1;
            // SAFETY: the class lock is held; dead aliases were parted above.
            unsafe { emptied.push_span(map, head) };
        } else {
            self.move_to_place(map, head, keeper);
        }
    }

    /// Moves one member of the busy group at `from`, whose addresses now show the pages of the busy keeper at `to`, over to
    /// it, with its live slots as they are now: a release that came since the copy is neither lost nor doubled. The member
    /// is the first alias of `from`, or `from` itself once it has none left; then `dirty` says whether its backing pages
    /// hold memory still.
    pub(crate) fn link_member(
        &mut self,
        map: &PageMap,
        member: PageIndex,
        from: PageIndex,
        to: PageIndex,
        dirty: bool,
    ) {
        let mut source = self.keeper(map, from).expect("a busy span stays a keeper");
        let mut target = self.keeper(map, to).expect("a busy span stays a keeper");
        // SAFETY: the class lock is held.
        let live = unsafe { own_live(map, member, self.cut.words()) };
        let backing_is_dirty = if member == from {
            debug_assert_eq!(source.aliases, PageLink::NONE, "a keeper moves last");
            self.aliases += 1;
            dirty
        } else {
            // SAFETY: as above.
            let PageRecord::Alias { next, backing_is_dirty, .. } = (unsafe { map.record(member) }) else {
                unreachable!("I4: a keeper links aliases");
            };
            debug_assert_eq!(source.aliases, PageLink::to(member), "aliases move in the order of the chain");
            source.aliases = next;
            self.groups -= u32::from(next == PageLink::NONE);
            source.live -= live;
            self.set_keeper(map, from, source);
            backing_is_dirty
        };
        let record = PageRecord::Alias { backing_is_dirty, live, keeper: to, next: target.aliases };
        // SAFETY: as above.
        unsafe { map.set_record(member, record) };
        self.groups += u32::from(target.aliases == PageLink::NONE);
        target.aliases = PageLink::to(member);
        target.live += live;
        self.set_keeper(map, to, target);
    }
}

/// Writes the alias record at `page` with another `next`.
fn set_next(map: &PageMap, page: PageIndex, record: PageRecord, next: PageLink) {
    let PageRecord::Alias { backing_is_dirty, live, keeper, .. } = record else {
        unreachable!("I4: a keeper links aliases");
    };
    // SAFETY: callers hold the class lock.
    unsafe { map.set_record(page, PageRecord::Alias { backing_is_dirty, live, keeper, next }) };
}
