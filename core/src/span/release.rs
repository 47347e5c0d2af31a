//! Taken -> free: releasing slots to their spans, and finding the pointers that are no taken slots.

use crate::base::error::{Misuse, MisuseKind};
use crate::base::units::PageIndex;
use crate::ds::shuffle_vector::Object;
use crate::ds::size_class::Cut;
use crate::page_heap::page_map::Place;
use crate::page_heap::{PageKind, PageMap, PageRecord};
use crate::span::class_spans::ClassSpans;
use crate::span::emptied::Emptied;

impl ClassSpans {
    /// The span and slot that `object` is, if it is an object of this class.
    fn locate(&self, map: &PageMap, object: Object) -> Result<(PageIndex, u32), Misuse> {
        let misuse = |kind| Misuse { address: object.addr().get(), kind };
        let page = map.page_of(object).ok_or(misuse(MisuseKind::NotOurs))?;
        match map.kind(page) {
            PageKind::Small(class) if class == self.class => {}
            PageKind::Free => return Err(misuse(MisuseKind::NotOurs)),
            _ => return Err(misuse(MisuseKind::WrongLayout)),
        }
        map.slot_of(&self.cut, page, object).ok_or(misuse(MisuseKind::Interior))
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
        self.own_word(map, head, slot / 64) >> (slot % 64) & 1 != 0
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
        let mut outcome = Ok(());
        while outcome.is_ok() && !objects.as_slice().is_empty() {
            let first = objects.as_slice()[0];
            let head = match self.locate(map, first) {
                Ok((head, _)) => head,
                Err(misuse) => {
                    objects.next();
                    return Err(misuse);
                }
            };
            let released;
            (released, outcome) = self.release_from(map, head, objects);
            if released > 0 {
                self.count_releases(map, head, released, emptied);
            }
        }
        outcome
    }

    /// Clears the bits of the slots in the span at `head` that `objects` begins with. Returns how many, and the misuse that
    /// ended it, if one did.
    fn release_from(
        &mut self,
        map: &PageMap,
        head: PageIndex,
        objects: &mut core::slice::Iter<'_, Object>,
    ) -> (u16, Result<(), Misuse>) {
        let start = map.address_of(head).addr().get();
        let (cut, all) = (self.cut, objects.as_slice());
        let (mut released, mut misuse) = (0, None);
        while let Some(object) = all.get(released) {
            let offset = object.addr().get().wrapping_sub(start);
            if offset >= cut.slots as usize * cut.size as usize {
                break;
            }
            #[expect(clippy::cast_possible_truncation, reason = "a span is at most 1 MiB")]
            let (slot, exact) = cut.slot_at(offset as u32);
            // Most neighbours in a vector are neighbours in a span, too: one word of the bitmap serves many.
            let mut bits = self.own_word(map, head, slot / 64);
            if cut.slots == 1 && released > 0 {
                // The record, which has the only bit, is written after this loop.
                bits = 0;
            }
            let cleared = clear_bits(&cut, start, slot / 64, &mut bits, &all[released..]);
            self.set_own_word(map, head, slot / 64, bits);
            released += cleared;
            if cleared == 0 {
                let kind = if exact { MisuseKind::DoubleFree } else { MisuseKind::Interior };
                misuse = Some(Misuse { address: object.addr().get(), kind });
                break;
            }
        }
        *objects = all[released + usize::from(misuse.is_some())..].iter();
        #[expect(clippy::cast_possible_truncation, reason = "at most the slots of a span")]
        let released = released as u16;
        (released, misuse.map_or(Ok(()), Err))
    }

    /// Word number `word` of the bitmap of the span at `head`. A span of one slot has it in its record.
    fn own_word(&self, map: &PageMap, head: PageIndex, word: u32) -> u64 {
        if self.cut.slots == 1 {
            return self.keeper(map, head).map_or(0, |keeper| u64::from(keeper.live));
        }
        // SAFETY: the class lock is held.
        unsafe { map.word(head, word as usize) }
    }

    fn set_own_word(&mut self, map: &PageMap, head: PageIndex, word: u32, bits: u64) {
        if self.cut.slots > 1 {
            // SAFETY: the class lock is held.
            unsafe { map.set_word(head, word as usize, bits) };
        }
    }

    /// `released` live slots less in the span at `head` and in its keeper.
    fn count_releases(&mut self, map: &PageMap, head: PageIndex, released: u16, emptied: &mut Emptied) {
        self.taken -= u64::from(released);
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
            self.spans -= 1;
            // SAFETY: the class lock is held; an empty keeper has no aliases, as each has a live slot (I4).
            unsafe { emptied.push_span(map, keeper_at) };
        } else {
            self.move_to_place(map, keeper_at, keeper);
        }
    }

    /// Gives up to `most` of the empty spans that were kept to `emptied`. Returns whether there were any.
    pub(crate) fn give_up_empty(&mut self, map: &PageMap, most: usize, emptied: &mut Emptied) -> bool {
        let before = self.empty;
        for _ in 0..most {
            let Some(head) = self.partial[0].get().filter(|_| self.empty > 0) else { break };
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

/// Clears in `bits`, word `word` of the bitmap of the span at address `start`, the bits of the objects that `objects` begins
/// with. Returns how many: it stops at the first that is no taken slot of this word. Apart, as this is the innermost loop of
/// every free that goes beyond the local heap.
#[inline(never)]
fn clear_bits(cut: &Cut, start: usize, word: u32, bits: &mut u64, objects: &[Object]) -> usize {
    let cut = *cut;
    let length = 64 * cut.size as usize;
    let start = start + word as usize * length;
    let mut rest = *bits;
    let mut cleared = 0;
    for object in objects {
        let offset = object.addr().get().wrapping_sub(start);
        if offset >= length {
            break;
        }
        #[expect(clippy::cast_possible_truncation, reason = "64 slots are less than 4 GiB")]
        let (slot, exact) = cut.slot_at(offset as u32);
        let mask = 1 << (slot % 64);
        if rest & mask == 0 || !exact {
            break;
        }
        rest ^= mask;
        cleared += 1;
    }
    *bits = rest;
    cleared
}
