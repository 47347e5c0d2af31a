//! The invariants as code (feature `check`): walks the whole heap and asserts I1 to I4, I7 and I8 by name. For tests, at moments
//! when no other thread uses the heap.

use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

use crate::base::units::{PageIndex, PageLink, PageRun, SizeClass};
use crate::heap::Heap;
use crate::page_heap::page_map::Place;
use crate::page_heap::{Content, PageKind, PageRecord};
use crate::platform::Platform;
use crate::span::arena::all_classes;
use crate::span::bits::{MAX_WORDS, aliases};
use crate::span::class_spans::ClassSpans;

/// What the walk by address found.
#[derive(Default)]
struct Found {
    in_use: u32,
    clean: u32,
    dirty: u32,
    /// Spans of each class, keepers and aliases.
    spans: BTreeMap<usize, Vec<PageIndex>>,
    /// Pages of spans that can mesh.
    span_pages: BTreeSet<u32>,
    /// Pages that show others' memory.
    aliased: BTreeSet<u32>,
    /// Pages of dead aliases that are still to be unaliased.
    parted: BTreeSet<u32>,
}

impl Found {
    /// Whether `page` belongs to a span of several slots.
    fn in_spans(&self, page: PageIndex) -> bool {
        self.span_pages.contains(&page.get())
    }
}

impl<P: Platform> Heap<P> {
    /// Asserts the heap's invariants. Panics with the number of the first that is broken. No other thread may use the heap
    /// meanwhile, and no mesh step may be under way.
    pub fn check_invariants(&self) {
        let found = self.walk_records();
        for class in all_classes() {
            self.check_class(class, found.spans.get(&class.index()).map_or(&[], Vec::as_slice));
        }
        let mut pages = self.arena().page_heap();
        let counts = pages.counts();
        let sums = (found.in_use, found.clean, found.dirty, found.parted.len());
        let counted = (counts.in_use, counts.clean, counts.dirty, counts.parted as usize);
        assert_eq!(sums, counted, "I1: every page is counted once");
        let private = self.arena().facts().private_until_shared;
        for page in (0..counts.frontier).map(PageIndex::new) {
            let counted = pages.mappings_mut().is_apart(page);
            let shown = found.aliased.contains(&page.get()) || found.parted.contains(&page.get());
            // A keeper's pages may be shared among private ones.
            let shared = counted && private && found.in_spans(page);
            assert!(counted == shown || shared, "I7: {page:?} is counted as what it is");
            let one = PageRun::new(page, 1);
            assert!(counted || !private || self.platform().is_private(one), "I7: what {page:?} shows is counted");
        }
        let aliased = u32::try_from(found.aliased.len()).expect("pages are counted in 32 bits");
        assert_eq!(aliased, counts.aliased, "I7: aliased pages are counted");
        let (in_use, held) = pages.account().counts();
        drop(pages);
        assert_eq!(in_use, counts.in_use, "I8: spans and large objects are charged");
        let hollow: u32 = all_classes().map(|class| self.arena().class(class).spans.counts().hollow_pages).sum();
        let expected = counts.in_use - counts.aliased - hollow + counts.dirty + counts.unpurged;
        assert_eq!(held, expected, "I8: the memory that pages hold is charged");
    }

    /// I1 and I2: runs lie end to end, each page of one kind.
    fn walk_records(&self) -> Found {
        let map = self.arena().map();
        let mut found = Found::default();
        let frontier = self.arena().page_heap().counts().frontier;
        let mut page = PageIndex::new(0);
        let mut before: Option<Content> = None;
        while page.get() < frontier {
            let (run, content) = match map.kind(page) {
                PageKind::Small(class) => (self.walk_span(&mut found, class, page), None),
                PageKind::LargeHead => (self.walk_large(&mut found, page), None),
                PageKind::LargeTail => panic!("I1: {page:?} continues a large object that does not start"),
                PageKind::Free => self.walk_free(&mut found, page),
            };
            assert!(
                content.is_none() || content != before,
                "I1: free neighbours of one content are merged at {page:?}"
            );
            before = content;
            page = run.end();
        }
        assert_eq!(page.get(), frontier, "I1: the last run ends at the frontier");
        assert_ne!(before, Some(Content::Zero), "I1: a clean run at the frontier joins what lies behind it");
        found
    }

    fn walk_span(&self, found: &mut Found, class: SizeClass, page: PageIndex) -> PageRun {
        let map = self.arena().map();
        let run = PageRun::new(page, self.arena().cut(class).pages);
        for inner in run.pages() {
            assert_eq!(map.kind(inner), PageKind::Small(class), "I2: {inner:?} belongs to the span at {page:?}");
            assert_eq!(map.span_head(inner, run.count), page, "I2: {inner:?} leads to its span");
        }
        found.in_use += run.count;
        if self.arena().cut(class).can_mesh() {
            found.span_pages.extend(run.pages().map(PageIndex::get));
        }
        found.spans.entry(class.index()).or_default().push(page);
        if matches!(map_record(self, page), PageRecord::Alias { .. }) {
            found.aliased.extend(run.pages().map(PageIndex::get));
        }
        run
    }

    fn walk_large(&self, found: &mut Found, page: PageIndex) -> PageRun {
        let PageRecord::Large { pages } = map_record(self, page) else {
            panic!("I2: the large object at {page:?} has its record");
        };
        let run = PageRun::new(page, pages);
        let tails = run.pages().skip(1).all(|inner| self.arena().map().kind(inner) == PageKind::LargeTail);
        assert!(tails, "I2: all pages of the large object at {page:?} are its tail");
        found.in_use += pages;
        run
    }

