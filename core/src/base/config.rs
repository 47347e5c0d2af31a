//! Every tunable, with its reason. Under loom the same names are small, so that a model's state stays small; nowhere else
//! does `cfg(loom)` change a number.

/// Bytes between neighbouring sizes of the smallest classes, and the alignment of every object: what C's `max_align_t` asks.
pub(crate) const MIN_ALIGN: usize = 16;

/// Size classes reach up to here; larger objects are runs of pages of their own, whose rounding wastes at most an eighth.
#[cfg(not(all(loom, feature = "loom")))]
pub(crate) const MAX_SMALL_SIZE: usize = 32 << 10; // 32 KiB
#[cfg(all(loom, feature = "loom"))]
pub(crate) const MAX_SMALL_SIZE: usize = 64;

/// How many size classes there are: eight up to 128 bytes, four per doubling up to 1 KiB, eight per doubling up to 8 KiB, but
/// sixteen from 2 to 4 KiB, and four per doubling beyond. `ds::size_class` makes them.
#[cfg(not(all(loom, feature = "loom")))]
pub(crate) const CLASS_COUNT: usize = 60;
#[cfg(all(loom, feature = "loom"))]
pub(crate) const CLASS_COUNT: usize = 4;

/// Layouts aligned beyond this are runs of pages. No page is smaller, so that a slot's alignment within its page is its own.
#[cfg(not(all(loom, feature = "loom")))]
pub(crate) const MAX_SMALL_ALIGN: usize = 4 << 10; // 4 KiB
#[cfg(all(loom, feature = "loom"))]
pub(crate) const MAX_SMALL_ALIGN: usize = 64;

/// Larger pages are refused: a span's slots are counted in 16 bits and looked at in bitmaps of 64 words.
pub(crate) const MAX_PAGE_SIZE: usize = 64 << 10; // 64 KiB

/// A span that does not mesh has this many pages at the most: the waste is small by then, and short spans are soon empty.
pub(crate) const MAX_SPAN_PAGES: u32 = 9;

/// Where pages can be aliased, spans have this many slots if [`MAX_LONG_SPAN_PAGES`] allow: one mapping then frees up to 16
/// pages, and what is empty in a long span is given back without one. Of 4 GiB of objects of 64 to 1024 bytes, 10 % of them
/// left, a process's 64,982 mappings leave 1,588 MiB with 64 slots, 1,948 with 32, 2,073 with 16, and 2,254 if spans are a
/// page; but a heap of 32 MiB has so few long spans that they find fewer partners: 1.49, 1.19, 1.11 and 1.11 x the live bytes
/// for 1024-byte objects.
#[cfg(not(all(loom, feature = "loom")))]
pub(crate) const LONG_SPAN_SLOTS: usize = 32;
#[cfg(all(loom, feature = "loom"))]
pub(crate) const LONG_SPAN_SLOTS: usize = 4;

/// Pages of a span where pages can be aliased, at the most.
pub(crate) const MAX_LONG_SPAN_PAGES: usize = 16;

/// A span's tail may waste one part in this many; else the span takes more pages.
pub(crate) const MAX_TAIL_WASTE_PART: usize = 16;

/// The same for slots of a page and more: with few slots they mesh well at any length.
pub(crate) const MAX_TAIL_WASTE_PART_LARGE: usize = 64;

/// What one local heap may hold unless its heap's options say otherwise: itself, its vectors, their slots' bytes. A thousand
/// idle threads then cost at most 64 MiB.
#[cfg(not(all(loom, feature = "loom")))]
pub(crate) const DEFAULT_LOCAL_HEAP_BYTES: usize = 64 << 10; // 64 KiB
#[cfg(all(loom, feature = "loom"))]
pub(crate) const DEFAULT_LOCAL_HEAP_BYTES: usize = 4 << 10;

/// Object bytes that one shuffle vector holds, as a part of what a local heap may hold: so little that the vectors of a dozen
/// classes fit; a class that is used much keeps several.
#[cfg(not(all(loom, feature = "loom")))]
pub(crate) const VECTOR_PART: usize = 32; // 2 KiB of 64 KiB
#[cfg(all(loom, feature = "loom"))]
pub(crate) const VECTOR_PART: usize = 128;

/// No vector holds more object bytes than this, however much a local heap may hold.
pub(crate) const VECTOR_MOST_BYTES: usize = 8 << 10; // 8 KiB

