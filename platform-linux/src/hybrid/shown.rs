//! What each address of a hybrid arena shows: four bytes a page, in memory that is taken when it is touched.

use core::ptr::NonNull;

use meshheap::{PageIndex, PageRun};

use crate::errno::Errno;
use crate::mapping;

/// What an address shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shown {
    /// Private memory that no file has to do with.
    Private,
    /// A private view of a file that nobody writes to.
    Frozen,
    /// This page of the file.
    Page(PageIndex),
}

/// The page's own page of the file holds memory.
const IN_FILE: u32 = 1 << 31;
/// What the rest says: 0 for private memory, this for a frozen page, else the page shown and one.
const FROZEN: u32 = IN_FILE - 1;

/// The table of one arena.
#[derive(Debug)]
pub(super) struct Table {
    entries: NonNull<u32>,
    pages: usize,
    bytes: usize,
}

impl Table {
    /// For `pages` pages of `page_size` bytes, all private.
    pub(super) fn new(pages: usize, page_size: usize) -> Result<Self, Errno> {
        let bytes = (pages * size_of::<u32>()).next_multiple_of(page_size);
        let entries = mapping::map_metadata_at_new(bytes, page_size, page_size)?.cast();
        Ok(Self { entries, pages, bytes })
    }

    fn entries(&self) -> &[u32] {
        // SAFETY: the mapping has so many entries, is this table's alone, and began as zeros.
        unsafe { core::slice::from_raw_parts(self.entries.as_ptr(), self.pages) }
    }

    fn run(&mut self, pages: PageRun) -> &mut [u32] {
        // SAFETY: as above, and `&mut self` is exclusive.
        let entries = unsafe { core::slice::from_raw_parts_mut(self.entries.as_ptr(), self.pages) };
        &mut entries[pages.start.as_usize()..pages.end().as_usize()]
    }

    pub(super) fn shown(&self, page: PageIndex) -> Shown {
        match self.entries()[page.as_usize()] & !IN_FILE {
            0 => Shown::Private,
            FROZEN => Shown::Frozen,
            shown => Shown::Page(PageIndex::new(shown - 1)),
        }
    }

    /// The pages show the file's from `target` on. Their own pages of the file hold what they held, and memory if these are they.
    pub(super) fn set_shared(&mut self, pages: PageRun, target: PageIndex) {
        let own = if target == pages.start { IN_FILE } else { 0 };
        for (shown, entry) in (target.get() + 1..).zip(self.run(pages)) {
            *entry = (*entry & IN_FILE) | own | shown;
        }
    }

    pub(super) fn set_private(&mut self, pages: PageRun) {
        self.run(pages).iter_mut().for_each(|entry| *entry &= IN_FILE);
    }

    pub(super) fn set_frozen(&mut self, pages: PageRun) {
        self.run(pages).iter_mut().for_each(|entry| *entry = (*entry & IN_FILE) | FROZEN);
    }

    /// Whether no file has to do with any of the pages.
    pub(super) fn are_private(&self, pages: PageRun) -> bool {
        self.entries()[pages.start.as_usize()..pages.end().as_usize()].iter().all(|&entry| entry == 0)
    }

    /// Whether the file holds memory for the pages' own indices.
    pub(super) fn is_in_file(&mut self, pages: PageRun) -> bool {
        self.run(pages).iter().any(|entry| entry & IN_FILE != 0)
    }

    /// What the file held for the pages' own indices is gone. A page that still shows it holds memory again when it is touched.
    pub(super) fn forget_file(&mut self, pages: PageRun) {
        for (own, entry) in (pages.start.get() + 1..).zip(self.run(pages)) {
            if *entry & !IN_FILE != own {
                *entry &= !IN_FILE;
            }
        }
    }

    /// The first `pages` pages have nothing in the file that comes next.
    pub(super) fn forget_all_files(&mut self, pages: usize) {
        let pages =
            PageRun { start: PageIndex::new(0), count: u32::try_from(pages.min(self.pages)).unwrap_or(u32::MAX) };
        self.run(pages).iter_mut().filter(|entry| **entry != 0).for_each(|entry| *entry &= !IN_FILE);
    }

    /// The first run from page `from` on, before page `end`, that shows one run of the file's pages, and where that starts.
    pub(super) fn next_shared(&self, from: usize, end: usize) -> Option<(PageRun, PageIndex)> {
        let shows = |entry: u32| Some(entry & !IN_FILE).filter(|&shown| shown != 0 && shown != FROZEN);
        let entries = &self.entries()[..end.min(self.pages)];
        let start = from + entries.get(from..)?.iter().position(|&entry| shows(entry).is_some())?;
        let first = shows(entries[start])?;
        let count = (first..).zip(&entries[start..]).take_while(|&(next, &entry)| shows(entry) == Some(next)).count();
        let page = PageIndex::new(u32::try_from(start).ok()?);
        Some((PageRun::new(page, u32::try_from(count).ok()?), PageIndex::new(first - 1)))
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: the mapping is this table's alone.
        unsafe { mapping::unmap(self.entries.cast(), self.bytes) };
    }
}
