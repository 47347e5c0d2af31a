//! What lies where: the object at an address, every object of the heap, and what each size class holds.
//!
//! Each span keeps the bitmap of its own slots, before and after a mesh. So everything here speaks of the addresses that
//! callers hold, and is as exact in a meshed heap as in a fresh one.

use core::ptr::NonNull;

use crate::base::error::{Misuse, MisuseKind};
use crate::base::units::{PageIndex, SizeClass};
use crate::heap::Heap;
use crate::page_heap::PageKind;
use crate::platform::Platform;
use crate::span::arena::{Class, all_classes};
use crate::span::bits::{GroupBits, MAX_WORDS};
use crate::span::class_spans::slot_address;

/// One slot or large object, as it was when it was looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ObjectInfo {
    /// Its first byte: what the allocation returned.
    pub start: NonNull<u8>,
    /// Its bytes, at least those that were asked for: for a slot those of its size class, for a large object whole pages.
    pub size: usize,
    /// It is a large object, in pages of its own.
    pub is_large: bool,
    /// A caller holds it, or it waits in a local heap or a depot. A large object always is.
    pub is_taken: bool,
}

/// What one size class holds. See [`Heap::classes`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ClassUse {
    /// Bytes of a slot.
    pub slot_size: usize,
    /// Slots taken, those that wait in local heaps and depots included.
    pub taken: usize,
    /// Slots of all spans, taken or not, aliases included.
    pub slots: usize,
    /// Spans, aliases included.
    pub spans: usize,
    /// Spans whose addresses show another's pages.
    pub aliases: usize,
    /// Bytes of physical memory: the pages of the spans that are no aliases, without those that were given back. Over
    /// `taken * slot_size`, it tells how fragmented the class is.
    pub held_bytes: usize,
}

/// The taken slots and large objects of a heap: see [`Heap::objects`].
#[derive(Debug)]
pub struct Objects<'h, P: Platform> {
    heap: &'h Heap<P>,
    /// The first page that was not looked at yet, and where the used pages ended when that was last asked.
    page: PageIndex,
    end: PageIndex,
    /// The span that is being told: a copy of its bitmap, less the slots that were told, and what they are.
    pub(super) bits: GroupBits,
    word: usize,
    pub(super) words: usize,
    pub(super) head: PageIndex,
    pub(super) class: SizeClass,
}

/// What a walk came to.
pub(super) enum Run {
    /// A span, whose bitmap is copied.
    Span,
    /// A large object.
    Large(ObjectInfo),
}

impl<P: Platform> Heap<P> {
    /// The slot or large object that `pointer` points into, be it to its start or not: for collectors that find pointers
    /// by chance. It says whether the slot is taken.
    ///
    /// O(1) for slots, with one lock; for a large object, a byte is read for each page before the pointer.
    ///
    /// # Errors
    /// [`MisuseKind::NotOurs`]: the pointer does not point into this heap, or where no object can lie (a free page, the
    /// rest of a span behind its last slot).
    pub fn object_at(&self, pointer: NonNull<u8>) -> Result<ObjectInfo, Misuse> {
        let map = self.arena().map();
        let page = map.page_of(pointer);
        let found = page.and_then(|page| match map.kind(page) {
            PageKind::Small(class) => self.slot_at(class, page, pointer),
            PageKind::LargeHead | PageKind::LargeTail => self.large_at(page),
            PageKind::Free => None,
        });
        found.ok_or(Misuse { address: pointer.addr().get(), kind: MisuseKind::NotOurs })
    }

    fn slot_at(&self, class: SizeClass, page: PageIndex, pointer: NonNull<u8>) -> Option<ObjectInfo> {
        let (map, cut) = (self.arena().map(), self.arena().cut(class));
        let guard = self.arena().class(class);
        // If the span went before the lock was ours, the page was free for a moment (I2).
        if map.kind(page) != PageKind::Small(class) {
            return None;
        }
        let head = map.span_head(page, cut.pages);
        let offset = u32::try_from(map.offset_in(head, pointer)).ok()?;
        let (slot, _) = cut.slot_at(offset);
        if slot >= cut.slots {
            return None;
        }
        let is_taken = self.own_word(&guard, class, head, slot as usize / 64) >> (slot % 64) & 1 != 0;
        Some(ObjectInfo {
            start: slot_address(map, cut, head, slot),
            size: cut.size as usize,
            is_large: false,
            is_taken,
        })
    }

    fn large_at(&self, page: PageIndex) -> Option<ObjectInfo> {
        let map = self.arena().map();
        let _pages = self.arena().page_heap();
        let mut head = page;
        // Ends at the object's head, before which no other page is a tail (I2).
        while map.kind(head) == PageKind::LargeTail {
            head = PageIndex::new(head.get() - 1);
        }
        let count = if map.kind(head) == PageKind::LargeHead { self.large_pages(head) } else { 0 };
        (page.since(head) < count).then(|| ObjectInfo {
            start: map.address_of(head),
            size: count as usize * map.page_size(),
            is_large: true,
            is_taken: true,
        })
    }

