//! Large objects: page runs of their own in the arena, for layouts that no size class serves.

use core::alloc::Layout;
use core::cmp::Ordering;
use core::ptr::NonNull;

use crate::base::config::{RELOCATE_MIN_BYTES, ZERO_BY_PURGE_BYTES};
use crate::base::error::{AllocError, Misuse, MisuseKind};
use crate::base::sync::MutexGuard;
use crate::base::units::{PageIndex, PageRun};
use crate::heap::Heap;
use crate::page_heap::{Content, Fit, PageHeap, PageKind, PageRecord};
use crate::platform::{Platform, Touch};

impl<P: Platform> Heap<P> {
    /// A large object for `layout`; with [`Content::Zero`] all its bytes are zero.
    ///
    /// # Errors
    /// As for [`Heap::alloc`].
    #[cold]
    pub(crate) fn alloc_large(&self, layout: Layout, content: Content) -> Result<NonNull<u8>, AllocError> {
        let fit = self.fit_for(layout, content)?;
        // Who asks for zeroes seldom writes over all of them.
        let touch = if content == Content::Zero { Touch::Sparse } else { Touch::Dense };
        let (run, found) = self.arena().or_reclaim(|| self.take_large(fit, touch))?;
        let object = self.arena().map().address_of(run.start);
        if content == Content::Zero && found == Content::Old {
            self.make_zero(run, layout.size())?;
        }
        Ok(object)
    }

    /// Makes the first `size` bytes of the fresh object `run` zero: by giving the old memory of its pages back, where that is
    /// cheaper, else by writing.
    fn make_zero(&self, run: PageRun, size: usize) -> Result<(), AllocError> {
        let arena = self.arena();
        // SAFETY: the run shows its own memory, and nobody has seen the object yet.
        if self.zeroes_by_purge(size) && unsafe { arena.platform().purge(run) }.is_ok() {
            return Ok(arena.commit_fresh(run, Content::Zero, Touch::Sparse)?);
        }
        // SAFETY: the run is ours alone and holds `size` bytes.
        unsafe { arena.map().address_of(run.start).write_bytes(0, size) };
        Ok(())
    }

    fn zeroes_by_purge(&self, size: usize) -> bool {
        size >= ZERO_BY_PURGE_BYTES && self.arena().facts().can_purge
    }

    /// The run that `layout` needs.
    pub(super) fn fit_for(&self, layout: Layout, prefer: Content) -> Result<Fit, AllocError> {
        let map = self.arena().map();
        let count = self.pages_for(layout.size())?;
        let align = u32::try_from(layout.align().div_ceil(map.page_size())).map_err(|_| AllocError::TooLarge)?;
        if align > map.pages() {
            return Err(AllocError::TooLarge);
        }
        let phase = (map.base().addr().get() / map.page_size()) % align as usize;
        Ok(Fit {
            count,
            align,
            phase: u32::try_from(phase).map_err(|_| AllocError::TooLarge)?,
            prefer,
            spare_fresh: self.zeroes_by_purge(layout.size()),
        })
    }

    fn pages_for(&self, size: usize) -> Result<u32, AllocError> {
        let map = self.arena().map();
        let count = u32::try_from(size.max(1).div_ceil(map.page_size())).map_err(|_| AllocError::TooLarge)?;
        if count > map.pages() { Err(AllocError::TooLarge) } else { Ok(count) }
    }

    fn take_large(&self, fit: Fit, touch: Touch) -> Result<(PageRun, Content), AllocError> {
        let map = self.arena().map();
        let (run, content) = {
            let mut pages = self.arena().page_heap();
            let (run, content) = pages.take(map, fit)?;
            map.set_kinds(run, PageKind::LargeTail);
            map.set_kinds(PageRun::new(run.start, 1), PageKind::LargeHead);
            self.set_large(&pages, run);
            (run, content)
        };
        self.arena().forget_pins(PageRun::new(run.start, 1));
        self.arena().commit_fresh(run, content, touch)?;
        Ok((run, content))
    }

    /// The run of the large object that starts at `object`. Under the page-heap lock.
    fn large_run(&self, object: NonNull<u8>) -> Result<PageRun, Misuse> {
        let map = self.arena().map();
        let misuse = |kind| Misuse { address: object.addr().get(), kind };
        let page = map.page_of(object).ok_or(misuse(MisuseKind::NotOurs))?;
        match map.kind(page) {
            PageKind::LargeHead if map.offset_in(page, object) == 0 => {}
            PageKind::LargeHead | PageKind::LargeTail => return Err(misuse(MisuseKind::Interior)),
            PageKind::Small(_) => return Err(misuse(MisuseKind::WrongLayout)),
            PageKind::Free => return Err(misuse(MisuseKind::NotOurs)),
        }
        // SAFETY: the caller holds the page-heap lock, and the page is a large object's.
        let PageRecord::Large { pages } = (unsafe { map.record(page) }) else {
            unreachable!("I2: a large object starts with its record");
        };
        Ok(PageRun::new(page, pages))
    }

