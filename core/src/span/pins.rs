//! Pinned objects: one bit a slot, in a plane of its own that is reserved when the first object is pinned. The group of a
//! pinned object is never moved, so its physical pages stay.
//!
//! A lock guards the plane, taken after a class lock; it is held for a few words. A group changes its pages only while it is
//! busy, and nothing of a busy group is pinned: so whoever has pinned an object knows its pages to be at rest.

use crate::base::config::MIN_ALIGN;
use crate::base::error::{Misuse, PlatformError};
use crate::base::sync::{AtomicUsize, MutexGuard, Ordering};
use crate::base::units::{PageIndex, PageRun, SizeClass};
use crate::ds::shuffle_vector::Object;
use crate::ds::table::Table;
use crate::page_heap::page_map::Place;
use crate::page_heap::{PageMap, PageRecord};
use crate::platform::Platform;
use crate::span::arena::{Arena, Block, Class};
use crate::span::bits::aliases;

/// The pinned objects of one heap.
#[derive(Debug)]
pub(crate) struct Pins {
    plane: Option<Plane>,
    /// Bits that are set.
    count: usize,
}

/// One bit for each slot, laid out like mark bits; a large object has that of its first page.
#[derive(Debug)]
struct Plane {
    memory: Block,
    /// Relaxed accesses throughout: the lock orders them.
    table: Table<AtomicUsize>,
    words_per_page: usize,
}

/// What became of an attempt to pin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PinOutcome {
    /// It is pinned.
    Pinned,
    /// It was already.
    WasPinned,
    /// Its group is being meshed just now.
    Busy,
}

impl Pins {
    /// None.
    pub(crate) const fn new() -> Self {
        Self { plane: None, count: 0 }
    }

    fn bit(&self, head: PageIndex, slot: u32) -> Option<(&AtomicUsize, usize)> {
        let plane = self.plane.as_ref()?;
        let bits = usize::BITS as usize;
        let word = head.as_usize() * plane.words_per_page + slot as usize / bits;
        Some((plane.table.at(word), 1 << (slot as usize % bits)))
    }

    /// Sets the bit of a slot. Returns whether it was clear.
    fn set(&mut self, head: PageIndex, slot: u32) -> bool {
        let Some((word, bit)) = self.bit(head, slot) else { return false };
        let was_clear = word.fetch_or(bit, Ordering::Relaxed) & bit == 0;
        self.count += usize::from(was_clear);
        was_clear
    }

    /// Clears the bit of a slot. Returns whether it was set.
    fn clear(&mut self, head: PageIndex, slot: u32) -> bool {
        let Some((word, bit)) = self.bit(head, slot) else { return false };
        let was_set = word.fetch_and(!bit, Ordering::Relaxed) & bit != 0;
        self.count -= usize::from(was_set);
        was_set
    }

    /// The words of these pages.
    fn words(&self, pages: PageRun) -> impl Iterator<Item = &AtomicUsize> {
        let plane = self.plane.as_ref().filter(|_| self.count > 0);
        plane.into_iter().flat_map(move |plane| {
            let first = pages.start.as_usize() * plane.words_per_page;
            (first..first + pages.count as usize * plane.words_per_page).map(|word| plane.table.at(word))
        })
    }

    fn is_any_set(&self, pages: PageRun) -> bool {
        self.words(pages).any(|word| word.load(Ordering::Relaxed) != 0)
    }
}

impl<P: Platform> Arena<P> {
    /// Reserves the plane, if nobody did so far. No lock may be held.
    pub(crate) fn reserve_pins(&self) -> Result<(), PlatformError> {
        if self.pins().plane.is_some() {
            return Ok(());
        }
        // No slot is smaller, so a span's slots have room in the words of its own pages.
        let words_per_page = (self.map().page_size() / MIN_ALIGN).div_ceil(usize::BITS as usize);
        let words = self.map().pages() as usize * words_per_page;
        let memory = self.reserve_scratch(Table::<AtomicUsize>::bytes(words))?;
        // SAFETY: the memory is zeroed, the table's alone, and given back after its last use.
        let table = unsafe { Table::new(memory.start, words) };
        let made = Plane { memory, table, words_per_page };
        let surplus = {
            let mut pins = self.pins();
            if pins.plane.is_none() { pins.plane.replace(made) } else { Some(made) }
        };
        if let Some(plane) = surplus {
            self.release_plane(plane);
        }
        Ok(())
    }