    fn walk_free(&self, found: &mut Found, page: PageIndex) -> (PageRun, Option<Content>) {
        let (pages, content) = match map_record(self, page) {
            PageRecord::FreeRun { clean: true, pages, .. } => (pages, Some(Content::Zero)),
            PageRecord::FreeRun { clean: false, pages, .. } => (pages, Some(Content::Old)),
            PageRecord::InTransit { pages, .. } => {
                // A dead alias that could not be unaliased yet.
                found.parted.extend(PageRun::new(page, pages).pages().map(PageIndex::get));
                (pages, None)
            }
            other => panic!("I1: {page:?} starts a free run, but its record is {other:?}"),
        };
        match content {
            Some(Content::Zero) => found.clean += pages,
            Some(Content::Old) => found.dirty += pages,
            None => {}
        }
        let run = PageRun::new(page, pages);
        let map = self.arena().map();
        assert!(run.pages().all(|inner| map.kind(inner) == PageKind::Free), "I1: the free run at {page:?} is free");
        (run, content)
    }

    /// I2 to I4 for the spans of one class, which the walk by address found.
    fn check_class(&self, class: SizeClass, heads: &[PageIndex]) {
        let map = self.arena().map();
        let words = self.arena().cut(class).words();
        let guard = self.arena().class(class);
        let (mut taken, mut alias_count, mut groups, mut hollow_pages) = (0, 0, 0, 0);
        let mut linked = BTreeSet::new();
        for &head in heads {
            taken += self.own(head, words).iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
            let Some(keeper) = guard.spans.keeper(map, head) else {
                alias_count += 1;
                continue;
            };
            hollow_pages += self.check_hollow(&guard.spans, head);
            groups += u32::from(keeper.aliases != PageLink::NONE);
            let mut union = self.own(head, words);
            // SAFETY: the class lock is held.
            for (alias, record) in unsafe { aliases(map, keeper.aliases) } {
                linked.insert(alias);
                let own = self.own(alias, words);
                let PageRecord::Alias { keeper: named, live, .. } = record else { unreachable!("aliases are aliases") };
                assert_eq!(named, head, "I2: the alias at {alias:?} names its keeper");
                assert_eq!(u32::from(live), count(&own), "I4: the alias at {alias:?} counts its slots");
                assert!(live > 0, "I4: the alias at {alias:?} has a live slot");
                for (all, own) in union.iter_mut().zip(own) {
                    assert_eq!(*all & own, 0, "I4: spans that share the page of {head:?} have disjoint slots");
                    *all |= own;
                }
            }
            assert_eq!(u32::from(keeper.live), count(&union), "I4: the keeper at {head:?} counts its group's slots");
            self.check_place(class, head, keeper.place, keeper.live);
        }
        let counts = guard.spans.counts();
        assert_eq!(counts.taken, taken, "I3: taken slots of {class:?} are counted");
        assert_eq!(counts.hollow_pages, hollow_pages, "I3: pages of {class:?} without memory are counted");
        assert_eq!(counts.spans as usize, heads.len(), "I1: spans of {class:?} are counted");
        assert_eq!(counts.groups, groups, "I2: keepers of {class:?} with aliases are counted");
        assert_eq!((counts.aliases as usize, linked.len()), (alias_count, alias_count), "I2: aliases are linked once");
        self.check_listed(class, &guard.spans, heads);
    }

    /// I1: lists hold the partial spans and none besides.
    fn check_listed(&self, class: SizeClass, spans: &ClassSpans, heads: &[PageIndex]) {
        let map = self.arena().map();
        let keepers = || heads.iter().filter_map(|&head| spans.keeper(map, head));
        let partial = keepers().filter(|keeper| keeper.place.list().is_some()).count();
        assert_eq!(spans.check_lists(map), partial, "I1: each partial span of {class:?} is on one list");
        let empty = keepers().filter(|keeper| keeper.live == 0).count();
        assert_eq!(spans.empty() as usize, empty, "I1: empty spans of {class:?} are counted");
    }

    /// How many pages of the span at `head` hold no memory. None of them has a taken slot.
    fn check_hollow(&self, spans: &ClassSpans, head: PageIndex) -> u32 {
        let map = self.arena().map();
        let hollow = spans.hollow(map, head);
        if hollow != 0 {
            let taken = spans.pages_with_taken_slots(map, head);
            assert_eq!(hollow & taken, 0, "I6: pages of {head:?} without memory have no taken slot");
        }
        hollow.count_ones()
    }

    fn check_place(&self, class: SizeClass, head: PageIndex, place: Place, live: u16) {
        let slots = self.arena().cut(class).slots;
        assert_ne!(place, Place::BUSY, "I1: no mesh is at work on {head:?}");
        assert_eq!(place == Place::FULL, u32::from(live) == slots, "I1: exactly full spans are on no list: {head:?}");
        assert!(live > 0 || place.list() == Some(0), "I1: the empty span at {head:?} is kept for the next claim");
    }

    fn own(&self, head: PageIndex, words: usize) -> [u64; MAX_WORDS] {
        if words == 0 {
            // A span of one slot keeps its bit in its record.
            let taken = matches!(map_record(self, head), PageRecord::Span { live: 1, .. });
            return core::array::from_fn(|word| u64::from(taken && word == 0));
        }
        // SAFETY: no other thread uses the heap, by the contract of `check_invariants`.
        core::array::from_fn(|word| if word < words { unsafe { self.arena().map().word(head, word) } } else { 0 })
    }
}

fn map_record<P: Platform>(heap: &Heap<P>, page: PageIndex) -> PageRecord {
    // SAFETY: no other thread uses the heap, by the contract of `check_invariants`.
    unsafe { heap.arena().map().record(page) }
}

fn count(words: &[u64]) -> u32 {
    words.iter().map(|word| word.count_ones()).sum()
}
