//! The spans of one class: the lists of partial ones by occupancy, claiming free slots and releasing taken ones.
//!
//! ```text
//!             install                 claim (all slots)
//!   free run ─────────▶ Partial(list) ─────────────────▶ Full
//!       ▲                │  ▲  │ ▲                        │
//!       │ release (last) │  │  │ └──── release ───────────┘
//!       └────────────────┘  │  │ hold (mesh step)
//!                    settle │  ▼
//!                          Busy ──── link ───▶ Alias of another span
//! ```
//!
//! A span's bitmap holds the slots taken at its own addresses, before and after a mesh; a keeper's free slots are those that
//! neither it nor an alias has taken. New objects get the keeper's addresses, so an alias's slots only become fewer.
//!
//! # Who calls this
//! Everything here runs under the class lock, whose data this is.

use core::ptr::NonNull;

use crate::base::config::OCCUPANCY_LISTS;
use crate::base::error::{Misuse, MisuseKind};
use crate::base::units::{PageIndex, PageLink, SizeClass};
use crate::ds::shuffle_vector::{Object, ShuffleVector};
use crate::ds::size_class::Cut;
use crate::page_heap::page_map::Place;
use crate::page_heap::{PageKind, PageMap, PageRecord};
use crate::span::bits::{aliases, own_live, set_bits, union};
use crate::span::emptied::Emptied;

/// The spans of one class. Guarded by the class lock.
#[derive(Debug)]
pub(crate) struct ClassSpans {
    class: SizeClass,
    cut: Cut,
    partial: [PageLink; OCCUPANCY_LISTS],
    /// Spans, aliases included.
    spans: u32,
    /// Those that are aliases.
    aliases: u32,
    /// Slots taken, those that wait in vectors included.
    taken: u64,
}

/// A keeper's fields, read and written as one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keeper {
    pub(crate) place: Place,
    pub(crate) live: u16,
    pub(crate) previous: PageLink,
    pub(crate) next: PageLink,
    pub(crate) aliases: PageLink,
}

/// What one class holds, for statistics and plans.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClassCounts {
    pub(crate) spans: u32,
    pub(crate) aliases: u32,
    pub(crate) taken: u64,
}

impl ClassSpans {
    /// No spans yet.
    pub(crate) fn new(class: SizeClass, cut: Cut) -> Self {
        Self { class, cut, partial: [PageLink::NONE; OCCUPANCY_LISTS], spans: 0, aliases: 0, taken: 0 }
    }

    /// How many spans and slots there are.
    pub(crate) const fn counts(&self) -> ClassCounts {
        ClassCounts { spans: self.spans, aliases: self.aliases, taken: self.taken }
    }

    /// Spans on all lists; asserts that each is on the list that its place names and linked both ways.
    #[cfg(feature = "check")]
    pub(crate) fn check_lists(&self, map: &PageMap) -> usize {
        let mut listed = 0;
        for (list, &first) in self.partial.iter().enumerate() {
            let (mut link, mut before) = (first, PageLink::NONE);
            while let Some(head) = link.get() {
                let keeper = self.keeper(map, head).expect("I1: lists hold keepers");
                assert_eq!(keeper.place.list(), Some(list), "I1: {head:?} is on the list that it names");
                assert_eq!(
                    usize::from(self.list_for(keeper.live)),
                    list,
                    "I1: {head:?} is on the list for its live slots"
                );
                assert_eq!(keeper.previous, before, "I1: {head:?} is linked both ways");
                (before, link) = (link, keeper.next);
                listed += 1;
            }
        }
        listed
    }

    /// Reads the keeper at `head`; none if the record is another's.
    pub(crate) fn keeper(&self, map: &PageMap, head: PageIndex) -> Option<Keeper> {
        // SAFETY: callers pass pages of this class, whose lock is held.
        match unsafe { map.record(head) } {
            PageRecord::Span { place, live, previous, next, aliases } => {
                Some(Keeper { place, live, previous, next, aliases })
            }
            _ => None,
        }
    }

    fn set_keeper(&mut self, map: &PageMap, head: PageIndex, keeper: Keeper) {
        let Keeper { place, live, previous, next, aliases } = keeper;
        // SAFETY: callers pass pages of this class, whose lock is held.
        unsafe { map.set_record(head, PageRecord::Span { place, live, previous, next, aliases }) };
    }

    /// Free run -> Partial: the page at `head`, whose kind is this class already, starts an empty span.
    pub(crate) fn install(&mut self, map: &PageMap, head: PageIndex) {
        let (place, none) = (Place::partial(0), PageLink::NONE);
        self.spans += 1;
        self.link(map, head, Keeper { place, live: 0, previous: none, next: none, aliases: none });
    }

