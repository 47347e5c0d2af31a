//! An arena to test with.

use core::ops::Range;
use core::ptr::NonNull;

use meshheap::{Access, Operation, PageIndex, PageRun, Platform, PlatformError, Purpose};
use meshheap_linux::{Backing, LinuxPlatform, WriteBarrier};

/// A reserved arena, released at the end.
pub(crate) struct Arena {
    pub(crate) platform: LinuxPlatform,
    base: NonNull<u8>,
    pub(crate) page: usize,
    bytes: usize,
}

impl Arena {
    pub(crate) fn new(pages: usize) -> Self {
        Self::on(LinuxPlatform::new(), pages)
    }

    /// One on each kind of memory that can be shown twice.
    pub(crate) fn each(pages: usize) -> impl Iterator<Item = Self> {
        let kinds = [Backing::Memfd, Backing::SharedAnonymous].into_iter();
        kinds.map(move |backing| Self::on(LinuxPlatform::with_backing(backing), pages))
    }

    /// Behind page protection.
    pub(crate) fn with_barrier(pages: usize) -> Self {
        Self::behind(WriteBarrier::PageProtection, pages).expect("Linux installs handlers")
    }

    /// Behind this barrier; none, with a word, where the system does not permit userfaultfd.
    pub(crate) fn behind(barrier: WriteBarrier, pages: usize) -> Option<Self> {
        let platform = LinuxPlatform::new().and_barrier(barrier);
        let is_there = platform.facts().write_barrier;
        if !is_there {
            println!("not tested: {:?}", platform.barrier());
        }
        is_there.then(|| Self::on(platform, pages))
    }

    pub(crate) fn on(platform: LinuxPlatform, pages: usize) -> Self {
        let page = platform.facts().page_size;
        let bytes = pages * page;
        let base = platform.reserve(Purpose::Arena, bytes, 2 << 20).expect("an arena");
        Self { platform, base, page, bytes }
    }

    pub(crate) fn fill(&self, pages: Range<usize>, content: u8) {
        let start = self.address(&pages);
        // SAFETY: the range lies in the arena, which nothing else uses.
        unsafe { start.write_bytes(content, pages.len() * self.page) };
    }

    /// Whether every byte that the page shows is `content`.
    pub(crate) fn holds(&self, page: usize, content: u8) -> bool {
        let shown = NonNull::slice_from_raw_parts(self.address(&(page..page + 1)), self.page);
        // SAFETY: the page lies in the arena, to which nothing writes meanwhile.
        unsafe { shown.as_ref() }.iter().all(|&byte| byte == content)
    }

    /// Where the pages begin.
    pub(crate) fn address(&self, pages: &Range<usize>) -> NonNull<u8> {
        assert!(pages.end * self.page <= self.bytes);
        // SAFETY: the range was found to lie in the arena.
        unsafe { self.base.add(pages.start * self.page) }
    }

    pub(crate) fn alias(&self, pages: PageRun, target: u32) -> Result<(), PlatformError> {
        // SAFETY: there are no objects.
        unsafe { self.platform.alias(pages, PageIndex::new(target)) }
    }

    pub(crate) fn unalias(&self, pages: PageRun) -> Result<(), PlatformError> {
        // SAFETY: there are no objects.
        unsafe { self.platform.unalias(pages) }
    }

    pub(crate) fn purge(&self, pages: PageRun) -> Result<(), PlatformError> {
        // SAFETY: there are no objects.
        unsafe { self.platform.purge(pages) }
    }

    pub(crate) fn protect(&self, pages: PageRun, access: Access) -> Result<(), PlatformError> {
        // SAFETY: nothing writes to the pages.
        unsafe { self.platform.protect(pages, access) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the reservation from `new`, with which the test is done.
        unsafe { self.platform.release(Purpose::Arena, self.base, self.bytes) };
    }
}

pub(crate) fn run(start: u32, count: u32) -> PageRun {
    PageRun::new(PageIndex::new(start), count)
}

pub(crate) const fn error<T>(operation: Operation, code: i32) -> Result<T, PlatformError> {
    Err(PlatformError { operation, code })
}
