//! [`PrivatePlatform`]: an arena of anonymous private memory. It cannot be shown twice, so a heap on it does not mesh; in
//! exchange pages fault in faster, and a fork copies it on write like all other memory.

use core::ptr::NonNull;

use meshheap::{Facts, Operation, PageRun, Platform, PlatformError, Purpose};

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::{clock, entropy, limits, mapping, scheduler};

/// Linux, for one heap in private memory.
#[derive(Debug)]
pub struct PrivatePlatform {
    facts: Facts,
    /// Where the arena starts; 0: there is none.
    base: AtomicUsize,
}

impl PrivatePlatform {
    /// Asks the system for its page size; takes nothing from it before `reserve`.
    #[must_use]
    pub fn new() -> Self {
        let facts = Facts {
            page_size: limits::page_bytes(),
            lazy_commit: true,
            can_purge: true,
            can_alias: false,
            can_protect: false,
            mapping_limit: None,
        };
        Self { facts, base: AtomicUsize::new(0) }
    }
}

impl Default for PrivatePlatform {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: fresh private mappings read zero, and so do pages after MADV_DONTNEED; both touch exactly the given pages.
unsafe impl Platform for PrivatePlatform {
    fn facts(&self) -> Facts {
        self.facts
    }

    fn reserve(&self, purpose: Purpose, bytes: usize, align: usize) -> Result<NonNull<u8>, PlatformError> {
        let failed = |errno: crate::errno::Errno| errno.during(Operation::Reserve);
        let base = match purpose {
            Purpose::Arena => mapping::map_private(bytes, align, self.facts.page_size).map_err(failed)?,
            Purpose::Metadata => mapping::map_metadata_at_new(bytes, align, self.facts.page_size).map_err(failed)?,
        };
        if purpose == Purpose::Arena {
            // Relaxed: whoever asks for a page of the arena got it after this call.
            self.base.store(base.addr().get(), Ordering::Relaxed);
        }
        Ok(base)
    }

    unsafe fn release(&self, _purpose: Purpose, base: NonNull<u8>, bytes: usize) {
        // SAFETY: by the caller's contract this is a reservation that nothing uses any more.
        unsafe { mapping::unmap(base, bytes) };
    }

    unsafe fn purge(&self, pages: PageRun) -> Result<(), PlatformError> {
        // Relaxed: see `reserve`.
        let base = self.base.load(Ordering::Relaxed);
        let start = base + pages.start.as_usize() * self.facts.page_size;
        // SAFETY: by the caller's contract nothing needs the pages, which are the arena's.
        unsafe { mapping::discard(start, pages.count as usize * self.facts.page_size) }
            .map_err(|errno| errno.during(Operation::Purge))
    }

    fn now_ns(&self) -> u64 {
        clock::now_ns()
    }

    fn entropy(&self) -> u64 {
        entropy::number()
    }

    fn yield_now(&self) {
        scheduler::yield_now();
    }
}
