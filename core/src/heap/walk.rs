//! A look at every page: what it belongs to and how full it is, for heap maps and tests.

use core::ptr::NonNull;

use crate::base::units::{PageIndex, PageLink, PageRun, SizeClass};
use crate::heap::Heap;
use crate::page_heap::{PageKind, PageRecord};
use crate::platform::Platform;
use crate::span::bits::own_live;

/// What a run of pages is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PageUse {
    /// Free, without memory.
    Clean,
    /// Free, with old content.
    Dirty,
    /// A span that shows its own pages.
    Span {
        /// The bytes of a slot.
        slot_size: usize,
        /// Slots of the span.
        slots: usize,
        /// Slots taken at the span's own addresses.
        live: usize,
        /// Slots taken on the span's pages: its own and its aliases'.
        shared_live: usize,
    },
    /// A span whose addresses show another's pages.
    Alias {
        /// The first page of the span whose pages it shows.
        keeper: PageIndex,
        /// The bytes of a slot.
        slot_size: usize,
        /// Slots of the span.
        slots: usize,
        /// Slots taken at the span's own addresses.
        live: usize,
    },
    /// A large object.
    Large,
}

impl<P: Platform> Heap<P> {
    /// Tells `see` every run of pages up to the last that is in use, in address order, with what it is used for. Locks are
    /// taken for one run at a time, so a walk beside other threads shows each run as it was at some moment. `see` runs
    /// without locks and may use the heap.
    ///
    /// O(pages up to the last in use).
    pub fn walk_pages(&self, mut see: impl FnMut(PageRun, PageUse)) {
        let mut page = PageIndex::new(0);
        while page.get() < self.arena().page_heap().counts().frontier {
            let (count, used) = self.look_at(page);
            see(PageRun::new(page, count), used);
            page = page.plus(count);
        }
    }

    /// The run that starts at `page`.
    fn look_at(&self, page: PageIndex) -> (u32, PageUse) {
        let map = self.arena().map();
        if let PageKind::Small(class) = map.kind(page)
            && let Some(found) = self.look_at_span(class, page)
        {
            return found;
        }
        let pages = self.arena().page_heap();
        match map.kind(page) {
            PageKind::LargeHead => {
                let large = self.large_pages(page);
                (large.max(1), PageUse::Large)
            }
            PageKind::Free => {
                // SAFETY: the page-heap lock is held, and the page is free.
                match unsafe { map.record(page) } {
                    PageRecord::FreeRun { clean, pages, .. } => {
                        (pages, if clean { PageUse::Clean } else { PageUse::Dirty })
                    }
                    PageRecord::InTransit { pages, .. } => (pages.max(1), PageUse::Dirty),
                    _ => (1, PageUse::Clean),
                }
            }
            // The span came or went between the two looks: show the page alone.
            PageKind::Small(_) | PageKind::LargeTail => {
                drop(pages);
                (1, PageUse::Dirty)
            }
        }
    }

    fn look_at_span(&self, class: SizeClass, page: PageIndex) -> Option<(u32, PageUse)> {
        let (map, cut) = (self.arena().map(), *self.arena().cut(class));
        let _guard = self.arena().class(class);
        if map.kind(page) != PageKind::Small(class) {
            return None;
        }
        let (slot_size, slots) = (cut.size as usize, cut.slots as usize);
        // SAFETY: the class lock is held.
        let used = match unsafe { map.record(page) } {
            PageRecord::Span { live: shared, aliases, .. } => {
                let shared_live = shared as usize;
                // SAFETY: as above.
                let own = || unsafe { own_live(map, page, cut.words()) } as usize;
                let live = if aliases == PageLink::NONE { shared_live } else { own() };
                PageUse::Span { slot_size, slots, live, shared_live }
            }
            PageRecord::Alias { keeper, live, .. } => PageUse::Alias { keeper, slot_size, slots, live: live as usize },
            _ => return None,
        };
        Some((cut.pages, used))
    }

    /// Where in the arena `page` starts.
    ///
    /// # Panics
    /// The arena has no such page.
    pub fn page_address(&self, page: PageIndex) -> NonNull<u8> {
        assert!(page.get() < self.arena().map().pages(), "the arena has no such page");
        self.arena().map().address_of(page)
    }
}