    /// Frees the large object that starts at `object`.
    ///
    /// # Errors
    /// No large object starts there.
    #[cold]
    pub(crate) fn free_large(&self, object: NonNull<u8>) -> Result<(), Misuse> {
        let surplus = {
            let mut pages = self.arena().page_heap();
            let run = self.large_run(object)?;
            pages.free(self.arena().map(), run);
            pages.surplus_dirty(run.count, || self.arena().platform().now_ns())
        };
        self.arena().purge_surplus(surplus);
        Ok(())
    }

    /// Bytes of the large object that starts at `object`.
    pub(crate) fn large_size(&self, object: NonNull<u8>) -> Result<usize, Misuse> {
        let _pages = self.arena().page_heap();
        Ok(self.large_run(object)?.count as usize * self.arena().map().page_size())
    }

    /// Whether the large object at `object` could be given room for `size` bytes where it is; then it now has it.
    fn resize_large(&self, object: NonNull<u8>, size: usize) -> bool {
        let Ok(count) = self.pages_for(size) else { return false };
        let pages = self.arena().page_heap();
        let Ok(run) = self.large_run(object) else { return false };
        match count.cmp(&run.count) {
            Ordering::Less => self.shrink_large(pages, run, count),
            Ordering::Equal => true,
            Ordering::Greater => self.grow_large(pages, run, count),
        }
    }

    /// The large object at `object` made to hold `layout` without a copy; none if it has to be copied.
    ///
    /// # Safety
    /// `object` must be live, and not be used afterwards if the result is another pointer.
    pub(crate) unsafe fn resize_or_relocate(&self, object: NonNull<u8>, layout: Layout) -> Option<NonNull<u8>> {
        if self.resize_large(object, layout.size()) {
            return Some(object);
        }
        // SAFETY: the caller keeps the same contract.
        unsafe { self.relocate_large(object, layout) }
    }

    /// Moves the large object at `object` to a longer run for `layout`, without a copy; none if that is not worth it or cannot
    /// be. The old pages hold no memory then.
    ///
    /// # Safety
    /// `object` must be live, and not be used afterwards if there is a result.
    unsafe fn relocate_large(&self, object: NonNull<u8>, layout: Layout) -> Option<NonNull<u8>> {
        let (arena, map) = (self.arena(), self.arena().map());
        let from = {
            let _pages = arena.page_heap();
            self.large_run(object).ok()?
        };
        let bytes = from.count as usize * map.page_size();
        if !arena.facts().can_relocate || bytes < RELOCATE_MIN_BYTES || layout.size() < bytes {
            return None;
        }
        let moved = self.alloc_large(layout, Content::Old).ok()?;
        let to = map.page_of(moved)?;
        // SAFETY: both runs are large objects' and committed; the old one's is the caller's, the new one's nobody has seen.
        if unsafe { arena.platform().relocate(from, to) }.is_err() {
            // Nothing was moved: the caller copies.
            let _ = self.free_large(moved);
            return None;
        }
        let mut pages = arena.page_heap();
        pages.detach(map, from);
        pages.insert(map, from, Content::Zero);
        Some(moved)
    }

    fn shrink_large(&self, mut pages: MutexGuard<'_, PageHeap>, run: PageRun, count: u32) -> bool {
        let tail = PageRun::new(run.start.plus(count), run.count - count);
        pages.free(self.arena().map(), tail);
        self.set_large(&pages, PageRun::new(run.start, count));
        let surplus = pages.surplus_dirty(tail.count, || self.arena().platform().now_ns());
        drop(pages);
        self.arena().purge_surplus(surplus);
        true
    }

    fn grow_large(&self, mut pages: MutexGuard<'_, PageHeap>, run: PageRun, count: u32) -> bool {
        let tail = PageRun::new(run.end(), count - run.count);
        let Some(content) = pages.extend(self.arena().map(), run, tail.count) else { return false };
        self.arena().map().set_kinds(tail, PageKind::LargeTail);
        drop(pages);
        // The object keeps its length until its new pages are committed.
        if self.arena().commit_fresh(tail, content, Touch::Dense).is_err() {
            return false;
        }
        self.set_large(&self.arena().page_heap(), PageRun::new(run.start, count));
        true
    }

    /// Writes how long the large object `run` is.
    fn set_large(&self, _pages: &PageHeap, run: PageRun) {
        // SAFETY: the page-heap lock is held, as its data shows, and the page is a large object's.
        unsafe { self.arena().map().set_record(run.start, PageRecord::Large { pages: run.count }) };
    }

    /// The large objects' pages, for statistics: the run that starts at `page`. Under the page-heap lock.
    pub(crate) fn large_pages(&self, page: PageIndex) -> u32 {
        self.large_run(self.arena().map().address_of(page)).map_or(0, |run| run.count)
    }
}
