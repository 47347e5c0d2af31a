//! Size classes: which slot size serves a layout, and how a span of a class is cut. Pure.
//!
//! Sizes step by 16 bytes up to 128, by a quarter of a doubling up to 1 KiB and again above 8 KiB, and by an eighth in
//! between, where objects are large enough for rounding to cost and common enough for it to matter; by a sixteenth from 2 KiB to
//! 4 KiB, where few slots of a size fit into a span and what is left at its end comes on top. A slot's alignment is
//! the largest power of two that divides its size, so an over-aligned layout takes the next size that its alignment
//! divides and never a page of its own.

use core::alloc::Layout;

use crate::base::config::{
    CLASS_COUNT, LONG_SPAN_SLOTS, MAX_LONG_SPAN_PAGES, MAX_MESH_SLOTS, MAX_SMALL_ALIGN, MAX_SMALL_SIZE, MAX_SPAN_PAGES,
    MAX_TAIL_WASTE_PART, MAX_TAIL_WASTE_PART_LARGE, MIN_ALIGN, ROW_MAX_WORDS, VECTOR_MIN_SLOTS, VECTOR_MOST_BYTES,
    VECTOR_PART, VECTOR_STRETCH,
};
use crate::base::units::SizeClass;

/// The slot size of each class in bytes, ascending.
pub(crate) const SIZES: [u32; CLASS_COUNT] = make_sizes();

/// From a size in steps of [`MIN_ALIGN`] to its class: 2 KiB, of which small objects touch the first line or two.
static CLASSES: [u8; MAX_SMALL_SIZE / MIN_ALIGN + 1] = make_lookup();

/// The distance from `size` to the next larger size.
const fn step_above(size: usize) -> usize {
    let doubling = 1 << (usize::BITS - 1 - size.leading_zeros());
    match size {
        0..128 => MIN_ALIGN,
        2048..4096 => doubling / 16,
        1024..8192 => doubling / 8,
        _ => doubling / 4,
    }
}

const fn count_sizes() -> usize {
    let (mut size, mut count) = (MIN_ALIGN, 1);
    while size < MAX_SMALL_SIZE {
        size += step_above(size);
        count += 1;
    }
    count
}

#[expect(clippy::cast_possible_truncation, reason = "sizes end at MAX_SMALL_SIZE")]
const fn make_sizes() -> [u32; CLASS_COUNT] {
    let mut sizes = [0; CLASS_COUNT];
    let (mut size, mut index) = (MIN_ALIGN, 0);
    while index < CLASS_COUNT {
        sizes[index] = size as u32;
        size += step_above(size);
        index += 1;
    }
    sizes
}

#[expect(clippy::cast_possible_truncation, reason = "there are fewer than 256 classes, asserted below")]
const fn make_lookup() -> [u8; MAX_SMALL_SIZE / MIN_ALIGN + 1] {
    let mut lookup = [0; MAX_SMALL_SIZE / MIN_ALIGN + 1];
    let (mut entry, mut class) = (0, 0);
    while entry < lookup.len() {
        while (SIZES[class] as usize) < entry * MIN_ALIGN {
            class += 1;
        }
        lookup[entry] = class as u8;
        entry += 1;
    }
    lookup
}

const _: () = assert!(CLASS_COUNT < 250, "class numbers share a byte with the page map's other values");
const _: () = assert!(CLASS_COUNT == count_sizes() && SIZES[CLASS_COUNT - 1] as usize == MAX_SMALL_SIZE);

/// The class whose slots hold `size` bytes, aligned to [`MIN_ALIGN`]; none above [`MAX_SMALL_SIZE`]. Size 0 is served as 1.
#[inline]
pub(crate) fn of_size(size: usize) -> Option<SizeClass> {
    if size > MAX_SMALL_SIZE {
        return None;
    }
    // SAFETY: the table holds numbers of classes.
    Some(unsafe { SizeClass::new_unchecked(CLASSES[(size + MIN_ALIGN - 1) >> MIN_ALIGN.trailing_zeros()]) })
}

/// The class that serves `layout`; none if the layout needs pages of its own.
///
/// The smallest class that holds a multiple of the alignment is aligned, too: where sizes step by less than the alignment,
/// each multiple of it is a size, and where they step by more, each size is a multiple of it.
#[inline]
pub(crate) fn of_layout(layout: Layout) -> Option<SizeClass> {
    if layout.align() <= MIN_ALIGN {
        return of_size(layout.size());
    }
    if layout.align() > MAX_SMALL_ALIGN {
        return None;
    }
    let mask = layout.align() - 1;
    of_size((layout.size().max(1) + mask) & !mask)
}

