//! What every page of the arena belongs to: one *kind* byte a page that anyone may read, and one 16-byte *record* and one
//! bitmap a page that belong to whoever the kind names.
//!
//! | kind | who may touch the page's record and bitmap |
//! |---|---|
//! | `Free` | the holder of the page-heap lock; in transit: the owning thread reads, and writes under that lock |
//! | `Small(c)` | the holder of class lock `c` |
//! | `LargeHead`, `LargeTail` | the holder of the page-heap lock |
//!
//! A kind changes only under the page-heap lock and, from or to `Small(c)`, class lock `c` as well (I2). So the holder of
//! either lock sees it stable, and a lookup without a lock is right for a pointer that its caller holds (its page cannot
//! change kind under a live object) and merely some value for others.
//!
//! # Why this way
//! A mesh changes neither kinds nor the alias's record of its own live slots; it only links records. Records of one span
//! are found from any of its pages. Bitmaps lie in planes (word 0, word 1, the rest), as most classes need only word 0
//! and a plane that nobody touches takes no memory.

use core::ptr::NonNull;

use crate::base::prefetch::prefetch;
use crate::base::sync::{AtomicU8, Ordering, UnsafeCell};
use crate::base::units::{PageIndex, PageLink, PageRun, SizeClass};
use crate::ds::size_class::Cut;
use crate::ds::table::{Table, ZeroValid};
use crate::page_heap::map_layout::MapLayout;

/// What a page is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PageKind {
    /// No object lies here.
    Free,
    /// A page of a span of this class.
    Small(SizeClass),
    /// The first page of a large object.
    LargeHead,
    /// A further page of a large object.
    LargeTail,
}

const FREE: u8 = 0;
const LARGE_TAIL: u8 = 254;
const LARGE_HEAD: u8 = 255;

impl PageKind {
    const fn to_byte(self) -> u8 {
        match self {
            Self::Free => FREE,
            #[expect(clippy::cast_possible_truncation, reason = "there are fewer than 250 classes")]
            Self::Small(class) => class.index() as u8 + 1,
            Self::LargeTail => LARGE_TAIL,
            Self::LargeHead => LARGE_HEAD,
        }
    }

    const fn from_byte(byte: u8) -> Self {
        match byte {
            FREE => Self::Free,
            LARGE_TAIL => Self::LargeTail,
            LARGE_HEAD => Self::LargeHead,
            // SAFETY: all other bytes come from `to_byte`, of a class.
            class => Self::Small(unsafe { SizeClass::new_unchecked(class - 1) }),
        }
    }
}

/// Where a span is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place(u8);

impl Place {
    /// On no list: all slots are taken.
    pub(crate) const FULL: Self = Self(254);
    /// On no list: a mesh step works on it. Nobody claims from it, links it or frees it meanwhile.
    pub(crate) const BUSY: Self = Self(255);

    /// On the partial list number `list`.
    pub(crate) const fn partial(list: u8) -> Self {
        Self(list)
    }

    /// The partial list that it names.
    pub(crate) const fn list(self) -> Option<usize> {
        if self.0 < Self::FULL.0 { Some(self.0 as usize) } else { None }
    }
}

/// What is known of one page. 16 bytes; all-zero bytes are `Unused`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum PageRecord {
    /// Inside a run, or never used.
    Unused = 0,
    /// The first page of a free run on a list.
    FreeRun { clean: bool, pages: u32, previous: PageLink, next: PageLink },
    /// The last page of a free run of more than one page.
    FreeRunEnd { clean: bool, pages: u32 },
    /// The first page of a run that a thread is giving back or unaliasing; `pages` is 0 on its last page. `dirty`: its own
    /// backing pages hold old content.
    InTransit { dirty: bool, pages: u32, next: PageLink },
    /// The first page of a large object.
    Large { pages: u32 },
    /// The first page of a span that shows its own memory. `live` counts its taken slots and its aliases'.
    Span { place: Place, live: u16, previous: PageLink, next: PageLink, aliases: PageLink },
    /// The second page of a span: one bit for each of its pages, set for those that hold no memory.
    Hollow { pages: u16 },
    /// The first page of a span whose addresses show the keeper's memory. `live` counts its own taken slots.
    Alias { backing_is_dirty: bool, live: u16, keeper: PageIndex, next: PageLink },
}

const _: () = assert!(size_of::<PageRecord>() == 16);

