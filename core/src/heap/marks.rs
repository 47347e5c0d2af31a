//! A collector's mark bits, one a slot, in memory of their own: laid out like the bitmaps of taken slots, so that a sweep
//! compares word with word, and touched only where objects are marked.

use core::fmt;
use core::ptr::NonNull;

use crate::base::config::MIN_ALIGN;
use crate::base::error::AllocError;
use crate::base::sync::{AtomicUsize, Ordering};
use crate::base::units::PageIndex;
use crate::ds::table::{Table, ZeroValid};
use crate::heap::Heap;
use crate::page_heap::PageKind;
use crate::platform::Platform;
use crate::span::arena::Block;

// SAFETY: an atomic word of zero.
unsafe impl ZeroValid for AtomicUsize {
    #[cfg(all(loom, feature = "loom"))]
    fn zero() -> Self {
        Self::new(0)
    }
}

/// One mark for each slot and large object of a heap, all clear at first. See [`Heap::marks`].
///
/// Any number of threads may mark at the same time. Meshing changes no mark.
pub struct MarkBits<'h, P: Platform> {
    heap: &'h Heap<P>,
    memory: Block,
    table: Table<AtomicUsize>,
    words_per_page: usize,
}

// SAFETY: the table is shared by atomic words; the block is a plain address.
unsafe impl<P: Platform> Send for MarkBits<'_, P> {}
// SAFETY: as above.
unsafe impl<P: Platform> Sync for MarkBits<'_, P> {}

impl<P: Platform> fmt::Debug for MarkBits<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MarkBits").field("reserved_bytes", &self.memory.bytes).finish_non_exhaustive()
    }
}

impl<P: Platform> Heap<P> {
    /// Mark bits for a collector of this heap, to keep from one collection to the next or to make for each.
    ///
    /// They take a 128th of the arena's address space; where commit is lazy, they hold memory only for pages whose objects
    /// were marked. It is not part of [`Heap::statistics`].
    ///
    /// ```
    /// # #[cfg(feature = "simulated")]
    /// # fn main() -> Result<(), meshheap::AllocError> {
    /// # use core::alloc::Layout;
    /// # let platform = meshheap::SimulatedPlatform::new(4096);
    /// # let mut options = meshheap::Options::default();
    /// # options.arena_bytes = 1 << 20;
    /// # let heap = meshheap::Heap::with_options(&platform, options)?;
    /// let mut local = heap.local();
    /// let objects = [local.alloc(Layout::new::<u64>())?, local.alloc(Layout::new::<u64>())?];
    /// let mut marks = heap.marks()?;
    /// assert!(marks.mark(objects[0]), "a collector would look into the object now");
    /// local.flush(); // each local heap, so that no free slot looks taken
    /// // SAFETY: the local heaps were flushed, and objects without a mark are not used any more.
    /// let swept = unsafe { heap.sweep_unmarked(&mut marks) };
    /// assert_eq!(swept.objects, 1);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "simulated"))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    /// The platform refuses the memory.
    pub fn marks(&self) -> Result<MarkBits<'_, P>, AllocError> {
        let map = self.arena().map();
        // No slot is smaller, so a span's slots have room in the words of its own pages.
        let words_per_page = (map.page_size() / MIN_ALIGN).div_ceil(usize::BITS as usize);
        let words = map.pages() as usize * words_per_page;
        let memory = self.arena().reserve_scratch(Table::<AtomicUsize>::bytes(words))?;
        // SAFETY: the memory is zeroed, the table's alone, and given back after its last use.
        let table = unsafe { Table::new(memory.start, words) };
        Ok(MarkBits { heap: self, memory, table, words_per_page })
    }
}

impl<P: Platform> MarkBits<'_, P> {
    pub(super) const fn heap(&self) -> &Heap<P> {
        self.heap
    }

    /// The word and the bit for the slot or large object that `pointer` points into.
    #[inline]
    fn place(&self, pointer: NonNull<u8>) -> Option<(&AtomicUsize, usize)> {
        let map = self.heap.arena().map();
        let page = map.page_of(pointer)?;
        let (head, slot) = match map.kind(page) {
            PageKind::Small(class) => {
                let cut = self.heap.arena().cut(class);
                let head = map.span_head(page, cut.pages);
                let (slot, _) = cut.slot_at(u32::try_from(map.offset_in(head, pointer)).ok()?);
                (slot < cut.slots).then_some((head, slot as usize))?
            }
            PageKind::LargeHead => (page, 0),
            PageKind::LargeTail => (map.page_of(self.heap.object_at(pointer).ok()?.start)?, 0),
            PageKind::Free => return None,
        };
        let bits = usize::BITS as usize;
        Some((self.table.at(head.as_usize() * self.words_per_page + slot / bits), 1 << (slot % bits)))
    }

    /// Marks the slot or large object that `pointer` points into, be it to its start or not. Returns whether it had no mark
    /// before: the collector then looks into it. False, too, if nothing of this heap lies there.
    ///
    /// A slot that is free can have a mark, to no effect: who marks what merely looks like pointers asks
    /// [`Heap::object_at`] first whether it is an object.
    ///
    /// O(1), without a lock, but for pointers into large objects behind their first page: see [`Heap::object_at`].
    #[inline]
    pub fn mark(&self, pointer: NonNull<u8>) -> bool {
        let Some((word, bit)) = self.place(pointer) else { return false };
        // Relaxed: whoever sweeps has met all who marked. Most objects are reached more than once: a load is cheaper.
        word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// Takes the mark of the slot or large object that `pointer` points into. Returns whether it had one.
    ///
    /// As [`MarkBits::mark`].
    #[inline]
    pub fn unmark(&self, pointer: NonNull<u8>) -> bool {
        let Some((word, bit)) = self.place(pointer) else { return false };
        // Relaxed: see `mark`.
        word.fetch_and(!bit, Ordering::Relaxed) & bit != 0
    }

    /// Whether the slot or large object that `pointer` points into has a mark.
    #[inline]
    pub fn is_marked(&self, pointer: NonNull<u8>) -> bool {
        // Relaxed: see `mark`.
        self.place(pointer).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }

    /// The marks for word number `word` of the bitmap of the span at `head`, which are clear afterwards.
    #[inline]
    pub(super) fn take_word(&mut self, head: PageIndex, word: usize) -> u64 {
        const PARTS: usize = (u64::BITS / usize::BITS) as usize;
        let first = head.as_usize() * self.words_per_page + word * PARTS;
        let mut bits = 0;
        for part in 0..PARTS {
            let word = self.table.at(first + part);
            // Relaxed: `&mut self` shows that nobody else marks.
            let marks = word.load(Ordering::Relaxed);
            if marks != 0 {
                word.store(0, Ordering::Relaxed);
            }
            bits |= (marks as u64) << (part * usize::BITS as usize % 64);
        }
        bits
    }
}

impl<P: Platform> Drop for MarkBits<'_, P> {
    fn drop(&mut self) {
        self.table.destroy();
        // SAFETY: the memory came from `reserve_scratch`, and the table's last use is over.
        unsafe { self.heap.arena().release_scratch(self.memory) };
    }
}
