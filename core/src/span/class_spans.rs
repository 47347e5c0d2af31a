//! The spans of one class and the lists of partial ones by occupancy. Files beside this one add what is done with them:
//! `claim.rs`, `release.rs`, and `group.rs` for what meshing needs.
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

use crate::base::config::{EMPTY_SPAN_BYTES, OCCUPANCY_LISTS};
use crate::base::units::{PageIndex, PageLink, SizeClass};
use crate::ds::size_class::Cut;
use crate::page_heap::page_map::Place;
use crate::page_heap::{PageMap, PageRecord};

/// Lists of partial spans: empty ones, and the others by occupancy.
const LISTS: usize = 1 + OCCUPANCY_LISTS;

/// The spans of one class. Guarded by the class lock.
#[derive(Debug)]
pub(crate) struct ClassSpans {
    pub(super) class: SizeClass,
    pub(super) cut: Cut,
    pub(super) partial: [PageLink; LISTS],
    /// Spans, aliases included.
    pub(super) spans: u32,
    /// Those that are aliases.
    pub(super) aliases: u32,
    /// Those that have aliases.
    pub(super) groups: u32,
    /// Slots taken, those that wait in vectors included.
    pub(super) taken: u64,
    /// Empty spans, all on list 0: neighbours of a new span that were taken with it, and of a class with one slot a span those that
    /// are kept so that not every object of a page or more is a trip to the page heap.
    pub(super) empty: u32,
    /// The most of them that a release keeps.
    pub(super) empty_limit: u32,
    /// Pages of spans that hold no memory.
    pub(super) hollow_pages: u32,
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
    /// Keepers that have aliases.
    pub(crate) groups: u32,
    pub(crate) taken: u64,
    /// Pages of the spans that hold no memory, aliases apart.
    pub(crate) hollow_pages: u32,
}

impl ClassSpans {
    /// No spans yet.
    pub(crate) fn new(class: SizeClass, cut: Cut) -> Self {
        let empty_limit = if cut.slots == 1 { EMPTY_SPAN_BYTES / cut.size } else { 0 };
        Self {
            class,
            cut,
            partial: [PageLink::NONE; LISTS],
            spans: 0,
            aliases: 0,
            groups: 0,
            taken: 0,
            empty: 0,
            empty_limit,
            hollow_pages: 0,
        }
    }

    /// How many spans and slots there are.
    pub(crate) const fn counts(&self) -> ClassCounts {
        let Self { spans, aliases, groups, taken, hollow_pages, .. } = *self;
        ClassCounts { spans, aliases, groups, taken, hollow_pages }
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

    /// The keeper at `page`, if a partial span of this class starts there that is not empty (kept on a list, so not at work).
    pub(crate) fn partial_keeper(&self, map: &PageMap, page: PageIndex) -> Option<Keeper> {
        self.resting_keeper(map, page).filter(|keeper| keeper.live > 0 && keeper.place.list().is_some())
    }

    /// The keeper that starts at `page`, if one of this class does and no step works on it.
    pub(crate) fn resting_keeper(&self, map: &PageMap, page: PageIndex) -> Option<Keeper> {
        if !map.starts_span(self.class, page, self.cut.pages) {
            return None;
        }
        self.keeper(map, page).filter(|keeper| keeper.place != Place::BUSY)
    }

    /// The first of the pages that the span of this class which starts at `page` shows, if one does: its keeper's, or its own.
    pub(crate) fn shown_by(&self, map: &PageMap, page: PageIndex) -> Option<PageIndex> {
        if !map.starts_span(self.class, page, self.cut.pages) {
            return None;
        }
        // SAFETY: the page is of this class, whose lock is held.
        match unsafe { map.record(page) } {
            PageRecord::Span { .. } => Some(page),
            PageRecord::Alias { keeper, .. } => Some(keeper),
            _ => None,
        }
    }

    pub(super) fn set_keeper(&mut self, map: &PageMap, head: PageIndex, keeper: Keeper) {
        let Keeper { place, live, previous, next, aliases } = keeper;
        // SAFETY: callers pass pages of this class, whose lock is held.
        unsafe { map.set_record(head, PageRecord::Span { place, live, previous, next, aliases }) };
    }

    /// Free run -> Partial: the page at `head`, whose kind is this class already, starts an empty span.
    pub(crate) fn install(&mut self, map: &PageMap, head: PageIndex) {
        let (place, none) = (Place::partial(0), PageLink::NONE);
        self.spans += 1;
        self.empty += 1;
        if self.cut.pages > 1 {
            // Whatever it was before; see `hollow`.
            // SAFETY: the page is of this class now, whose lock is held.
            unsafe { map.set_record(head.plus(1), PageRecord::Unused) };
        }
        self.link(map, head, Keeper { place, live: 0, previous: none, next: none, aliases: none });
    }

    /// The list for a span with `live` taken slots: the first for an empty one, the others by quarters.
    fn list_for(&self, live: u16) -> u8 {
        let (quarters, slots) = (u32::from(live) * 4, self.cut.slots);
        u8::from(live > 0)
            + u8::from(quarters >= slots)
            + u8::from(quarters >= 2 * slots)
            + u8::from(quarters >= 3 * slots)
    }

    /// Whether a span on list number `list` that has lost slots and has `live` left, at least one, belongs there still: lists end
    /// at quarters.
    pub(super) fn stays_on(&self, list: usize, live: u16) -> bool {
        4 * u32::from(live) >= (list as u32 - 1) * self.cut.slots
    }

    /// Empty spans on list 0.
    #[cfg(feature = "check")]
    pub(crate) const fn empty(&self) -> u32 {
        self.empty
    }

    /// Puts the keeper at `head` where its count of live slots belongs.
    pub(super) fn move_to_place(&mut self, map: &PageMap, head: PageIndex, keeper: Keeper) {
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
    pub(super) fn unlink(&mut self, map: &PageMap, keeper: Keeper) {
        let Some(list) = keeper.place.list() else { return };
        match keeper.previous.get() {
            // SAFETY: the class lock is held, and lists hold keepers (I2).
            Some(before) => unsafe { map.relink(before, |_, next| *next = keeper.next) },
            None => self.partial[list] = keeper.next,
        }
        if let Some(after) = keeper.next.get() {
            // SAFETY: as above.
            unsafe { map.relink(after, |previous, _| *previous = keeper.previous) };
        }
    }

    /// Writes the keeper at `head`, at the front of the list that its place names.
    pub(super) fn link(&mut self, map: &PageMap, head: PageIndex, mut keeper: Keeper) {
        (keeper.previous, keeper.next) = (PageLink::NONE, PageLink::NONE);
        if let Some(list) = keeper.place.list() {
            keeper.next = self.partial[list];
            if let Some(after) = keeper.next.get() {
                // SAFETY: as in `unlink`.
                unsafe { map.relink(after, |previous, _| *previous = PageLink::to(head)) };
            }
            self.partial[list] = PageLink::to(head);
        }
        self.set_keeper(map, head, keeper);
    }
}

/// Where slot `slot` of the span at `head` starts.
pub(crate) fn slot_address(map: &PageMap, cut: &Cut, head: PageIndex, slot: u32) -> NonNull<u8> {
    // SAFETY: the slot lies in the span's pages.
    unsafe { map.address_of(head).add(slot as usize * cut.size as usize) }
}