/// A vector of small objects holds at least this many, however large they are, so that locks are taken for batches.
#[cfg(not(all(loom, feature = "loom")))]
pub(crate) const VECTOR_MIN_SLOTS: usize = 4;
#[cfg(all(loom, feature = "loom"))]
pub(crate) const VECTOR_MIN_SLOTS: usize = 2;

/// For the sake of [`VECTOR_MIN_SLOTS`] a vector may hold so many times more bytes than it otherwise would. Objects that are
/// larger even than that go without vectors.
pub(crate) const VECTOR_STRETCH: usize = 2;

/// Object bytes that a local heap's first refill of a class takes from spans; each further one takes twice as many slots, up to
/// a vector. 2,000 threads that each allocate 40 objects of 16 to 952 bytes, 19 KiB, hold 63 KiB each with it, stacks and all, and
/// 135 without.
#[cfg(not(all(loom, feature = "loom")))]
pub(crate) const FIRST_REFILL_BYTES: u32 = 512;
#[cfg(all(loom, feature = "loom"))]
pub(crate) const FIRST_REFILL_BYTES: u32 = 4 << 10;

/// But at least so many slots.
pub(crate) const FIRST_REFILL_LEAST_SLOTS: u32 = 2;

/// Object bytes that one class's depot may hold in full vectors before slots go back to their spans.
#[cfg(not(all(loom, feature = "loom")))]
pub(crate) const DEPOT_BYTES: usize = 128 << 10; // 128 KiB
#[cfg(all(loom, feature = "loom"))]
pub(crate) const DEPOT_BYTES: usize = 32;

/// Bytes in empty spans that a class with one slot a span (objects of a page and more) keeps for the next allocation.
#[cfg(not(all(loom, feature = "loom")))]
pub(crate) const EMPTY_SPAN_BYTES: u32 = 256 << 10; // 256 KiB
#[cfg(all(loom, feature = "loom"))]
pub(crate) const EMPTY_SPAN_BYTES: u32 = 64;

/// Units of giving back what one class keeps, at the most: above what its depot and its empty spans can be.
pub(crate) const MAX_DRAIN_UNITS: usize = 256;

/// Empty spans given back under one hold of a class lock.
pub(crate) const EMPTY_SPANS_PER_UNIT: usize = 16;

/// A refill stops looking for further spans after this many, even if the vector is not full yet.
pub(crate) const REFILL_MAX_SPANS: usize = 8;

/// Lists of partial spans by occupancy, per class: quarters tell sparse from dense well enough to fill dense ones first.
pub(crate) const OCCUPANCY_LISTS: usize = 4;

/// Free pages with old content are kept for reuse up to this many, or up to one part of the pages in use if that is more.
pub(crate) const DIRTY_PAGES_MIN: u32 = 1024; // 4 MiB of 4 KiB pages
/// See [`DIRTY_PAGES_MIN`].
pub(crate) const DIRTY_PAGES_PART: u32 = 8;

/// Beyond that, pages are given back that were not reused for this long: a program that fills and empties its heap in turns
/// would otherwise pay a page fault (2 microseconds) for each page each time.
pub(crate) const DIRTY_PERIOD_NS: u64 = 100_000_000; // 100 ms

/// Shorter runs of dirty pages are given back only when they were not reused for [`DIRTY_SHORT_PERIOD_NS`]: while a program
/// frees at random, single pages are on their way to becoming long runs, and each would cost a call, and where it lies in a huge
/// page, that.
pub(crate) const DIRTY_SHORT_RUN: u32 = 16; // 64 KiB of 4 KiB pages
/// See [`DIRTY_SHORT_RUN`].
pub(crate) const DIRTY_SHORT_PERIOD_NS: u64 = 1_000_000_000; // 1 s

/// Spans of more slots are not meshed: with so many they overlap unless they are all but empty.
pub(crate) const MAX_MESH_SLOTS: u32 = 256;

/// Words of the bitmaps of a row, the neighbouring spans that a pass meshes as one where mappings are scarce, at the most.
pub(crate) const ROW_MAX_WORDS: u32 = MAX_MESH_SLOTS / 64;

/// A new span comes with neighbours where those are at most one part in so many of the class's spans: they hold no object yet.
#[cfg(not(all(loom, feature = "loom")))]
pub(crate) const ROW_SPANS_PART: u32 = 16;
#[cfg(all(loom, feature = "loom"))]
pub(crate) const ROW_SPANS_PART: u32 = 1 << 16;