    /// Takes up to `vector`'s free capacity of free slots of the fullest partial span. Returns how many; 0: no partial span.
    pub(crate) fn claim(&mut self, map: &PageMap, vector: &mut ShuffleVector) -> usize {
        let Some(head) = self.partial.iter().rev().find_map(|list| list.get()) else {
            return 0;
        };
        let wanted = vector.capacity() - vector.length();
        let keeper = self.keeper(map, head).expect("I2: lists hold keepers");
        let start = map.address_of(head);
        let size = self.cut.size as usize;
        let claimed = self.claim_slots(map, head, keeper, wanted, |slot| {
            // SAFETY: the slot lies in the span's pages.
            let object = unsafe { start.add(slot as usize * size) };
            let pushed = vector.push(object);
            debug_assert!(pushed);
        });
        debug_assert!(claimed > 0, "a partial span has a free slot");
        claimed
    }

    /// Takes one free slot of the fullest partial span.
    pub(crate) fn claim_one(&mut self, map: &PageMap) -> Option<Object> {
        let head = self.partial.iter().rev().find_map(|list| list.get())?;
        let keeper = self.keeper(map, head).expect("I2: lists hold keepers");
        let mut object = None;
        let size = self.cut.size as usize;
        self.claim_slots(map, head, keeper, 1, |slot| {
            // SAFETY: the slot lies in the span's pages.
            object = Some(unsafe { map.address_of(head).add(slot as usize * size) });
        });
        object
    }

    /// Sets the bits of up to `wanted` free slots, tells each, and moves the span to its new place.
    fn claim_slots(
        &mut self,
        map: &PageMap,
        head: PageIndex,
        keeper: Keeper,
        wanted: usize,
        mut tell: impl FnMut(u32),
    ) -> usize {
        let words = self.cut.words();
        // SAFETY: the class lock is held.
        let taken = unsafe { union(map, head, keeper.aliases, words) };
        let mut left = wanted;
        if words == 0 && left > 0 {
            // A partial span of one slot is empty.
            tell(0);
            left -= 1;
        }
        for (word, &taken) in taken.iter().enumerate().take(words) {
            let slots_here = (self.cut.slots - 64 * word as u32).min(64);
            let mut claimed = 0;
            for bit in set_bits(!taken & (u64::MAX >> (64 - slots_here))).take(left) {
                claimed |= 1 << bit;
                tell(64 * word as u32 + bit);
                left -= 1;
            }
            // SAFETY: the class lock is held.
            let own = unsafe { map.word(head, word) };
            // SAFETY: as above.
            unsafe { map.set_word(head, word, own | claimed) };
        }
        let claimed = wanted - left;
        self.taken += claimed as u64;
        #[expect(clippy::cast_possible_truncation, reason = "at most the slots of a span")]
        let live = keeper.live + claimed as u16;
        self.move_to_place(map, head, Keeper { live, ..keeper });
        claimed
    }

    /// The span and slot that `object` is, if it is an object of this class.
    fn locate(&self, map: &PageMap, object: Object) -> Result<(PageIndex, u32), Misuse> {
        let misuse = |kind| Misuse { address: object.addr().get(), kind };
        let page = map.page_of(object).ok_or(misuse(MisuseKind::NotOurs))?;
        match map.kind(page) {
            PageKind::Small(class) if class == self.class => {}
            PageKind::Free => return Err(misuse(MisuseKind::NotOurs)),
            _ => return Err(misuse(MisuseKind::WrongLayout)),
        }
        let head = map.span_head(page, self.cut.pages);
        #[expect(clippy::cast_possible_truncation, reason = "a span is at most 1 MiB")]
        let (slot, exact) = self.cut.slot_at(map.offset_in(head, object) as u32);
        if slot >= self.cut.slots || !exact {
            return Err(misuse(MisuseKind::Interior));
        }
        Ok((head, slot))
    }

    /// Whether `object` is a taken slot: an object that the caller holds, or one that waits in a vector.
    pub(crate) fn check_taken(&self, map: &PageMap, object: Object) -> Result<(), Misuse> {
        let (head, slot) = self.locate(map, object)?;
        if self.is_taken(map, head, slot) {
            Ok(())
        } else {
            Err(Misuse { address: object.addr().get(), kind: MisuseKind::DoubleFree })
        }
    }

    fn is_taken(&self, map: &PageMap, head: PageIndex, slot: u32) -> bool {
        if self.cut.words() == 0 {
            return self.keeper(map, head).is_some_and(|keeper| keeper.live == 1);
        }
        // SAFETY: the class lock is held.
        let bits = unsafe { map.word(head, slot as usize / 64) };
        bits >> (slot % 64) & 1 != 0
    }

    /// Taken -> free. A span that it empties goes to `emptied`.
    pub(crate) fn release(&mut self, map: &PageMap, object: Object, emptied: &mut Emptied) -> Result<(), Misuse> {
        let (head, slot) = self.locate(map, object)?;
        if !self.is_taken(map, head, slot) {
            return Err(Misuse { address: object.addr().get(), kind: MisuseKind::DoubleFree });
        }
        if self.cut.words() > 0 {
            let (word, mask) = (slot as usize / 64, 1 << (slot % 64));
            // SAFETY: the class lock is held.
            let own = unsafe { map.word(head, word) };
            // SAFETY: as above.
            unsafe { map.set_word(head, word, own & !mask) };
        }
        self.taken -= 1;
        self.count_release(map, head, emptied);
        Ok(())
    }