/// What all cuts of a heap depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cutting {
    /// Bytes of a page.
    pub(crate) page_size: usize,
    /// Whether pages can be aliased, so that spans may mesh.
    pub(crate) can_alias: bool,
    /// What a local heap may hold.
    pub(crate) local_heap_bytes: usize,
}

impl Cutting {
    /// Pages of a span with slots of `size` bytes: few of which the tail wastes little, but enough for
    /// [`LONG_SPAN_SLOTS`] where spans may mesh. Slots of whole pages have a span each: it is freed exactly.
    fn span_pages(&self, size: usize) -> usize {
        if size.is_multiple_of(self.page_size) {
            return size / self.page_size;
        }
        let tail = |pages: usize| (pages * self.page_size) % size;
        let part = if size < self.page_size { MAX_TAIL_WASTE_PART } else { MAX_TAIL_WASTE_PART_LARGE };
        let is_good = |&pages: &usize| tail(pages) * part <= pages * self.page_size;
        let slots = |pages: usize| pages * self.page_size / size;
        let most = if self.can_alias { MAX_LONG_SPAN_PAGES } else { MAX_SPAN_PAGES as usize };
        let lengths = || (1..=most.max(size.div_ceil(self.page_size))).filter(|&pages| slots(pages) > 0);
        let long = lengths().filter(is_good).find(|&pages| slots(pages) >= LONG_SPAN_SLOTS);
        let longest = lengths().rfind(is_good);
        let least_waste = || lengths().min_by_key(|&pages| tail(pages) * most / pages);
        let found = if self.can_alias { long.or(longest) } else { lengths().find(is_good) };
        found.or_else(least_waste).expect("the longest span holds at least one slot")
    }
}

/// How the spans of one class are cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// Bytes from one slot to the next.
    pub(crate) size: u32,
    /// Slots of a span.
    pub(crate) slots: u32,
    /// Pages of a span.
    pub(crate) pages: u32,
    /// How many slots a shuffle vector of this class holds. 0: the class does without vectors.
    pub(crate) vector_slots: u32,
    /// `2^40 / size`, rounded up: turns a division by `size` into a multiplication.
    reciprocal: u64,
}

/// Bits behind the point of [`Cut::reciprocal`]. With offsets below 2^20 and sizes below 2^16 the quotient is exact.
const RECIPROCAL_SHIFT: u32 = 40;

impl Cut {
    /// The cut of `class`.
    pub(crate) fn new(class: SizeClass, cutting: &Cutting) -> Self {
        let size = SIZES[class.index()] as usize;
        let pages = cutting.span_pages(size);
        #[expect(clippy::cast_possible_truncation, reason = "a span is at most 1 MiB")]
        Self {
            size: size as u32,
            slots: (pages * cutting.page_size / size) as u32,
            pages: pages as u32,
            vector_slots: vector_slots(size, cutting.local_heap_bytes) as u32,
            reciprocal: (1u64 << RECIPROCAL_SHIFT).div_ceil(size as u64),
        }
    }

    /// The slot that the byte `offset` of a span lies in, and whether it is the slot's first byte.
    #[inline]
    pub(crate) fn slot_at(&self, offset: u32) -> (u32, bool) {
        let product = u64::from(offset) * self.reciprocal;
        // The fraction of a multiple of `size` is its share of the rounding, below one `reciprocal` (Lemire, Kaser and Kurz,
        // "Faster remainder by direct computation", 2019).
        let exact = product & ((1 << RECIPROCAL_SHIFT) - 1) < self.reciprocal;
        ((product >> RECIPROCAL_SHIFT) as u32, exact)
    }

    /// Bytes of a span that are slots'.
    #[inline]
    pub(crate) const fn span_bytes(&self) -> usize {
        self.slots as usize * self.size as usize
    }

    /// Words of a bitmap with one bit a slot. A span of a single slot has none: its record tells whether the slot is taken,
    /// and objects of a page or more get by with less metadata.
    #[inline]
    pub(crate) const fn words(&self) -> usize {
        if self.slots == 1 { 0 } else { (self.slots as usize).div_ceil(64) }
    }

    /// Whether spans of this class can mesh. One with a single slot is either full or free; one with more slots than the
    /// search takes (16-byte slots on pages of 8 KiB and more) would hardly ever find a partner.
    pub(crate) const fn can_mesh(&self) -> bool {
        self.slots > 1 && self.slots <= MAX_MESH_SLOTS
    }

    /// How many neighbouring spans of this class, which can mesh, are meshed as one at the most: as many as the search takes slots of.
    #[expect(clippy::cast_possible_truncation, reason = "a bitmap that can mesh has at most four words")]
    pub(crate) const fn row_spans(&self) -> u32 {
        ROW_MAX_WORDS / self.words() as u32
    }
}

