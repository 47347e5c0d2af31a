//! The arena: the platform, the page map, the page heap and the classes of one heap, and what needs several of them.
//! Files beside this one add to it: `refill.rs` moves slots between spans and vectors, `pages.rs` gives pages back.

use core::ptr::NonNull;

use crate::base::budget::{self, Budget, BudgetRef, Resource};
use crate::base::config::{
    ARENA_ALIGN, CLASS_COUNT, DEFAULT_ARENA_BYTES, DEFAULT_LOCAL_HEAP_BYTES, MAPPING_BUDGET_PART, MAX_PAGE_SIZE,
    MAX_SMALL_ALIGN, METADATA_POOL_MIN_BYTES, METADATA_POOL_MIN_BYTES_HELD, METADATA_POOL_PART,
};
use crate::base::error::{AllocError, Misuse, PlatformError};
use crate::base::rng::Rng;
use crate::base::sync::{AtomicUsize, Mutex, MutexGuard, Ordering, Rank};
use crate::base::units::SizeClass;
use crate::ds::metadata::MetadataPool;
use crate::ds::size_class::{Cut, Cutting};
use crate::page_heap::map_layout::MapLayout;
use crate::page_heap::{Account, PageHeap, PageMap, TablePeaks};
use crate::platform::{Facts, Platform, Purpose};
use crate::span::class_spans::ClassSpans;
use crate::span::depot::Depot;
use crate::span::pins::Pins;

/// In which order a refill hands out a span's free slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SlotOrder {
    /// Ascending from a random start: kind to caches, meshes regular survivors well.
    #[default]
    RandomRotation,
    /// Fully random, for hardening: the next address cannot be guessed. Costs time at each refill and cache misses later.
    FullShuffle,
}

/// How a heap is set up. All of it has defaults: `Options { seed: Some(1), ..Options::default() }`.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of address space for all objects, rounded up to pages. Smaller ones are tried if the platform refuses.
    pub arena_bytes: usize,
    /// In which order free slots are handed out.
    pub slot_order: SlotOrder,
    /// Bytes that one local heap may keep for itself: the handle, its vectors, and the slots in them. More is faster, up to
    /// some MiB for programs of many sizes; with little, large objects go without vectors, with none, all do.
    pub local_heap_bytes: usize,
    /// The seed of all placement; none: the platform's entropy. With a seed, one thread at a time and a platform that answers
    /// alike (its clock, too), the same calls give the same placement and the same meshes, wherever the arena lies.
    pub seed: Option<u64>,
    /// Mappings that meshing may use beyond the first; none: a quarter of the platform's limit.
    pub mapping_budget: Option<usize>,
    /// When a budget has no room for physical memory: whether the allocation meshes, as by [`Heap::mesh`](crate::Heap::mesh),
    /// with what that says of system calls beside it; only where the platform has a write barrier. Without it the heap purges
    /// and leaves meshing to the embedder: in the budget's hook, if that is a safepoint, or after the error.
    pub mesh_at_limit: bool,
    /// The heap never meshes: every object's physical memory is its own for as long as it lives, and spans stay short. For heaps
    /// much of which devices or other processes know by other means than its address; for single objects see
    /// [`Heap::pin`](crate::Heap::pin). It is as if the platform could not alias.
    pub never_mesh: bool,
    /// Called for each wrong pointer that is found when slots are released, with no lock held. It must not use the heap.
    pub on_misuse: Option<fn(Misuse)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            arena_bytes: DEFAULT_ARENA_BYTES,
            slot_order: SlotOrder::default(),
            local_heap_bytes: DEFAULT_LOCAL_HEAP_BYTES,
            seed: None,
            mapping_budget: None,
            mesh_at_limit: false,
            never_mesh: false,
            on_misuse: None,
        }
    }
}

/// What one class lock guards.
#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) spans: ClassSpans,
    pub(crate) depot: Depot,
}

/// Each class lock on cache lines of its own: threads that use different classes do not disturb each other.
#[derive(Debug)]
#[repr(align(128))]
struct ClassLock(Mutex<Class>);

/// Memory that the platform gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) start: NonNull<u8>,
    pub(crate) bytes: usize,
}

