//! Pages inside long spans that hold no taken slot: their memory is given back while the span stays. What meshing leaves
//! behind, or has no mapping for, comes back this way, and in heaps that never mesh it is all there is.
//!
//! A hollow span's pages are noted in the record of its second page, until a slot is claimed from the span or its group
//! changes: whoever touches a hollow page gets a fresh one, which reads zero.

use crate::base::budget::OverBudget;
use crate::base::error::PlatformError;
use crate::base::units::{PageIndex, PageRun, SizeClass};
use crate::ds::size_class::Cut;
use crate::page_heap::{PageKind, PageMap, PageRecord};
use crate::platform::Platform;
use crate::span::arena::{Arena, Class};
use crate::span::bits::{GroupBits, set_bits, union};
use crate::span::class_spans::ClassSpans;
use crate::span::emptied::Emptied;

/// One bit a page of a span: those without a taken slot, or without memory.
pub(crate) type SpanPages = u16;

impl ClassSpans {
    /// The pages of the span at `head` that were given back and not used since.
    pub(crate) fn hollow(&self, map: &PageMap, head: PageIndex) -> SpanPages {
        if self.cut.pages < 2 {
            return 0;
        }
        // SAFETY: the page is of this class, whose lock is held.
        match unsafe { map.record(head.plus(1)) } {
            PageRecord::Hollow { pages } => pages,
            _ => 0,
        }
    }

    /// The pages of the span at `head` on which a taken slot lies, its own or an alias's; none if there is no keeper.
    pub(crate) fn pages_with_taken_slots(&self, map: &PageMap, head: PageIndex) -> SpanPages {
        let Some(keeper) = self.keeper(map, head) else { return 0 };
        // SAFETY: the class lock is held.
        let bits = unsafe { union(map, head, keeper.aliases, self.cut.words()) };
        pages_with_slots(&self.cut, &bits, map.page_size())
    }

    /// Notes that `pages` of the span at `head`, and no others, hold no memory.
    fn set_hollow(&mut self, map: &PageMap, head: PageIndex, pages: SpanPages) {
        self.hollow_pages -= self.hollow(map, head).count_ones();
        self.hollow_pages += pages.count_ones();
        // SAFETY: the page is of this class, whose lock is held.
        unsafe { map.set_record(head.plus(1), PageRecord::Hollow { pages }) };
    }

    /// Forgets what is noted of the span at `head`, whose pages are charged: its slots are about to be used.
    fn forget_hollow(&mut self, map: &PageMap, head: PageIndex) {
        let pages = self.hollow(map, head);
        if pages != 0 {
            self.hollow_pages -= pages.count_ones();
            // SAFETY: the page is of this class, whose lock is held.
            unsafe { map.set_record(head.plus(1), PageRecord::Unused) };
        }
    }

    /// The span at `head` is empty and about to go: the note goes with it, to the page heap.
    #[inline]
    pub(super) fn hand_over_hollow(&mut self, map: &PageMap, head: PageIndex) {
        self.hollow_pages -= self.hollow(map, head).count_ones();
    }
}

impl<P: Platform> Arena<P> {
    /// Charges what `spans` of the locked class lack in memory, all or nothing, and forgets that they are hollow: their slots are
    /// about to be used.
    pub(crate) fn fill_hollow(
        &self,
        guard: &mut Class,
        spans: impl Iterator<Item = PageIndex> + Clone,
    ) -> Result<(), OverBudget> {
        let pages = spans.clone().map(|head| guard.spans.hollow(&self.map, head).count_ones()).sum();
        if pages > 0 {
            self.page_heap().fill_hollow(pages)?;
            spans.for_each(|head| guard.spans.forget_hollow(&self.map, head));
        }
        Ok(())
    }

    /// The same for the span that is claimed from next.
    #[inline]
    pub(super) fn fill_fullest(&self, guard: &mut Class) -> Result<(), OverBudget> {
        match guard.spans.fullest() {
            Some(head) if guard.spans.hollow_pages > 0 => self.fill_hollow(guard, core::iter::once(head)),
            _ => Ok(()),
        }
    }

    /// [`Arena::hollow_span`] for all spans. Returns how many pages went back.
    pub(crate) fn hollow_all(&self) -> Result<u32, PlatformError> {
        if !self.facts().can_purge {
            return Ok(0);
        }
        let (mut given, mut next) = (0, Some(PageIndex::new(0)));
        while let Some(page) = next {
            let (pages, further) = self.hollow_next(page, u32::MAX)?;
            given += pages;
            next = further;
        }
        Ok(given)
    }

    /// [`Arena::hollow_span`] for the first span from `page` on that has such pages, if it starts within `most` pages. Returns how many
    /// pages it gave back, and the page to go on with; none at the end of the arena's used pages.
    pub(crate) fn hollow_next(&self, page: PageIndex, most: u32) -> Result<(u32, Option<PageIndex>), PlatformError> {
        let end = PageIndex::new(self.page_heap().counts().frontier);
        let stop = end.min(PageIndex::new(page.get().saturating_add(most)));
        let mut page = page;
        while page < stop {
            let mut pages = 1;
            if let PageKind::Small(class) = self.map.kind(page) {
                // Right for a span's first page; the rest of a span that came meanwhile is looked at to no purpose.
                pages = if self.map.span_head(page, self.cut(class).pages) == page { self.cut(class).pages } else { 1 };
                let given = self.hollow_span(class, page)?;
                if given > 0 {
                    return Ok((given, Some(page.plus(pages))));
                }
            }
            page = page.plus(pages);
        }
        Ok((0, (page < end).then_some(page)))
    }

