//! [`PrivatePlatform`]: an arena of anonymous private memory. It cannot be shown twice, so a heap on it does not mesh; in
//! exchange pages fault in faster, and a fork copies it on write like all other memory.

use core::ptr::NonNull;

use meshheap::{Facts, Operation, PageRun, Platform, PlatformError, Purpose, Touch};

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::{clock, entropy, limits, mapping, scheduler};

/// Linux, for one heap in private memory.
#[derive(Debug)]
pub struct PrivatePlatform {
    facts: Facts,
    /// Where the arena starts; 0: there is none.
    base: AtomicUsize,
    /// Its length.
    bytes: AtomicUsize,
    /// Bytes of the arena up to which huge pages were settled.
    advised: AtomicUsize,
}

/// What one huge page spans, and the grain of advice.
const CHUNK_BYTES: usize = 2 << 20;

/// Below this much, pages stay small: a small heap must not take 2 MiB for its first object.
const SMALL_HEAP_BYTES: usize = 4 << 20;

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
        Self {
            facts,
            base: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            advised: AtomicUsize::new(SMALL_HEAP_BYTES),
        }
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
        if purpose == Purpose::Metadata {
            return mapping::map_metadata_at_new(bytes, align, self.facts.page_size).map_err(failed);
        }
        let base = mapping::map_private(bytes, align, self.facts.page_size).map_err(failed)?;
        // Relaxed: whoever asks for a page of the arena got it after this call.
        if self.base.compare_exchange(0, base.addr().get(), Ordering::Relaxed, Ordering::Relaxed).is_err() {
            // There is an arena: page numbers count from its base.
            // SAFETY: nobody knows of the addresses yet.
            unsafe { mapping::unmap(base, bytes) };
            return Err(failed(crate::errno::Errno(libc::EBUSY)));
        }
        self.bytes.store(bytes, Ordering::Relaxed);
        self.advised.store(SMALL_HEAP_BYTES, Ordering::Relaxed);
        Ok(base)
    }

    unsafe fn release(&self, purpose: Purpose, base: NonNull<u8>, bytes: usize) {
        if purpose == Purpose::Arena {
            // Relaxed: by the caller's contract no other call uses the arena any more.
            self.base.store(0, Ordering::Relaxed);
        }
        // SAFETY: by the caller's contract this is a reservation that nothing uses any more.
        unsafe { mapping::unmap(base, bytes) };
    }

    /// A heap that grows fills its chunks one after another, so a huge page at its end is full soon: a quarter of the cost of
    /// 512 faults. Where the system gives none, nothing is lost.
    unsafe fn commit(&self, pages: PageRun, touch: Touch) -> Result<(), PlatformError> {
        let end = pages.end().as_usize() * self.facts.page_size;
        // Relaxed: a race advises a chunk twice, or leaves one to small pages.
        let advised = self.advised.load(Ordering::Relaxed);
        if touch == Touch::Sparse {
            // A huge page would take memory that nobody touches.
            self.advised.fetch_max(end, Ordering::Relaxed);
        } else if end > advised {
            let next = end.next_multiple_of(CHUNK_BYTES).min(self.bytes.load(Ordering::Relaxed));
            self.advised.store(next, Ordering::Relaxed);
            let base = self.base.load(Ordering::Relaxed);
            // SAFETY: the chunk lies in the arena; advice changes no content.
            unsafe { mapping::advise_huge(base + advised, next - advised) };
        }
        Ok(())
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