/// The arena of one heap.
#[derive(Debug)]
pub(crate) struct Arena<P: Platform> {
    pub(super) map: PageMap,
    pub(super) cuts: [Cut; CLASS_COUNT],
    classes: [ClassLock; CLASS_COUNT],
    pub(super) page_heap: Mutex<PageHeap>,
    pub(super) pins: Mutex<Pins>,
    pub(super) metadata: Mutex<MetadataPool>,
    pub(super) options: Options,
    layout: MapLayout,
    facts: Facts,
    seed: u64,
    /// Random streams given out.
    streams: AtomicUsize,
    /// Wrong pointers found.
    misuses: AtomicUsize,
    /// What memory is charged to.
    budget: Option<BudgetRef>,
    /// Bytes of objects that are charged now (I8).
    object_bytes: AtomicUsize,
    pages: Block,
    tables: Block,
    pool: Block,
    pub(super) platform: P,
}

// SAFETY: everything shared is guarded by the arena's locks or atomic; the blocks are plain addresses.
unsafe impl<P: Platform> Send for Arena<P> {}
// SAFETY: as above.
unsafe impl<P: Platform> Sync for Arena<P> {}

impl<P: Platform> Arena<P> {
    /// Reserves everything that the heap will ever need. Its memory is charged to `budget` as it is used.
    pub(crate) fn new(platform: P, options: Options, budget: Option<BudgetRef>) -> Result<Self, AllocError> {
        let mut facts = platform.facts();
        facts.can_alias &= !options.never_mesh;
        if !facts.page_size.is_power_of_two() || !(MAX_SMALL_ALIGN..=MAX_PAGE_SIZE).contains(&facts.page_size) {
            return Err(AllocError::PageSize);
        }
        let Reservations { pages, tables, pool, layout } = Reservations::new(&platform, &facts, options.arena_bytes)?;
        // SAFETY: the tables' block is zeroed, ours, large enough, and released only after the map.
        let map = unsafe { PageMap::new(pages.start, tables.start, layout) };
        // SAFETY: the map's tables end where the page heap's begin.
        let bits = unsafe { tables.start.add(layout.bytes()) }.cast();
        let limit = facts.mapping_limit.map_or(usize::MAX, |limit| limit / MAPPING_BUDGET_PART);
        let account = Account::new(budget.clone(), facts.page_size);
        // SAFETY: as for the map.
        let page_heap = unsafe { PageHeap::new(map.pages(), bits, options.mapping_budget.unwrap_or(limit), account) };
        // SAFETY: the pool's block is ours and outlives it.
        let metadata = unsafe { MetadataPool::new(pool.start, pool.bytes) };
        let can_alias = facts.can_alias && facts.can_purge;
        let cutting = Cutting { page_size: facts.page_size, can_alias, local_heap_bytes: options.local_heap_bytes };
        let cuts = core::array::from_fn(|index| Cut::new(class_number(index), &cutting));
        Ok(Self {
            map,
            cuts,
            classes: core::array::from_fn(|index| new_class(index, &cuts[index])),
            page_heap: Mutex::new(Rank::PageHeap, page_heap),
            pins: Mutex::new(Rank::Pins, Pins::new()),
            metadata: Mutex::new(Rank::Metadata, metadata),
            options,
            layout,
            facts,
            seed: options.seed.unwrap_or_else(|| platform.entropy()),
            streams: AtomicUsize::new(0),
            misuses: AtomicUsize::new(0),
            budget,
            object_bytes: AtomicUsize::new(0),
            pages,
            tables,
            pool,
            platform,
        })
    }

    /// The platform.
    pub(crate) const fn platform(&self) -> &P {
        &self.platform
    }

    /// What the platform can do.
    pub(crate) const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The page map.
    #[inline]
    pub(crate) const fn map(&self) -> &PageMap {
        &self.map
    }

    /// How spans of `class` are cut.
    #[inline]
    pub(crate) const fn cut(&self, class: SizeClass) -> &Cut {
        &self.cuts[class.index()]
    }

    /// How the heap was set up.
    pub(crate) const fn options(&self) -> &Options {
        &self.options
    }

    /// Bytes that one local heap may hold.
    pub(crate) const fn local_heap_bytes(&self) -> usize {
        self.options.local_heap_bytes
    }

    /// What memory is charged to.
    pub(crate) fn budget(&self) -> Option<&Budget> {
        self.budget.as_deref().filter(|_| budget::IS_COMPILED_IN)
    }