    fn release_plane(&self, mut plane: Plane) {
        plane.table.destroy();
        // SAFETY: the memory came from `reserve_scratch`, and the table's last use is over.
        unsafe { self.release_scratch(plane.memory) };
    }

    /// Gives the plane back, at the heap's end.
    pub(super) fn release_pins(&mut self) {
        if let Some(plane) = self.pins.get_mut().plane.take() {
            self.release_plane(plane);
        }
    }

    /// Locks the pins.
    fn pins(&self) -> MutexGuard<'_, Pins> {
        self.pins.lock(&self.platform)
    }

    /// How many objects are pinned.
    pub(crate) fn pinned(&self) -> usize {
        self.pins().count
    }

    /// Pins the taken slot that starts at `object`. The plane is there.
    pub(crate) fn pin_slot(&self, class: SizeClass, object: Object) -> Result<PinOutcome, Misuse> {
        let guard = self.class(class);
        let (head, slot) = guard.spans.taken_slot(&self.map, object)?;
        if is_busy(&guard, &self.map, head) {
            return Ok(PinOutcome::Busy);
        }
        Ok(if self.pins().set(head, slot) { PinOutcome::Pinned } else { PinOutcome::WasPinned })
    }

    /// Ends what [`Arena::pin_slot`] began. False if the slot is not pinned.
    pub(crate) fn unpin_slot(&self, class: SizeClass, object: Object) -> bool {
        let _guard = self.class(class);
        let page = self.map.page_of(object).filter(|&page| self.map.is_of_class(page, class));
        let found = page.and_then(|page| self.map.slot_of(self.cut(class), page, object));
        found.is_some_and(|(head, slot)| self.pins().clear(head, slot))
    }

    /// Pins the large object at `head`. The plane is there. False if it was already.
    pub(crate) fn pin_large(&self, head: PageIndex) -> bool {
        self.pins().set(head, 0)
    }

    /// Ends what [`Arena::pin_large`] began. False if it is not pinned.
    pub(crate) fn unpin_large(&self, head: PageIndex) -> bool {
        self.pins().clear(head, 0)
    }

    /// Forgets pins in pages that begin anew: those of objects that were freed pinned.
    pub(crate) fn forget_pins(&self, pages: PageRun) {
        let mut pins = self.pins();
        let forgotten: usize =
            pins.words(pages).map(|word| word.swap(0, Ordering::Relaxed).count_ones() as usize).sum();
        pins.count -= forgotten;
    }

    /// Whether an object of the group at `head` is pinned.
    pub(crate) fn is_pinned(&self, guard: &Class, class: SizeClass, head: PageIndex) -> bool {
        let pins = self.pins();
        if pins.count == 0 {
            return false;
        }
        let Some(keeper) = guard.spans.keeper(&self.map, head) else { return false };
        let pages = self.cut(class).pages;
        // SAFETY: `guard` shows that the class lock is held.
        let mut members = unsafe { aliases(&self.map, keeper.aliases) }.map(|(alias, _)| alias);
        pins.is_any_set(PageRun::new(head, pages)) || members.any(|page| pins.is_any_set(PageRun::new(page, pages)))
    }
}

/// Whether a mesh is at work on the group to which the span at `head` belongs.
fn is_busy(guard: &Class, map: &PageMap, head: PageIndex) -> bool {
    // SAFETY: `guard` shows that the class lock is held.
    let keeper = match unsafe { map.record(head) } {
        PageRecord::Alias { keeper, .. } => keeper,
        _ => head,
    };
    guard.spans.keeper(map, keeper).is_some_and(|keeper| keeper.place == Place::BUSY)
}
