//! Taken -> free: releasing slots to their spans, and finding the pointers that are no taken slots.

use crate::base::error::{Misuse, MisuseKind};
use crate::base::units::PageIndex;
use crate::ds::shuffle_vector::Object;
use crate::page_heap::page_map::Place;
use crate::page_heap::{PageKind, PageMap, PageRecord};
use crate::span::class_spans::ClassSpans;
use crate::span::emptied::Emptied;

impl ClassSpans {
    /// The span and slot that `object` is, if it is an object of this class.
    fn locate(&self, map: &PageMap, object: Object) -> Result<(PageIndex, u32), Misuse> {
        let place = map.page_of(object).filter(|&page| map.is_of_class(page, self.class));
        match place.and_then(|page| map.slot_of(&self.cut, page, object)) {
            Some(found) => Ok(found),
            None => Err(self.what_is(map, object)),
        }
    }

    /// Why `object` is no object of this class.
    #[cold]
    fn what_is(&self, map: &PageMap, object: Object) -> Misuse {
        let kind = match map.page_of(object).map(|page| map.kind(page)) {
            None | Some(PageKind::Free) => MisuseKind::NotOurs,
            Some(PageKind::Small(class)) if class == self.class => MisuseKind::Interior,
            Some(_) => MisuseKind::WrongLayout,
        };
        Misuse { address: object.addr().get(), kind }
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

    /// The span and slot that `object` is, if that is taken.
    pub(crate) fn taken_slot(&self, map: &PageMap, object: Object) -> Result<(PageIndex, u32), Misuse> {
        self.check_taken(map, object)?;
        self.locate(map, object)
    }

    fn is_taken(&self, map: &PageMap, head: PageIndex, slot: u32) -> bool {
        if self.cut.slots == 1 {
            return self.keeper(map, head).is_some_and(|keeper| keeper.live == 1);
        }
        // SAFETY: the class lock is held.
        let word = unsafe { map.word(head, slot as usize / 64) };
        word >> (slot % 64) & 1 != 0
    }

    /// Taken -> free. A span that it empties goes to `emptied`.
    pub(crate) fn release(&mut self, map: &PageMap, object: Object, emptied: &mut Emptied) -> Result<(), Misuse> {
        let mut objects = core::slice::from_ref(&object).iter();
        self.release_each(map, &mut objects, emptied)
    }

    /// Taken -> free for each of `objects` up to the first that is no taken slot; that one is told and the rest left in the
    /// iterator. Neighbours in one span are counted together.
    pub(crate) fn release_each(
        &mut self,
        map: &PageMap,
        objects: &mut core::slice::Iter<'_, Object>,
        emptied: &mut Emptied,
    ) -> Result<(), Misuse> {
        match self.cut.words() {
            0 => self.release_each_by(map, objects, emptied, |spans, head, slot| spans.is_taken(map, head, slot)),
            // Most classes have one word of bitmap.
            // SAFETY: the class lock is held.
            1 => self.release_each_by(map, objects, emptied, |_, head, slot| unsafe { map.clear_bit(head, 0, slot) }),
            _ => self.release_each_by(map, objects, emptied, |_, head, slot| {
                // SAFETY: as above.
                unsafe { map.clear_bit(head, slot as usize / 64, slot % 64) }
            }),
        }
    }

    /// The same, where `clear` clears a slot's bit, if it has one, and says whether the slot was taken.
    #[inline]
    fn release_each_by(
        &mut self,
        map: &PageMap,
        objects: &mut core::slice::Iter<'_, Object>,
        emptied: &mut Emptied,
        clear: impl Fn(&Self, PageIndex, u32) -> bool,
    ) -> Result<(), Misuse> {
        // A span of a single slot has no neighbours in it.
        let span_bytes = if self.cut.slots == 1 { 0 } else { self.cut.span_bytes() };
        while let Some(&object) = objects.next() {
            let (head, slot) = self.locate(map, object)?;
            if !clear(self, head, slot) {
                return Err(Misuse { address: object.addr().get(), kind: MisuseKind::DoubleFree });
            }
            let start = map.address_of(head).addr().get();
            let mut released = 1;
            while let Some(next) = objects.as_slice().first() {
                let offset = next.addr().get().wrapping_sub(start);
                if offset >= span_bytes {
                    break;
                }
                #[expect(clippy::cast_possible_truncation, reason = "a span is at most 1 MiB")]
                let (slot, exact) = self.cut.slot_at(offset as u32);
                if !exact || !clear(self, head, slot) {
                    // The next round tells what is wrong with it.
                    break;
                }
                objects.next();
                released += 1;
            }
            self.count_releases(map, head, released, emptied);
        }
        Ok(())
    }

    /// `released` live slots less in the span at `head` and in its keeper.
    #[inline]
    pub(super) fn count_releases(&mut self, map: &PageMap, head: PageIndex, released: u16, emptied: &mut Emptied) {
        self.taken -= u64::from(released);
        let stays = |place: Place, live| live > 0 && place.list().is_some_and(|list| self.stays_on(list, live));
        // SAFETY: the class lock is held.
        if !unsafe { map.lower_live(head, released, stays) } {
            self.count_and_move(map, head, released, emptied);
        }
    }

    /// The same for spans that leave their list by it, and for aliases.
    #[inline(never)]
    fn count_and_move(&mut self, map: &PageMap, head: PageIndex, released: u16, emptied: &mut Emptied) {
        // SAFETY: the class lock is held.
        let keeper_at = match unsafe { map.record(head) } {
            PageRecord::Alias { backing_is_dirty, live, keeper, next } => {
                let live = live - released;
                // SAFETY: as above.
                unsafe { map.set_record(head, PageRecord::Alias { backing_is_dirty, live, keeper, next }) };
                keeper
            }
            _ => head,
        };
        let mut keeper = self.keeper(map, keeper_at).expect("I2: an alias names its keeper");
        keeper.live -= released;
        if keeper.place == Place::BUSY {
            // The mesh step that holds it looks after whatever died meanwhile.
            self.set_keeper(map, keeper_at, keeper);
            return;
        }
        if head != keeper_at {
            keeper.aliases = self.part_if_dead(map, keeper.aliases, head, emptied);
        }
        if keeper.live == 0 && self.empty < self.empty_limit {
            self.empty += 1;
            self.move_to_place(map, keeper_at, keeper);
        } else if keeper.live == 0 {
            self.unlink(map, keeper);
            self.hand_over_hollow(map, keeper_at);
            self.spans -= 1;
            // SAFETY: the class lock is held; an empty keeper has no aliases, as each has a live slot (I4).
            unsafe { emptied.push_span(map, keeper_at) };
            if self.cut.slots > 1 {
                // A class that shrinks has no use for neighbours of its last new span.
                self.give_up_empty(map, usize::MAX, emptied);
            }
        } else {
            self.move_to_place(map, keeper_at, keeper);
        }
    }

    /// Gives up to `most` of the empty spans that were kept to `emptied`. Returns whether there were any.
    pub(crate) fn give_up_empty(&mut self, map: &PageMap, most: usize, emptied: &mut Emptied) -> bool {
        let before = self.empty;
        for _ in 0..most {
            let Some(head) = self.partial[0].get() else { break };
            let keeper = self.keeper(map, head).expect("I2: lists hold keepers");
            self.unlink(map, keeper);
            self.spans -= 1;
            self.empty -= 1;
            // SAFETY: the class lock is held, and the span is empty and was just unlinked.
            unsafe { emptied.push_span(map, head) };
        }
        before > 0
    }
}