    /// Gives back the memory of the pages without a taken slot in the span that starts at `page`, if there are any that hold
    /// memory. Returns how many pages it gave back. The class is locked meanwhile only to look and to note; nobody claims
    /// from the span, and slots that are released only make more pages empty.
    pub(crate) fn hollow_span(&self, class: SizeClass, page: PageIndex) -> Result<u32, PlatformError> {
        let Some((empty, before)) = self.hold_hollow(class, page) else { return Ok(0) };
        let mut given = 0;
        let mut outcome = Ok(());
        for run in runs(empty & !before) {
            let pages = PageRun::new(page.plus(run.start), run.end - run.start);
            // SAFETY: no slot on the pages is taken in the whole group, and nobody claims one while the span is held (I6).
            outcome = unsafe { self.platform.purge(pages) };
            if outcome.is_err() {
                break;
            }
            given |= mask(run);
        }
        let mut guard = self.class(class);
        guard.spans.set_hollow(&self.map, page, before | given);
        self.page_heap().note_hollow(given.count_ones());
        let mut emptied = Emptied::new(self.cut(class).pages);
        guard.spans.settle(&self.map, page, &mut emptied);
        self.give_back(guard, emptied);
        outcome.map(|()| given.count_ones())
    }

    /// Partial -> Busy for the span at `page`, if it has pages without a taken slot that hold memory. Tells all without one, and
    /// those of them that hold none.
    fn hold_hollow(&self, class: SizeClass, page: PageIndex) -> Option<(SpanPages, SpanPages)> {
        let mut guard = self.class(class);
        let empty = self.empty_pages(&guard, class, page)?;
        let run = PageRun::new(page, self.cut(class).pages);
        if self.platform.is_private(run) && self.page_heap().is_apart(run) {
            // A fork took it apart: its mapping would be cut into several that nobody counts. It is thawed first.
            return None;
        }
        let hollow = guard.spans.hollow(&self.map, page);
        if empty & !hollow == 0 {
            return None;
        }
        guard.spans.hold(&self.map, page);
        Some((empty, hollow))
    }

    /// The pages without a taken slot of the partial span that starts at `page`, if one does.
    fn empty_pages(&self, guard: &Class, class: SizeClass, page: PageIndex) -> Option<SpanPages> {
        let cut = self.cut(class);
        if cut.pages < 2 || cut.slots < 2 {
            return None;
        }
        guard.spans.partial_keeper(&self.map, page)?;
        Some(!guard.spans.pages_with_taken_slots(&self.map, page) & mask(0..cut.pages))
    }
}

/// The pages on which a slot of `bits` lies, whole or in part.
fn pages_with_slots(cut: &Cut, bits: &GroupBits, page_size: usize) -> SpanPages {
    let size = cut.size as usize;
    let mut pages = 0;
    for (word, &bits) in bits.iter().enumerate().take(cut.words()) {
        for bit in set_bits(bits) {
            let start = (64 * word + bit as usize) * size;
            #[expect(clippy::cast_possible_truncation, reason = "a span has at most 16 pages")]
            let (first, last) = ((start / page_size) as u32, ((start + size - 1) / page_size) as u32);
            pages |= mask(first..last + 1);
        }
    }
    pages
}

/// The bits of `pages`.
fn mask(pages: core::ops::Range<u32>) -> SpanPages {
    debug_assert!(pages.end <= SpanPages::BITS);
    #[expect(clippy::cast_possible_truncation, reason = "a span has at most 16 pages")]
    let below = |end: u32| ((1_u32 << end) - 1) as SpanPages;
    below(pages.end) & !below(pages.start)
}

/// The runs of set bits, ascending.
fn runs(mut pages: SpanPages) -> impl Iterator<Item = core::ops::Range<u32>> {
    core::iter::from_fn(move || {
        if pages == 0 {
            return None;
        }
        let start = pages.trailing_zeros();
        let run = start..start + (pages >> start).trailing_ones();
        pages &= !mask(run.clone());
        Some(run)
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{SpanPages, mask, pages_with_slots, runs};
    use crate::base::units::SizeClass;
    use crate::ds::size_class::{Cut, Cutting, SIZES};
    use crate::span::bits::MAX_WORDS;
    use quickcheck::quickcheck;
    use std::vec::Vec;

    quickcheck! {
        fn runs_are_the_set_bits(pages: SpanPages) -> bool {
            runs(pages).fold(0, |all, run| all | mask(run)) == pages
        }

        fn a_page_is_empty_iff_no_byte_of_it_is_taken(class: u8, taken: Vec<u8>) -> bool {
            let class = SizeClass::new(class % SIZES.len() as u8);
            let cut = Cut::new(class, &Cutting { page_size: 4096, can_alias: true, local_heap_bytes: 0 });
            if cut.pages < 2 || cut.slots < 2 {
                return true;
            }
            let mut bits = [0; MAX_WORDS];
            let mut expected = 0;
            for slot in taken.into_iter().map(|slot| u32::from(slot) % cut.slots) {
                bits[slot as usize / 64] |= 1 << (slot % 64);
                for byte in slot * cut.size..(slot + 1) * cut.size {
                    expected |= 1 << (byte / 4096);
                }
            }
            pages_with_slots(&cut, &bits, 4096) == expected
        }
    }
}