/// How many slots a shuffle vector holds, of `size` bytes each, where a local heap may hold `local_heap_bytes`. 0: the class
/// does without vectors.
fn vector_slots(size: usize, local_heap_bytes: usize) -> usize {
    let bytes = (local_heap_bytes / VECTOR_PART).min(VECTOR_MOST_BYTES);
    (bytes / size).max(VECTOR_MIN_SLOTS).min(VECTOR_STRETCH * bytes / size)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Cut, Cutting, SIZES, of_layout, of_size};
    use crate::base::config::{CLASS_COUNT, MAX_SMALL_ALIGN, MAX_SMALL_SIZE, MIN_ALIGN};
    use crate::base::units::SizeClass;
    use core::alloc::Layout;
    use quickcheck::quickcheck;

    const PAGE_SIZES: [usize; 3] = [4 << 10, 16 << 10, 64 << 10];

    /// The cuts of all classes, for each page size, of heaps that mesh and of others.
    fn cuts() -> impl Iterator<Item = (Cut, usize)> {
        let cuttings = PAGE_SIZES
            .into_iter()
            .flat_map(|page_size| [false, true].map(|can_alias| Cutting { page_size, can_alias, local_heap_bytes: 0 }));
        cuttings.flat_map(|cutting| classes().map(move |class| (Cut::new(class, &cutting), cutting.page_size)))
    }

    fn classes() -> impl Iterator<Item = SizeClass> {
        (0..CLASS_COUNT).map(|index| SizeClass::new(u8::try_from(index).expect("few classes")))
    }

    #[test]
    fn every_size_has_the_smallest_class_that_holds_it() {
        for size in 0..=MAX_SMALL_SIZE {
            let class = of_size(size).expect("small").index();
            assert!(SIZES[class] as usize >= size);
            assert!(class == 0 || (SIZES[class - 1] as usize) < size);
        }
        assert_eq!(of_size(MAX_SMALL_SIZE + 1), None);
        assert_eq!(of_size(usize::MAX), None);
    }

    #[test]
    fn rounding_up_wastes_an_eighth_on_average() {
        let sizes = MIN_ALIGN + 1..=MAX_SMALL_SIZE;
        let wasted = |size: usize| {
            let slot = SIZES[of_size(size).expect("small").index()] as usize;
            (slot - size) as f64 / slot as f64
        };
        let average = sizes.clone().map(wasted).sum::<f64>() / sizes.count() as f64;
        assert!(average <= 0.125, "{average}");
    }

    #[test]
    fn spans_waste_little_and_hold_whole_slots() {
        for (cut, page_size) in cuts() {
            let (used, all) = (cut.slots as usize * cut.size as usize, cut.pages as usize * page_size);
            assert!(used <= all && cut.slots > 0, "{cut:?}");
            assert!((all - used) * 8 <= all, "{cut:?} wastes more than an eighth");
        }
    }

    #[test]
    fn spans_that_mesh_have_many_slots_where_that_is_not_too_long() {
        for class in classes() {
            let cut = Cut::new(class, &Cutting { page_size: 4096, can_alias: true, local_heap_bytes: 0 });
            match cut.size {
                ..=128 => assert_eq!(cut.pages, 1, "{cut:?}"),
                129..=2048 => assert!((32..64).contains(&cut.slots), "{cut:?}"),
                size if size % 4096 == 0 => assert_eq!(cut.slots, 1, "{cut:?}"),
                _ => assert!(cut.pages > 8 && cut.slots > 1, "{cut:?}"),
            }
        }
    }

    #[test]
    fn a_byte_offset_finds_its_slot_exactly() {
        for (cut, _) in cuts() {
            for slot in 0..cut.slots {
                let start = slot * cut.size;
                assert_eq!(cut.slot_at(start), (slot, true));
                assert_eq!(cut.slot_at(start + 1), (slot, false));
                assert_eq!(cut.slot_at(start + cut.size - 1), (slot, false));
            }
        }
    }

    quickcheck! {
        fn a_layout_gets_aligned_slots_that_hold_it(size: usize, align_bits: u8) -> bool {
            let size = size % (MAX_SMALL_SIZE + 2);
            let align = 1usize << (align_bits % 14);
            let layout = Layout::from_size_align(size, align).expect("small");
            match of_layout(layout) {
                Some(class) => {
                    let slot = SIZES[class.index()] as usize;
                    slot >= size && slot.is_multiple_of(align) && slot < 2 * size.max(align).max(MIN_ALIGN)
                }
                None => align > MAX_SMALL_ALIGN || size.next_multiple_of(align) > MAX_SMALL_SIZE,
            }
        }
    }
}