// SAFETY: the enum is `repr(u8)` and discriminant 0 has no fields, so zero bytes are `Unused`.
unsafe impl ZeroValid for UnsafeCell<PageRecord> {
    #[cfg(all(loom, feature = "loom"))]
    fn zero() -> Self {
        Self::new(PageRecord::Unused)
    }
}

// SAFETY: an atomic byte of zero.
unsafe impl ZeroValid for AtomicU8 {
    #[cfg(all(loom, feature = "loom"))]
    fn zero() -> Self {
        Self::new(0)
    }
}

// SAFETY: a word of zero.
unsafe impl ZeroValid for UnsafeCell<u64> {
    #[cfg(all(loom, feature = "loom"))]
    fn zero() -> Self {
        Self::new(0)
    }
}

/// The page map of one arena.
///
/// P1: every [`PageIndex`] that the heap works with is below `pages`, the length of the tables: [`PageMap::page_of`] looks at
/// that, runs come from the page heap (I1), and what leads from page to page stays inside.
#[derive(Debug)]
pub(crate) struct PageMap {
    base: NonNull<u8>,
    page_shift: u32,
    pages: u32,
    /// Bitmap words of a page beyond the first two.
    rest_words: usize,
    kinds: Table<AtomicU8>,
    /// For pages of spans of several pages: how many pages the span's first lies before. Changes with the kind.
    backs: Table<AtomicU8>,
    records: Table<UnsafeCell<PageRecord>>,
    word0: Table<UnsafeCell<u64>>,
    word1: Table<UnsafeCell<u64>>,
    rest: Table<UnsafeCell<u64>>,
}

// SAFETY: the cells are guarded as the module's table says; the base pointer is only a number to be offset.
unsafe impl Send for PageMap {}
// SAFETY: as above.
unsafe impl Sync for PageMap {}

impl PageMap {
    /// A map of the arena at `base`, in the zeroed memory at `tables`.
    ///
    /// # Safety
    /// `tables` must be [`MapLayout::bytes`] of zeroed memory, the map's alone, and outlive it, as must the arena.
    pub(crate) unsafe fn new(base: NonNull<u8>, tables: NonNull<u8>, layout: MapLayout) -> Self {
        let parts = layout.parts();
        let offset = |index: usize| parts[..index].iter().sum::<usize>();
        // SAFETY: the offsets lie within the block, by the caller's contract.
        let part = |index: usize| unsafe { tables.add(offset(index)) };
        let pages = layout.pages as usize;
        let rest_words = layout.words.saturating_sub(2);
        Self {
            base,
            page_shift: layout.page_size.trailing_zeros(),
            pages: layout.pages,
            rest_words,
            // SAFETY: each part holds as many zeroed elements as `parts` computed.
            records: unsafe { Table::new(part(0), pages) },
            // SAFETY: as above.
            word0: unsafe { Table::new(part(1).cast(), pages) },
            // SAFETY: as above.
            word1: unsafe { Table::new(part(2).cast(), if layout.words > 1 { pages } else { 0 }) },
            // SAFETY: as above.
            rest: unsafe { Table::new(part(3).cast(), pages * rest_words) },
            // SAFETY: as above.
            kinds: unsafe { Table::new(part(4), pages) },
            // SAFETY: as above.
            backs: unsafe { Table::new(part(5), pages) },
        }
    }

    /// Ends the tables' elements. Their memory may be given back afterwards.
    pub(crate) fn destroy(&mut self) {
        self.kinds.destroy();
        self.backs.destroy();
        self.records.destroy();
        self.word0.destroy();
        self.word1.destroy();
        self.rest.destroy();
    }

    /// Bytes of a page.
    #[inline]
    pub(crate) const fn page_size(&self) -> usize {
        1 << self.page_shift
    }

    /// Pages of the arena.
    pub(crate) const fn pages(&self) -> u32 {
        self.pages
    }

    /// The arena's first byte.
    pub(crate) const fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The page that an address lies in, if it is one of the arena's: the only door from a caller's pointer to a page.
    #[inline]
    pub(crate) fn page_of(&self, address: NonNull<u8>) -> Option<PageIndex> {
        let page = address.addr().get().wrapping_sub(self.base.addr().get()) >> self.page_shift;
        #[expect(clippy::cast_possible_truncation, reason = "checked to be below `pages`, a u32")]
        (page < self.pages as usize).then(|| PageIndex::new(page as u32))
    }

    /// The first byte of `page`.
    #[inline]
    pub(crate) fn address_of(&self, page: PageIndex) -> NonNull<u8> {
        debug_assert!(page.get() < self.pages);
        // SAFETY: pages of the arena lie within its reservation.
        unsafe { self.base.add(page.as_usize() << self.page_shift) }
    }