    /// One live slot less in the span at `head` and in its keeper.
    fn count_release(&mut self, map: &PageMap, head: PageIndex, emptied: &mut Emptied) {
        // SAFETY: the class lock is held.
        let keeper_at = match unsafe { map.record(head) } {
            PageRecord::Alias { backing_is_dirty, live, keeper, next } => {
                let live = live - 1;
                // SAFETY: as above.
                unsafe { map.set_record(head, PageRecord::Alias { backing_is_dirty, live, keeper, next }) };
                keeper
            }
            _ => head,
        };
        let mut keeper = self.keeper(map, keeper_at).expect("I2: an alias names its keeper");
        keeper.live -= 1;
        if keeper.place == Place::BUSY {
            // The mesh step that holds it looks after whatever died meanwhile.
            self.set_keeper(map, keeper_at, keeper);
            return;
        }
        if head != keeper_at {
            keeper.aliases = self.part_if_dead(map, keeper.aliases, head, emptied);
        }
        if keeper.live == 0 {
            self.unlink(map, keeper);
            self.spans -= 1;
            // SAFETY: the class lock is held; an empty keeper has no aliases, as each has a live slot (I4).
            unsafe { emptied.push_span(map, keeper_at) };
        } else {
            self.move_to_place(map, keeper_at, keeper);
        }
    }

    /// Takes the alias at `dead` out of the chain that starts at `first` if it has no live slot. Returns the chain's start.
    fn part_if_dead(&mut self, map: &PageMap, first: PageLink, dead: PageIndex, emptied: &mut Emptied) -> PageLink {
        // SAFETY: the class lock is held.
        let PageRecord::Alias { backing_is_dirty, live: 0, next, .. } = (unsafe { map.record(dead) }) else {
            return first;
        };
        self.spans -= 1;
        self.aliases -= 1;
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

    /// The list for a span with `live` taken slots: by quarters.
    fn list_for(&self, live: u16) -> u8 {
        let (live, slots) = (u32::from(live) * 4, self.cut.slots);
        u8::from(live >= slots) + u8::from(live >= 2 * slots) + u8::from(live >= 3 * slots)
    }

    /// Puts the keeper at `head` where its count of live slots belongs.
    fn move_to_place(&mut self, map: &PageMap, head: PageIndex, keeper: Keeper) {
        let place = if u32::from(keeper.live) == self.cut.slots {
            Place::FULL
        } else {
            Place::partial(self.list_for(keeper.live))
        };
        if place == keeper.place {
            self.set_keeper(map, head, keeper);
        } else {
            self.unlink(map, keeper);
            self.link(map, head, Keeper { place, ..keeper });
        }
    }

    /// Takes a keeper off its list, if it is on one; its own record is written by whoever goes on with it.
    fn unlink(&mut self, map: &PageMap, keeper: Keeper) {
        let Some(list) = keeper.place.list() else { return };
        match keeper.previous.get() {
            Some(before) => self.relink(map, before, |neighbour| neighbour.next = keeper.next),
            None => self.partial[list] = keeper.next,
        }
        if let Some(after) = keeper.next.get() {
            self.relink(map, after, |neighbour| neighbour.previous = keeper.previous);
        }
    }

    /// Writes the keeper at `head`, at the front of the list that its place names.
    fn link(&mut self, map: &PageMap, head: PageIndex, mut keeper: Keeper) {
        (keeper.previous, keeper.next) = (PageLink::NONE, PageLink::NONE);
        if let Some(list) = keeper.place.list() {
            keeper.next = self.partial[list];
            if let Some(after) = keeper.next.get() {
                self.relink(map, after, |neighbour| neighbour.previous = PageLink::to(head));
            }
            self.partial[list] = PageLink::to(head);
        }
        self.set_keeper(map, head, keeper);
    }

    fn relink(&mut self, map: &PageMap, head: PageIndex, change: impl FnOnce(&mut Keeper)) {
        let mut keeper = self.keeper(map, head).expect("I2: lists hold keepers");
        change(&mut keeper);
        self.set_keeper(map, head, keeper);
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
            source.live -= live;
            self.set_keeper(map, from, source);
            backing_is_dirty
        };
        let record = PageRecord::Alias { backing_is_dirty, live, keeper: to, next: target.aliases };
        // SAFETY: as above.
        unsafe { map.set_record(member, record) };
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

/// Where slot `slot` of the span at `head` starts.
pub(crate) fn slot_address(map: &PageMap, cut: &Cut, head: PageIndex, slot: u32) -> NonNull<u8> {
    // SAFETY: the slot lies in the span's pages.
    unsafe { map.address_of(head).add(slot as usize * cut.size as usize) }
}