    /// Charges `bytes` of objects, before they are handed out.
    pub(crate) fn charge_objects(&self, bytes: usize) -> Result<(), AllocError> {
        if let Some(budget) = self.budget() {
            budget.charge_bytes(Resource::Objects, bytes)?;
            // Relaxed: only the sum counts, at a drop, when no handle is left.
            self.object_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Gives back what [`Arena::charge_objects`] charged.
    pub(crate) fn uncharge_objects(&self, bytes: usize) {
        if let Some(budget) = self.budget() {
            // Relaxed: as above.
            self.object_bytes.fetch_sub(bytes, Ordering::Relaxed);
            budget.uncharge_bytes(Resource::Objects, bytes);
        }
    }

    /// The same for all that is charged: the objects are gone, and no handle is left that counts them.
    pub(crate) fn uncharge_all_objects(&mut self) {
        // Relaxed: as above.
        self.uncharge_objects(self.object_bytes.load(Ordering::Relaxed));
    }

    /// Locks `class`.
    pub(crate) fn class(&self, class: SizeClass) -> MutexGuard<'_, Class> {
        self.classes[class.index()].0.lock(&self.platform)
    }

    /// Locks the page heap.
    pub(crate) fn page_heap(&self) -> MutexGuard<'_, PageHeap> {
        self.page_heap.lock(&self.platform)
    }

    /// Takes every lock, so that a fork copies the heap at rest.
    #[cfg(not(all(loom, feature = "loom")))]
    pub(crate) fn lock_for_fork(&self) {
        for class in &self.classes {
            class.0.lock_for_fork(&self.platform);
        }
        self.pins.lock_for_fork(&self.platform);
        self.page_heap.lock_for_fork(&self.platform);
        self.metadata.lock_for_fork(&self.platform);
    }

    /// Gives every lock back.
    ///
    /// # Safety
    /// [`Arena::lock_for_fork`] must have been called by this thread, or by the one that it continues in a child process.
    #[cfg(not(all(loom, feature = "loom")))]
    pub(crate) unsafe fn unlock_after_fork(&self) {
        // SAFETY: by the caller's contract.
        unsafe { self.metadata.unlock_after_fork() };
        // SAFETY: as above.
        unsafe { self.page_heap.unlock_after_fork() };
        // SAFETY: as above.
        unsafe { self.pins.unlock_after_fork() };
        for class in self.classes.iter().rev() {
            // SAFETY: as above.
            unsafe { class.0.unlock_after_fork() };
        }
    }

    /// A random stream of its own, for a local heap or the heap itself.
    pub(crate) fn new_stream(&self) -> Rng {
        // Relaxed: only the numbers have to differ.
        Rng::new(self.seed, self.streams.fetch_add(1, Ordering::Relaxed) as u64)
    }

    /// Counts and reports a wrong pointer. Called with no lock held.
    pub(crate) fn report(&self, misuse: Misuse) {
        // Relaxed: a counter that guards nothing.
        self.misuses.fetch_add(1, Ordering::Relaxed);
        if let Some(hook) = self.options.on_misuse {
            hook(misuse);
        }
    }

    /// Wrong pointers found so far.
    pub(crate) fn misuse_count(&self) -> u64 {
        // Relaxed: see `report`.
        self.misuses.load(Ordering::Relaxed) as u64
    }

    /// Bytes of metadata that have been touched when the page map's tables have been used up to `peaks`, the pool included;
    /// all that was reserved, where that is held from the start.
    pub(crate) fn metadata_bytes(&self, peaks: TablePeaks) -> usize {
        if !self.facts.lazy_commit {
            return self.tables.bytes + self.pool.bytes;
        }
        let pool = self.metadata.lock(&self.platform).committed();
        self.layout.touched_bytes(peaks) + PageHeap::table_bytes(peaks.records) + pool
    }

    /// Zeroed scratch memory for a mesh pass, to be given back by [`Arena::release_scratch`].
    pub(crate) fn reserve_scratch(&self, bytes: usize) -> Result<Block, PlatformError> {
        reserve_metadata(&self.platform, &self.facts, bytes)
    }

