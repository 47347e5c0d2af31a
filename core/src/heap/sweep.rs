//! For collectors: all dead objects freed in one walk through the heap, a bitmap word at a time.
//!
//! Marks are the collector's own, in its objects' headers or wherever it likes ([`Heap::sweep`]), or lie in [`MarkBits`], one
//! bit a slot, which is the fastest ([`Heap::sweep_unmarked`]): dead slots are then what a word of the bitmap has more than
//! the same word of the marks. The heap's other paths know of neither.

use crate::base::units::PageIndex;
use crate::heap::Heap;
use crate::heap::inspect::{ObjectInfo, Objects, Run};
use crate::heap::marks::MarkBits;
use crate::page_heap::PageKind;
use crate::platform::Platform;
use crate::span::bits::{GroupBits, MAX_WORDS, set_bits};
use crate::span::class_spans::slot_address;
use crate::span::emptied::Emptied;

/// What [`Heap::sweep`] freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Swept {
    /// Objects.
    pub objects: usize,
    /// Their bytes: slots and large objects count whole.
    pub bytes: usize,
}

impl<P: Platform> Heap<P> {
    /// Frees every object that `is_marked` does not want to keep. It is asked once for each slot that is taken and each large
    /// object, in address order.
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
    /// local.flush(); // each local heap, so that no free slot looks taken
    /// // SAFETY: the local heaps were flushed, and the second object is not used any more.
    /// let swept = unsafe { heap.sweep(|object| object.start == objects[0]) };
    /// assert_eq!(swept.objects, 1);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "simulated"))]
    /// # fn main() {}
    /// ```
    ///
    /// A nanosecond or two for each object, besides what `is_marked` takes; [`Heap::sweep_unmarked`] is faster. No lock is
    /// held while `is_marked` runs. If it panics, what was freed stays freed, and the heap is whole.
    ///
    /// # Safety
    /// * An object that is not marked must not be used afterwards.
    /// * All local heaps of this heap must have been flushed ([`crate::LocalHeap::flush`]), and until the call returns,
    ///   nobody allocates or frees, `is_marked` included: a free slot that waits in a local heap looks like an object, and
    ///   would be handed out twice. (Slots in depots are given back first.) Meshing may go on meanwhile.
    pub unsafe fn sweep(&self, mut is_marked: impl FnMut(ObjectInfo) -> bool) -> Swept {
        self.arena().drain_all();
        let mut swept = Swept::default();
        let mut walk = self.objects();
        while let Some(run) = walk.advance() {
            let (objects, size) = match run {
                Run::Span => self.sweep_span(&walk, &mut is_marked),
                Run::Large(large) if is_marked(large) => (0, 0),
                Run::Large(large) => (usize::from(self.free_large(large.start).is_ok()), large.size),
            };
            swept.objects += objects;
            swept.bytes += objects * size;
        }
        swept
    }

    /// Frees every object that has no mark, and clears all marks for the next time: [`Heap::sweep`] by [`MarkBits`].
    ///
    /// O(pages up to the last in use): some 50 nanoseconds a span, however many objects die in it; see
    /// `cargo bench -p meshheap-bench --bench sweep`.
    ///
    /// # Panics
    /// `marks` belongs to another heap.
    ///
    /// # Safety
    /// As for [`Heap::sweep`]; and since the first mark, nothing was freed or reallocated. (What was allocated since has no
    /// mark unless it was given one.)
    pub unsafe fn sweep_unmarked(&self, marks: &mut MarkBits<'_, P>) -> Swept {
        assert!(core::ptr::eq(self, marks.heap()), "the marks belong to another heap");
        self.arena().drain_all();
        // SAFETY: the caller keeps the same contract.
        unsafe { self.release_unmarked(|page, word| marks.take_word(page, word)) }
    }

    /// Frees every slot and large object without a mark: `marks` is asked once for each word of a span's bitmap, and for word
    /// 0 of a large object, whose mark is bit 0.
    ///
    /// # Safety
    /// What has no mark must not be used afterwards, and no free slot without a mark may wait in a vector.
    #[inline]
    pub(super) unsafe fn release_unmarked(&self, mut marks: impl FnMut(PageIndex, usize) -> u64) -> Swept {
        let (arena, map) = (self.arena(), self.arena().map());
        let mut swept = Swept::default();
        let (mut page, end) = (PageIndex::new(0), PageIndex::new(arena.page_heap().counts().frontier));
        while page < end {
            let mut pages = 1;
            match map.kind(page) {
                PageKind::Small(class) if map.span_head(page, arena.cut(class).pages) == page => {
                    let cut = arena.cut(class);
                    pages = cut.pages;
                    let mut guard = arena.class(class);
                    let mut emptied = Emptied::new(pages);
                    let live = |word| marks(page, word);
                    let released = usize::from(guard.spans.release_all_but(map, page, live, &mut emptied));
                    arena.give_back(guard, emptied);
                    swept.objects += released;
                    swept.bytes += released * cut.size as usize;
                }
                PageKind::LargeHead => {
                    let large = map.address_of(page);
                    if let Ok(size) = self.large_size(large) {
                        pages = u32::try_from(size / map.page_size()).expect("pages are counted in 32 bits");
                        if marks(page, 0) == 0 && self.free_large(large).is_ok() {
                            swept.objects += 1;
                            swept.bytes += size;
                        }
                    }
                }
                PageKind::Small(_) | PageKind::LargeTail | PageKind::Free => {}
            }
            page = page.plus(pages);
        }
        swept
    }

    /// Frees the slots without a mark of the span that `walk` came to. Returns how many, and the size of each.
    fn sweep_span(&self, walk: &Objects<'_, P>, is_marked: &mut impl FnMut(ObjectInfo) -> bool) -> (usize, usize) {
        let (arena, class, head) = (self.arena(), walk.class, walk.head);
        let cut = *arena.cut(class);
        let size = cut.size as usize;
        let mut dead: GroupBits = [0; MAX_WORDS];
        let mut any = 0;
        for (word, &taken) in walk.bits.iter().enumerate().take(walk.words) {
            for bit in set_bits(taken) {
                let start = slot_address(arena.map(), &cut, head, 64 * word as u32 + bit);
                let marked = is_marked(ObjectInfo { start, size, is_large: false, is_taken: true });
                dead[word] |= u64::from(!marked) << bit;
            }
            any |= dead[word];
        }
        if any == 0 {
            return (0, size);
        }
        let mut guard = arena.class(class);
        let mut emptied = Emptied::new(cut.pages);
        let released = guard.spans.release_all_but(arena.map(), head, |word| !dead[word], &mut emptied);
        arena.give_back(guard, emptied);
        (usize::from(released), size)
    }
}
