//! Taken -> free for many slots of one span at once: a word of its bitmap at a time, counted once.

use crate::base::units::PageIndex;
use crate::page_heap::PageMap;
use crate::span::class_spans::ClassSpans;
use crate::span::emptied::Emptied;

impl ClassSpans {
    /// Taken -> free for the slots of the span at `head` that are taken at its own addresses and not among those that `live`
    /// tells for each word of the bitmap. Returns how many; 0 if no span of this class starts there. A span that it empties
    /// goes to `emptied`.
    #[inline]
    pub(crate) fn release_all_but(
        &mut self,
        map: &PageMap,
        head: PageIndex,
        mut live: impl FnMut(usize) -> u64,
        emptied: &mut Emptied,
    ) -> u16 {
        if !map.starts_span(self.class, head, self.cut.pages) {
            return 0;
        }
        let mut released = 0;
        if self.cut.words() == 0 {
            // The record has the only bit.
            let taken = self.keeper(map, head).is_some_and(|keeper| keeper.live == 1);
            released = u32::from(live(0) & 1 == 0 && taken);
        }
        for word in 0..self.cut.words() {
            // SAFETY: the class lock is held.
            let own = unsafe { map.word(head, word) };
            let live = live(word);
            if own & !live != 0 {
                released += (own & !live).count_ones();
                // SAFETY: as above.
                unsafe { map.set_word(head, word, own & live) };
            }
        }
        let released = u16::try_from(released).expect("a span has at most 4096 slots");
        if released > 0 {
            self.count_releases(map, head, released, emptied);
        }
        released
    }
}