    /// Gives scratch memory back.
    ///
    /// # Safety
    /// The block must have come from [`Arena::reserve_scratch`], and nothing may use it any more.
    pub(crate) unsafe fn release_scratch(&self, block: Block) {
        // SAFETY: by the caller's contract.
        unsafe { self.platform.release(Purpose::Metadata, block.start, block.bytes) };
    }
}

impl<P: Platform> Drop for Arena<P> {
    /// Gives everything back to the platform (I9), in time proportional to the reservations, not to the objects.
    fn drop(&mut self) {
        self.map.destroy();
        self.release_pins();
        let blocks = [(Purpose::Metadata, self.pool), (Purpose::Metadata, self.tables), (Purpose::Arena, self.pages)];
        for (purpose, block) in blocks {
            // SAFETY: the blocks are live reservations, and `&mut self` shows that nobody uses them.
            unsafe { self.platform.release(purpose, block.start, block.bytes) };
        }
        // What pages were charged comes back as the page heap's account is dropped.
        self.uncharge_all_objects();
    }
}

/// Each class's number.
pub(crate) fn class_number(index: usize) -> SizeClass {
    SizeClass::new(u8::try_from(index).expect("there are fewer than 250 classes"))
}

/// Every class, ascending.
pub(crate) fn all_classes() -> impl Iterator<Item = SizeClass> {
    (0..CLASS_COUNT).map(class_number)
}

fn new_class(index: usize, cut: &Cut) -> ClassLock {
    let class = class_number(index);
    #[expect(clippy::cast_possible_truncation, reason = "there are fewer than 250 classes")]
    let rank = Rank::SizeClass(index as u8);
    ClassLock(Mutex::new(rank, Class { spans: ClassSpans::new(class, *cut), depot: Depot::new(cut) }))
}

/// What an arena is made of.
struct Reservations {
    pages: Block,
    tables: Block,
    pool: Block,
    layout: MapLayout,
}

impl Reservations {
    /// An arena of `bytes` bytes with its tables and pool, or of the largest half, quarter, ... that the platform has room
    /// for.
    fn new(platform: &impl Platform, facts: &Facts, bytes: usize) -> Result<Self, AllocError> {
        let most = (u32::MAX as usize / 2).saturating_mul(facts.page_size) & !(facts.page_size - 1);
        let mut bytes = bytes.clamp(1, most).next_multiple_of(facts.page_size);
        loop {
            match Self::of_size(platform, facts, bytes) {
                Ok(reservations) => return Ok(reservations),
                Err(error) if bytes <= facts.page_size => return Err(error.into()),
                Err(_) => bytes = (bytes / 2).next_multiple_of(facts.page_size),
            }
        }
    }

    fn of_size(platform: &impl Platform, facts: &Facts, bytes: usize) -> Result<Self, PlatformError> {
        let align = bytes.checked_next_power_of_two().map_or(ARENA_ALIGN, |whole| whole.min(ARENA_ALIGN));
        let start = platform.reserve(Purpose::Arena, bytes, align.max(facts.page_size))?;
        let pages = Block { start, bytes };
        let page_count = u32::try_from(bytes / facts.page_size).expect("`new` keeps to 32 bits of pages");
        let layout = MapLayout::new(page_count, facts.page_size);
        let table_bytes = layout.bytes() + PageHeap::table_bytes(page_count);
        let pool_min = if facts.lazy_commit { METADATA_POOL_MIN_BYTES } else { METADATA_POOL_MIN_BYTES_HELD };
        let pool_bytes = (bytes / METADATA_POOL_PART).max(pool_min);
        let release = |purpose, block: Block| {
            // SAFETY: the block was just reserved and nobody uses it.
            unsafe { platform.release(purpose, block.start, block.bytes) };
        };
        let tables = reserve_metadata(platform, facts, table_bytes).inspect_err(|_| release(Purpose::Arena, pages))?;
        let pool = reserve_metadata(platform, facts, pool_bytes).inspect_err(|_| {
            release(Purpose::Metadata, tables);
            release(Purpose::Arena, pages);
        })?;
        Ok(Self { pages, tables, pool, layout })
    }
}

fn reserve_metadata(platform: &impl Platform, facts: &Facts, bytes: usize) -> Result<Block, PlatformError> {
    let bytes = bytes.next_multiple_of(facts.page_size);
    let start = platform.reserve(Purpose::Metadata, bytes, facts.page_size)?;
    Ok(Block { start, bytes })
}
