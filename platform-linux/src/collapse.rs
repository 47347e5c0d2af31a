//! Huge pages for chunks that are full of small ones, when the embedder asks.

use core::sync::atomic::Ordering;

use meshheap::{PageIndex, PageRun};

use crate::backing::Refusal;
use crate::errno::Errno;
use crate::mapping;
use crate::private::{CHUNK_BYTES, PrivatePlatform};

/// Pages of a chunk, where they are smallest.
const PAGES: usize = CHUNK_BYTES >> 12;

/// What a call of [`PrivatePlatform::collapse`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Collapse {
    /// Chunks that lie in a huge page now; some may have before.
    pub huge: usize,
    /// Chunks that were left as they are: partly empty or not in memory, or a part of them was given back, shared or meshed before.
    pub passed_over: usize,
    /// What ended the call early: EINVAL where the kernel has no huge pages or no such call (before Linux 6.1), ENOMEM or EAGAIN if
    /// it found none just now. Nothing changed for that chunk.
    pub refused: Option<Refusal>,
    /// The call reached the end of what is in use; the next one starts again.
    pub is_done: bool,
}

impl PrivatePlatform {
    /// Moves the content of up to `chunks` chunks of 2 MiB into a huge page each, going on where the last call ended: fewer misses
    /// in the processor's tables for memory that came in small pages. Only chunks whose pages are all in memory and that were
    /// always private are taken, so that no memory is added; one of which a part was given back is never taken again, since what
    /// a huge page loses stays the process's.
    ///
    /// For an embedder who knows that a large part of the heap stays: after a load, say. **Each chunk costs the copy of 2 MiB, and
    /// waits until the kernel has come by on every processor: 10 to 16 ms a chunk on a busy machine with two** (Linux 6.18). Threads
    /// that touch the chunk meanwhile wait for the copy, and steps of meshing, purges and forks for the whole chunk: ask for few at
    /// a time. A huge page must be free or be made free, which takes longer when memory is short.
    pub fn collapse(&self, chunks: usize) -> Collapse {
        self.collapse_where(chunks, |_, collapse| collapse())
    }

    /// The same for chunks that `visit` calls its second argument for, which it may do under a lock.
    pub(crate) fn collapse_where(
        &self,
        chunks: usize,
        visit: impl Fn(PageRun, &dyn Fn() -> Result<bool, Errno>) -> Result<bool, Errno>,
    ) -> Collapse {
        let mut collapse = Collapse::default();
        for _ in 0..chunks {
            // Relaxed: two callers at once look at a chunk twice, or leave one out.
            let chunk = self.next_chunk.fetch_add(1, Ordering::Relaxed);
            let Some(pages) = self.chunk(chunk) else {
                self.next_chunk.store(0, Ordering::Relaxed);
                collapse.is_done = true;
                break;
            };
            match visit(pages, &|| self.collapse_chunk(chunk, pages)) {
                Ok(true) => collapse.huge += 1,
                Ok(false) => collapse.passed_over += 1,
                Err(errno) => {
                    collapse.refused = Some(errno.by("madvise(MADV_COLLAPSE)"));
                    break;
                }
            }
        }
        collapse
    }

    /// The pages of a chunk, if all of it can be used.
    fn chunk(&self, chunk: usize) -> Option<PageRun> {
        let pages = CHUNK_BYTES / self.page_size();
        let first = u32::try_from(chunk * pages).ok()?;
        ((chunk + 1) * CHUNK_BYTES <= self.opened() && pages > 0)
            .then(|| PageRun::new(PageIndex::new(first), u32::try_from(pages).unwrap_or(0)))
    }

    /// False: it is not to be taken.
    fn collapse_chunk(&self, chunk: usize, pages: PageRun) -> Result<bool, Errno> {
        self.forks().check()?;
        let start = self.base() + pages.start.as_usize() * self.page_size();
        if self.is_small(chunk) || !mapping::are_all_resident::<PAGES>(start, CHUNK_BYTES, self.page_size()) {
            return Ok(false);
        }
        // SAFETY: the chunk lies in the part of the arena that can be used.
        unsafe { mapping::collapse(start, CHUNK_BYTES) }.map(|()| true)
    }
}