    /// Word number `word` of the slots taken at the addresses of the span of the locked class at `head`.
    pub(super) fn own_word(&self, guard: &Class, class: SizeClass, head: PageIndex, word: usize) -> u64 {
        let map = self.arena().map();
        if self.arena().cut(class).words() == 0 {
            return u64::from(guard.spans.keeper(map, head).is_some_and(|keeper| keeper.live == 1));
        }
        // SAFETY: `guard` shows that the class lock is held.
        unsafe { map.word(head, word) }
    }

    /// Every taken slot and every large object, in address order, by the addresses that callers hold.
    ///
    /// Slots that wait in local heaps and depots count as taken: flush the local heaps ([`crate::LocalHeap::flush`]) and
    /// then [`Heap::drain_depots`] first, where that matters.
    ///
    /// One span at a time is looked at under its class's lock, and no lock is held between the calls of `next`: the heap may
    /// be used meanwhile, by the caller as well. An object that lives through the whole walk is told once; one that comes or
    /// goes meanwhile may be told or not.
    ///
    /// O(pages up to the last in use + objects).
    pub fn objects(&self) -> Objects<'_, P> {
        let start = PageIndex::new(0);
        let class = SizeClass::new(0);
        Objects { heap: self, page: start, end: start, bits: [0; MAX_WORDS], word: 0, words: 0, head: start, class }
    }

    /// What each size class with spans holds, by ascending slot size: where the heap is fragmented. Each class is looked at
    /// under its lock, one after another.
    pub fn classes(&self) -> impl Iterator<Item = ClassUse> {
        let page_size = self.arena().map().page_size();
        let class_use = move |class| {
            let (counts, cut) = (self.arena().class(class).spans.counts(), self.arena().cut(class));
            let held_pages = (counts.spans - counts.aliases) as usize * cut.pages as usize;
            ClassUse {
                slot_size: cut.size as usize,
                taken: usize::try_from(counts.taken).unwrap_or(usize::MAX),
                slots: counts.spans as usize * cut.slots as usize,
                spans: counts.spans as usize,
                aliases: counts.aliases as usize,
                held_bytes: held_pages.saturating_sub(counts.hollow_pages as usize) * page_size,
            }
        };
        all_classes().map(class_use).filter(|class| class.spans > 0)
    }
}

impl<P: Platform> Objects<'_, P> {
    /// Copies the bitmap of the span that starts at `page`, if one of `class` does. Returns its pages, else 0.
    fn load(&mut self, class: SizeClass, page: PageIndex) -> u32 {
        let arena = self.heap.arena();
        let cut = *arena.cut(class);
        let guard = arena.class(class);
        if !arena.map().starts_span(class, page, cut.pages) {
            return 0;
        }
        // A span of one slot has no bitmap, but tells its slot in the same way.
        (self.head, self.class, self.word, self.words) = (page, class, 0, cut.words().max(1));
        for (word, bits) in self.bits.iter_mut().enumerate().take(self.words) {
            *bits = self.heap.own_word(&guard, class, page, word);
        }
        cut.pages
    }

    /// The next slot of the span that was not told yet.
    fn next_slot(&mut self) -> Option<ObjectInfo> {
        while self.word < self.words {
            let bits = &mut self.bits[self.word];
            if *bits != 0 {
                let slot = 64 * self.word as u32 + bits.trailing_zeros();
                *bits &= *bits - 1;
                let (map, cut) = (self.heap.arena().map(), self.heap.arena().cut(self.class));
                let (start, size) = (slot_address(map, cut, self.head, slot), cut.size as usize);
                return Some(ObjectInfo { start, size, is_large: false, is_taken: true });
            }
            self.word += 1;
        }
        None
    }

    /// Goes on to the next span, whose bitmap it copies, or to the next large object.
    pub(super) fn advance(&mut self) -> Option<Run> {
        loop {
            if self.page >= self.end {
                self.end = PageIndex::new(self.heap.arena().page_heap().counts().frontier);
                if self.page >= self.end {
                    return None;
                }
            }
            let page = self.page;
            // Pages of what came or went meanwhile are passed one by one: nothing that stays is jumped over.
            self.page = page.plus(1);
            match self.heap.arena().map().kind(page) {
                PageKind::Small(class) => {
                    let pages = self.load(class, page);
                    if pages > 0 {
                        self.page = page.plus(pages);
                        return Some(Run::Span);
                    }
                }
                PageKind::LargeHead => {
                    let map = self.heap.arena().map();
                    let large = self.heap.large_at(page).filter(|large| large.start == map.address_of(page));
                    if let Some(large) = large {
                        #[expect(clippy::cast_possible_truncation, reason = "pages are counted in 32 bits")]
                        let pages = (large.size / map.page_size()) as u32;
                        self.page = page.plus(pages);
                        return Some(Run::Large(large));
                    }
                }
                PageKind::LargeTail | PageKind::Free => {}
            }
        }
    }
}

impl<P: Platform> Iterator for Objects<'_, P> {
    type Item = ObjectInfo;

    fn next(&mut self) -> Option<ObjectInfo> {
        loop {
            if let Some(slot) = self.next_slot() {
                return Some(slot);
            }
            if let Run::Large(large) = self.advance()? {
                return Some(large);
            }
        }
    }
}