/// Spans that one plan of a mesh pass looks at: its scratch memory is 32 to 90 bytes a span. More than
/// one window of the search, so that all candidates of a class meet in a heap of some 60 MiB.
#[cfg(not(all(loom, feature = "loom")))]
pub(crate) const PLAN_MAX_SPANS: usize = 16_000;
#[cfg(all(loom, feature = "loom"))]
pub(crate) const PLAN_MAX_SPANS: usize = 4;

/// Pages that a pass looks at under one hold of a class lock when it collects candidates: some 10 microseconds.
pub(crate) const PLAN_PAGES_PER_LOCK: u32 = 512;

/// Free pages given back by one free at the most: some 300 microseconds.
pub(crate) const PURGE_PAGES_PER_FREE: u32 = 512;

/// Zeroed objects of this many bytes take old pages and have them purged, rather than fresh memory: whoever asks for that many
/// zeroes seldom touches all, and the heap does not grow for them.
pub(crate) const ZERO_BY_PURGE_BYTES: usize = 256 << 10; // 256 KiB

/// Large objects of this many bytes that grow elsewhere are moved by the platform, if it can: a call and two mappings, which
/// are scarce, instead of a copy.
pub(crate) const RELOCATE_MIN_BYTES: usize = 2 << 20; // 2 MiB

/// An allocation that a budget refused memory meshes so many pages at a time, for at most so long, until one such step has freed
/// some, but no more steps than these: the next refusal goes on.
pub(crate) const RELIEF_MESH_PAGES: u32 = 256;
/// See [`RELIEF_MESH_PAGES`].
pub(crate) const RELIEF_MESH_TIME: core::time::Duration = core::time::Duration::from_millis(2);
/// See [`RELIEF_MESH_PAGES`].
pub(crate) const RELIEF_MESH_STEPS: usize = 8;

/// Free pages given back in one unit of a mesh step, by one call: up to some 40 microseconds.
pub(crate) const PURGE_PAGES_PER_UNIT: u32 = 64;

/// Bitmap tests between two looks at the clock while a pass searches: some 10 microseconds.
pub(crate) const SEARCH_TESTS_PER_LOOK: usize = 4096;

/// The arena's address space, unless the embedder says otherwise. It costs address space only where commit is lazy.
#[cfg(not(all(loom, feature = "loom")))]
pub(crate) const DEFAULT_ARENA_BYTES: usize = if usize::BITS < 64 { 1 << 30 } else { 1 << (36 % usize::BITS) }; // 64 GiB
#[cfg(all(loom, feature = "loom"))]
pub(crate) const DEFAULT_ARENA_BYTES: usize = 8 * 64;

/// The metadata pool's address space is this part of the arena's, but at least [`METADATA_POOL_MIN_BYTES`].
pub(crate) const METADATA_POOL_PART: usize = 256;
/// See [`METADATA_POOL_PART`].
pub(crate) const METADATA_POOL_MIN_BYTES: usize = 1 << 20; // 1 MiB

/// The same where memory is held as soon as it is reserved.
pub(crate) const METADATA_POOL_MIN_BYTES_HELD: usize = 32 << 10; // 32 KiB

/// The metadata pool grows by this much at a time: little, as a small heap's vectors take a few KiB.
pub(crate) const METADATA_POOL_STEP_BYTES: usize = 4 << 10; // 4 KiB

/// The arena is aligned to this, so that a platform may back it with huge pages.
#[cfg(not(all(loom, feature = "loom")))]
pub(crate) const ARENA_ALIGN: usize = 2 << 20; // 2 MiB
#[cfg(all(loom, feature = "loom"))]
pub(crate) const ARENA_ALIGN: usize = 64;

/// The part of the platform's mapping limit that one heap uses unless told otherwise: the program needs mappings too.
pub(crate) const MAPPING_BUDGET_PART: usize = 4;

/// One part in so many of the mapping budget is not used by meshes.
pub(crate) const MAPPING_RESERVE_PART: usize = 32;

const _: () = assert!(MAX_SMALL_ALIGN.is_power_of_two() && MIN_ALIGN.is_power_of_two());
const _: () = assert!(MAX_SMALL_SIZE.is_multiple_of(MIN_ALIGN));
const _: () = assert!(2 * VECTOR_STRETCH < VECTOR_PART);
