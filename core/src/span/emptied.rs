//! Spans whose last object was released, on their way back to the page heap: linked through their records, so that any
//! number can be carried without memory. They are off all lists and their class lock is still held.

use crate::base::units::{PageIndex, PageLink, PageRun};
use crate::page_heap::{PageHeap, PageMap, PageRecord};
use crate::span::hollow::SpanPages;

/// A stack of emptied spans of one class.
#[derive(Debug)]
pub(crate) struct Emptied {
    /// Spans that show their own memory.
    spans: PageLink,
    /// Aliases: their addresses have to show their own memory again before they can be used.
    aliases: PageLink,
    /// Pages of each of them.
    pages: u32,
}

impl Emptied {
    /// Nothing yet, of a class whose spans have `pages` pages.
    pub(crate) const fn new(pages: u32) -> Self {
        Self { spans: PageLink::NONE, aliases: PageLink::NONE, pages }
    }

    /// Whether there is nothing to give back.
    pub(crate) fn is_empty(&self) -> bool {
        self.spans == PageLink::NONE && self.aliases == PageLink::NONE
    }

    /// Adds the span at `head`.
    ///
    /// # Safety
    /// The caller must hold the class lock, and the span must be empty and linked nowhere.
    pub(crate) unsafe fn push_span(&mut self, map: &PageMap, head: PageIndex) {
        let next = self.spans;
        // SAFETY: by the function's contract.
        unsafe { map.set_record(head, PageRecord::InTransit { dirty: true, pages: self.pages, next }) };
        self.spans = PageLink::to(head);
    }

    /// Adds the alias at `head`; `dirty` if its own backing pages could not be purged.
    ///
    /// # Safety
    /// As for [`Emptied::push_span`].
    pub(crate) unsafe fn push_alias(&mut self, map: &PageMap, head: PageIndex, dirty: bool) {
        let (next, backing_is_dirty) = (self.aliases, dirty);
        // The keeper is of no interest any more; the record keeps the dirty flag until the page heap has the pages.
        let record = PageRecord::Alias { backing_is_dirty, live: 0, keeper: head, next };
        // SAFETY: by the function's contract.
        unsafe { map.set_record(head, record) };
        self.aliases = PageLink::to(head);
    }

    /// Gives all spans back to the page heap, and sets in transit the aliases and what is shared among private pages. Returns
    /// those, to be unaliased without a lock.
    ///
    /// # Safety
    /// The caller must hold the class lock.
    pub(crate) unsafe fn give_back(self, map: &PageMap, pages: &mut PageHeap) -> PartedAliases {
        let mut parted = PageLink::NONE;
        let mut link = self.spans;
        while let Some(head) = link.get() {
            // SAFETY: the class lock is held and the span is still of its class.
            let PageRecord::InTransit { next, .. } = (unsafe { map.record(head) }) else {
                unreachable!("I1: an emptied span is in transit");
            };
            link = next;
            let run = PageRun::new(head, self.pages);
            // SAFETY: as above.
            let hollow = unsafe { take_hollow(map, run) };
            if pages.is_apart(run) {
                pages.detach_shared(map, run, hollow.count_ones(), parted);
                parted = PageLink::to(head);
            } else {
                pages.free_hollow(map, run, hollow);
            }
        }
        let mut link = self.aliases;
        while let Some(head) = link.get() {
            // SAFETY: as above.
            let PageRecord::Alias { next, backing_is_dirty, .. } = (unsafe { map.record(head) }) else {
                unreachable!("I1: an emptied alias keeps its record");
            };
            link = next;
            pages.detach_alias(map, PageRun::new(head, self.pages), backing_is_dirty, parted);
            parted = PageLink::to(head);
        }
        PartedAliases { first: parted }
    }
}

/// The note of the emptied span `run` on its pages without memory, and the end of it.
///
/// # Safety
/// The caller must hold the lock of the class that the span belongs to.
unsafe fn take_hollow(map: &PageMap, run: PageRun) -> SpanPages {
    if run.count < 2 {
        return 0;
    }
    let noted = run.start.plus(1);
    // SAFETY: by the function's contract.
    let PageRecord::Hollow { pages } = (unsafe { map.record(noted) }) else { return 0 };
    // SAFETY: as above.
    unsafe { map.set_record(noted, PageRecord::Unused) };
    pages
}

/// Dead aliases, and shared pages that are to be private again, in transit: they belong to the thread that holds this.
#[derive(Debug)]
#[must_use = "the aliases have to be unaliased"]
pub(crate) struct PartedAliases {
    /// The first; each links the next.
    pub(crate) first: PageLink,
}