    /// Bytes from the start of `page` to `address`, which must not lie before it.
    #[inline]
    pub(crate) fn offset_in(&self, page: PageIndex, address: NonNull<u8>) -> usize {
        address.addr().get() - self.address_of(page).addr().get()
    }

    /// What `page` is used for. Without a lock: right for a page with an object that the caller holds, else a guess.
    #[inline]
    pub(crate) fn kind(&self, page: PageIndex) -> PageKind {
        PageKind::from_byte(self.kind_byte(page))
    }

    /// Whether `page` belongs to a span of `class`. As right as [`PageMap::kind`], in fewer instructions.
    #[inline]
    pub(crate) fn is_of_class(&self, page: PageIndex, class: SizeClass) -> bool {
        self.kind_byte(page) == PageKind::Small(class).to_byte()
    }

    #[inline]
    fn kind_byte(&self, page: PageIndex) -> u8 {
        // SAFETY: P1.
        let kind = unsafe { self.kinds.at_unchecked(page.as_usize()) };
        // Relaxed: whoever holds an object got its pointer through a lock or a hand-over that happened after the store,
        // and locks order the rest.
        kind.load(Ordering::Relaxed)
    }

    /// Sets what the pages of `run` are used for. Under the locks that I2 names.
    pub(crate) fn set_kinds(&self, run: PageRun, kind: PageKind) {
        for page in run.pages() {
            // Relaxed: see `kind_byte`.
            self.kinds.at(page.as_usize()).store(kind.to_byte(), Ordering::Relaxed);
        }
    }

    /// Makes the pages of `run` a span of `class`. Under the class lock and the page-heap lock.
    pub(crate) fn set_span(&self, run: PageRun, class: SizeClass) {
        self.set_kinds(run, PageKind::Small(class));
        if run.count > 1 {
            for page in run.pages() {
                let back = u8::try_from(page.since(run.start)).expect("spans are short");
                // Relaxed: see `kind_byte`.
                self.backs.at(page.as_usize()).store(back, Ordering::Relaxed);
            }
        }
    }

    /// The first page of the span that `page` belongs to, in a class whose spans have `span_pages` pages. As right as
    /// [`PageMap::kind`].
    #[inline]
    pub(crate) fn span_head(&self, page: PageIndex, span_pages: u32) -> PageIndex {
        if span_pages == 1 {
            return page;
        }
        // Relaxed: see `kind_byte`. A guess about a foreign page may lead before the arena: stay inside.
        // SAFETY: P1.
        let back = unsafe { self.backs.at_unchecked(page.as_usize()) }.load(Ordering::Relaxed);
        PageIndex::new(page.get().saturating_sub(u32::from(back)))
    }

    /// Whether a span of `class`, which has `span_pages` pages, starts at `page`. As right as [`PageMap::kind`].
    #[inline]
    pub(crate) fn starts_span(&self, class: SizeClass, page: PageIndex, span_pages: u32) -> bool {
        self.kind(page) == PageKind::Small(class) && self.span_head(page, span_pages) == page
    }

    /// The span and the slot whose first byte `object` is, for a `page` of a class that is cut like this; none if it is the
    /// first byte of no slot. As right as [`PageMap::kind`].
    #[inline]
    pub(crate) fn slot_of(&self, cut: &Cut, page: PageIndex, object: NonNull<u8>) -> Option<(PageIndex, u32)> {
        let head = self.span_head(page, cut.pages);
        #[expect(clippy::cast_possible_truncation, reason = "a span is at most 1 MiB")]
        let (slot, exact) = cut.slot_at(self.offset_in(head, object) as u32);
        (exact && slot < cut.slots).then_some((head, slot))
    }

    /// Asks the processor for the records and the first words of the bitmaps of the spans of `objects`: all at once they come
    /// sooner than one after the other.
    pub(crate) fn ask_for_spans(&self, cut: &Cut, objects: &[NonNull<u8>]) {
        for page in objects.iter().filter_map(|&object| self.page_of(object)) {
            let head = self.span_head(page, cut.pages).as_usize();
            // SAFETY: P1.
            prefetch(unsafe { self.records.at_unchecked(head) });
            // SAFETY: P1.
            prefetch(unsafe { self.word0.at_unchecked(head) });
        }
    }

