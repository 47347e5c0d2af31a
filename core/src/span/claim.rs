//! Free -> taken: claiming the free slots of partial spans, in the order in which they will be handed out.

use crate::base::prefetch::prefetch;
use crate::base::rng::Rng;
use crate::base::units::PageIndex;
use crate::ds::shuffle_vector::{Object, ShuffleVector};
use crate::page_heap::PageMap;
use crate::span::bits::union_word;
use crate::span::class_spans::{ClassSpans, Keeper, slot_address};

impl ClassSpans {
    /// Takes up to `most` free slots, for which `vector` has room, of the fullest partial span. They will be popped ascending from a
    /// random slot on and then from the first: neighbours stay neighbours, and spans of one program pattern become
    /// rotations of each other, which mesh. Returns how many; 0: no partial span.
    pub(crate) fn claim(&mut self, map: &PageMap, vector: &mut ShuffleVector, most: usize, rng: &mut Rng) -> usize {
        let Some(head) = self.fullest() else { return 0 };
        let keeper = self.keeper(map, head).expect("I2: lists hold keepers");
        let free = self.cut.slots - u32::from(keeper.live);
        let count = most.min(free as usize);
        let cut = self.cut;
        let first = rng.below(self.cut.slots);
        // SAFETY: there is room for `count`, and `claim_slots` tells as many slots, as so many are free (I4).
        let mut place = unsafe { vector.extend(count) }.as_mut_ptr_range().end;
        self.claim_slots(map, head, keeper, first, count, |slot| {
            let object = slot_address(map, &cut, head, slot);
            // It will be written soon. Asked for at once, a vector's objects come in a fifth of the time that it takes to
            // miss them one after the other.
            prefetch(object.as_ptr());
            // SAFETY: as above: no more than `count` times.
            place = unsafe { place.sub(1) };
            // SAFETY: as above.
            unsafe { (*place).write(object) };
        });
        count
    }

    /// Takes one free slot of the fullest partial span.
    pub(crate) fn claim_one(&mut self, map: &PageMap) -> Option<Object> {
        let head = self.fullest()?;
        let keeper = self.keeper(map, head).expect("I2: lists hold keepers");
        let mut object = None;
        let cut = self.cut;
        self.claim_slots(map, head, keeper, 0, 1, |slot| object = Some(slot_address(map, &cut, head, slot)));
        object
    }

    pub(super) fn fullest(&self) -> Option<PageIndex> {
        self.partial.iter().rev().find_map(|list| list.get())
    }

    /// Sets the bits of the first `count` free slots from slot `first` on (and round), of which there are as many, tells
    /// each, and moves the span to its new place.
    #[inline]
    fn claim_slots(
        &mut self,
        map: &PageMap,
        head: PageIndex,
        keeper: Keeper,
        first: u32,
        count: usize,
        mut tell: impl FnMut(u32),
    ) {
        debug_assert_eq!(self.hollow(map, head), 0, "I8: what is claimed was charged");
        let words = self.cut.words();
        if words == 0 {
            tell(0);
        } else {
            let (first_word, before) = (first as usize / 64, (1_u64 << (first % 64)) - 1);
            // A single word is turned. Of several the first comes twice: from the first slot on, and at last up to it.
            let (last_step, turn) = if words == 1 { (0, first) } else { (words, 0) };
            let mut left = count;
            for step in 0..=last_step {
                let word = if first_word + step < words { first_word + step } else { first_word + step - words };
                let slots_here = (self.cut.slots - 64 * word as u32).min(64);
                // SAFETY: the class lock is held.
                let taken = unsafe { union_word(map, head, keeper.aliases, word) };
                let mut free = !taken & (u64::MAX >> (64 - slots_here));
                if last_step > 0 {
                    free &= if step == 0 { !before } else { u64::MAX };
                    free &= if step == words { before } else { u64::MAX };
                }
                let free = free.rotate_right(turn);
                let mut rest = free;
                while rest != 0 {
                    tell(64 * word as u32 + (rest.trailing_zeros() + turn) % 64);
                    rest &= rest - 1;
                    left -= 1;
                    if left == 0 {
                        break;
                    }
                }
                let claimed = (free ^ rest).rotate_left(turn);
                // SAFETY: the class lock is held.
                let own = unsafe { map.word(head, word) };
                // SAFETY: as above.
                unsafe { map.set_word(head, word, own | claimed) };
                if left == 0 {
                    break;
                }
            }
            debug_assert_eq!(left, 0, "I4: a keeper counts its group's slots");
        }
        self.taken += count as u64;
        self.empty -= u32::from(keeper.live == 0);
        #[expect(clippy::cast_possible_truncation, reason = "at most the slots of a span")]
        let live = keeper.live + count as u16;
        self.move_to_place(map, head, Keeper { live, ..keeper });
    }
}
