//! What happens to shared pages before a fork: private views take their place, by a call of the system for each mapping.

use core::ptr::NonNull;

use meshheap::{PageIndex, PageRun};

use super::shown::Table;
use super::views::Views;
use crate::errno::Errno;
use crate::mapping;

/// A run of pages, and where the run of the file's pages starts that it shows.
type Shared = (PageRun, PageIndex);

/// Where the arena's pages are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pages {
    /// Where the first one starts.
    pub(super) base: NonNull<u8>,
    /// Bytes of each.
    pub(super) size: usize,
    /// How many were ever used, at the most.
    pub(super) opened: usize,
}

impl Pages {
    const fn bytes(self, run: PageRun) -> usize {
        run.count as usize * self.size
    }

    fn address(self, page: PageIndex) -> NonNull<u8> {
        // SAFETY: callers pass pages of the arena.
        unsafe { self.base.add(page.as_usize() * self.size) }
    }
}

/// Private views in place of shared ones, wherever the arena shows the file.
pub(super) fn freeze(pages: Pages, views: &Views, table: &mut Table) -> Result<(), Errno> {
    let is_limited = views.open_private()?;
    empty_page_tables(pages, table);
    let mut next = 0;
    while let Some((run, target)) = table.next_shared(next, pages.opened) {
        let at = pages.address(run.start);
        // SAFETY: the addresses show the same bytes before and after, and nobody writes to the file through another view than
        // the arena's.
        unsafe { views.show_private(target.as_usize() * pages.size, pages.bytes(run), at, is_limited) }?;
        table.set_frozen(run);
        next = run.end().as_usize();
    }
    Ok(())
}

/// Takes shared pages out of the page tables, neighbouring mappings by one call: otherwise each call that replaces one tells
/// all processors that run the program's threads, which takes as long as all the rest of it.
fn empty_page_tables(pages: Pages, table: &Table) {
    let empty = |run: PageRun| {
        // SAFETY: all of these pages show the file, which keeps what they hold. Where the call is refused, as of locked memory,
        // the pages go when their mapping does.
        let _ = unsafe { mapping::discard(pages.address(run.start).addr().get(), pages.bytes(run)) };
    };
    let mut stretch: Option<PageRun> = None;
    for (run, _) in shared_runs(table, pages.opened) {
        stretch = match stretch {
            Some(before) if before.end() == run.start => Some(PageRun::new(before.start, before.count + run.count)),
            before => {
                before.into_iter().for_each(empty);
                Some(run)
            }
        };
    }
    stretch.into_iter().for_each(empty);
}

fn shared_runs(table: &Table, end: usize) -> impl Iterator<Item = Shared> {
    let mut next = 0;
    core::iter::from_fn(move || {
        let shared = table.next_shared(next, end)?;
        next = shared.0.end().as_usize();
        Some(shared)
    })
}