    /// Reads the record of `page`.
    ///
    /// # Safety
    /// The caller must hold the lock that the module's table names for the page's kind.
    #[inline]
    pub(crate) unsafe fn record(&self, page: PageIndex) -> PageRecord {
        // SAFETY: P1.
        let record = unsafe { self.records.at_unchecked(page.as_usize()) };
        // SAFETY: the lock excludes writers.
        record.with(|record| unsafe { *record })
    }

    /// Writes the record of `page`.
    ///
    /// # Safety
    /// As for [`PageMap::record`].
    #[inline]
    pub(crate) unsafe fn set_record(&self, page: PageIndex, record: PageRecord) {
        // SAFETY: P1.
        let place = unsafe { self.records.at_unchecked(page.as_usize()) };
        // SAFETY: the lock excludes all others.
        place.with_mut(|place| unsafe { *place = record });
    }

    /// Changes the links, previous and next, of a record that is on a list: a keeper's or a free run's.
    ///
    /// # Safety
    /// As for [`PageMap::record`].
    #[inline]
    pub(crate) unsafe fn relink(&self, page: PageIndex, change: impl FnOnce(&mut PageLink, &mut PageLink)) {
        // SAFETY: P1.
        let record = unsafe { self.records.at_unchecked(page.as_usize()) };
        record.with_mut(|record| {
            // SAFETY: the lock excludes all others.
            match unsafe { &mut *record } {
                PageRecord::Span { previous, next, .. } | PageRecord::FreeRun { previous, next, .. } => {
                    change(previous, next);
                }
                _ => unreachable!("I1: links lead to what is on a list"),
            }
        });
    }

    /// Lowers the count of live slots of the span at `head` by `released`, if it is a keeper that `stays` where it is with so
    /// many left. Returns whether it was done.
    ///
    /// # Safety
    /// As for [`PageMap::record`].
    #[inline]
    pub(crate) unsafe fn lower_live(
        &self,
        head: PageIndex,
        released: u16,
        stays: impl FnOnce(Place, u16) -> bool,
    ) -> bool {
        // SAFETY: P1.
        let record = unsafe { self.records.at_unchecked(head.as_usize()) };
        record.with_mut(|record| {
            // SAFETY: the lock excludes all others.
            let PageRecord::Span { place, live, .. } = (unsafe { &mut *record }) else { return false };
            let lowered = *live - released;
            let stays = stays(*place, lowered);
            if stays {
                *live = lowered;
            }
            stays
        })
    }

    /// Forgets the first and last record of a run that goes behind the frontier.
    pub(crate) fn clear_records(&self, run: PageRun) {
        // SAFETY: called by the page heap, which is locked, for free pages.
        unsafe { self.set_record(run.start, PageRecord::Unused) };
        // SAFETY: as above.
        unsafe { self.set_record(run.last(), PageRecord::Unused) };
    }

    #[inline]
    fn word_cell(&self, head: PageIndex, word: usize) -> &UnsafeCell<u64> {
        match word {
            // SAFETY: P1.
            0 => unsafe { self.word0.at_unchecked(head.as_usize()) },
            1 => self.word1.at(head.as_usize()),
            _ => self.rest.at(head.as_usize() * self.rest_words + word - 2),
        }
    }

    /// Word number `word` of the bitmap of the span at `head`: set bits are slots taken at the span's own addresses.
    ///
    /// # Safety
    /// As for [`PageMap::record`].
    #[inline]
    pub(crate) unsafe fn word(&self, head: PageIndex, word: usize) -> u64 {
        // SAFETY: the lock excludes writers.
        self.word_cell(head, word).with(|bits| unsafe { *bits })
    }

    /// Writes word number `word` of the bitmap of the span at `head`.
    ///
    /// # Safety
    /// As for [`PageMap::record`].
    #[inline]
    pub(crate) unsafe fn set_word(&self, head: PageIndex, word: usize, bits: u64) {
        // SAFETY: the lock excludes all others.
        self.word_cell(head, word).with_mut(|place| unsafe { *place = bits });
    }

    /// Clears bit `bit` of word number `word` of the bitmap of the span at `head`. Returns whether it was set.
    ///
    /// # Safety
    /// As for [`PageMap::record`].
    #[inline]
    pub(crate) unsafe fn clear_bit(&self, head: PageIndex, word: usize, bit: u32) -> bool {
        let bit = 1 << bit;
        self.word_cell(head, word).with_mut(|place| {
            // SAFETY: the lock excludes all others.
            let bits = unsafe { *place };
            // SAFETY: as above.
            unsafe { *place = bits & !bit };
            bits & bit != 0
        })
    }
}
