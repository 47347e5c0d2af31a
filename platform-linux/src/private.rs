//! [`PrivatePlatform`]: an arena of anonymous private memory. It cannot be shown twice, so a heap on it does not mesh; in
//! exchange pages fault in faster, and a fork copies it on write like all other memory.

use core::ptr::{self, NonNull};

use meshheap::{Facts, Operation, PageIndex, PageRun, Platform, PlatformError, Purpose, Touch};

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use crate::errno::Errno;
use crate::fork_policy::{ForkPolicy, Forks};
use crate::{clock, entropy, limits, mapping, relocation, scheduler, segments};

/// Linux, for one heap in private memory.
#[derive(Debug)]
pub struct PrivatePlatform {
    facts: Facts,
    /// Where the arena starts; 0: there is none.
    base: AtomicUsize,
    /// Its length.
    bytes: AtomicUsize,
    /// Bytes of the arena up to which memory can be used. The rest is set aside only: who locks all of a process's memory
    /// (`mlockall`), or limits it by what could be written to, must not meet address space that nobody uses.
    opened: AtomicUsize,
    /// The thread that opens more; 0: none.
    opener: AtomicU32,
    /// Whether a freeze took that lock, which `fork_done` gives back.
    is_frozen: AtomicBool,
    /// Bytes of the arena whose pages are small in any case.
    small_heap_bytes: usize,
    /// Bytes of the arena up to which huge pages were settled.
    advised: AtomicUsize,
    /// One byte a chunk of the arena: whether its pages are small for good. 0: there is no table.
    small: AtomicUsize,
    /// Bytes of address space that are the arena's, from its start on: all, or as many as it needed where they are scarce.
    reserved: AtomicUsize,
    /// The chunk that [`PrivatePlatform::collapse`] looks at next.
    pub(crate) next_chunk: AtomicUsize,
    forks: Forks,
}

/// What one huge page spans, and the grain of advice.
pub(crate) const CHUNK_BYTES: usize = 2 << 20;

/// The arena is opened by at least this much at a time: one system call for some 8,000 page faults.
const OPEN_BYTES: usize = 32 << 20;

/// Below this much, pages stay small unless the embedder says otherwise: a small heap must not take 2 MiB for its first object.
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
            write_barrier: false,
            private_until_shared: false,
            can_relocate: true,
            mapping_limit: None,
        };
        Self {
            facts,
            base: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            opened: AtomicUsize::new(0),
            opener: AtomicU32::new(0),
            is_frozen: AtomicBool::new(false),
            small_heap_bytes: SMALL_HEAP_BYTES,
            advised: AtomicUsize::new(SMALL_HEAP_BYTES),
            small: AtomicUsize::new(0),
            reserved: AtomicUsize::new(0),
            next_chunk: AtomicUsize::new(0),
            forks: Forks::new(ForkPolicy::Snapshot),
        }
    }

    /// The same with another [`ForkPolicy`].
    #[must_use]
    pub const fn with_fork_policy(mut self, policy: ForkPolicy) -> Self {
        self.forks = Forks::new(policy);
        self
    }

    /// The same with small pages for the arena's first `bytes` bytes, and huge ones beyond where the system has them: a huge page
    /// that is not filled is waste, and small ones take four times as long to come.
    #[must_use]
    pub fn with_small_pages_up_to(mut self, bytes: usize) -> Self {
        self.small_heap_bytes = bytes.next_multiple_of(CHUNK_BYTES);
        self
    }
}

impl PrivatePlatform {
    /// Makes the arena's first `end` bytes usable. By new mappings, not by changed protection: sandboxes that are entered late
    /// may allow no more than that.
    fn open_up_to(&self, end: usize) -> Result<(), PlatformError> {
        // Acquire: pairs with the Release below, after which the pages can be used.
        if end <= self.opened.load(Ordering::Acquire) {
            return Ok(());
        }
        self.lock_opening();
        let outcome = self.open_locked(end);
        self.unlock_opening();
        outcome.map_err(|errno| errno.during(Operation::Commit))
    }

    /// The same, under the lock: a second mapping would take the first one's content away.
    fn open_locked(&self, end: usize) -> Result<(), Errno> {
        // Relaxed: written under the lock; the base, see `reserve`.
        let opened = self.opened.load(Ordering::Relaxed);
        let (base, bytes) = (self.base.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed));
        if end <= opened {
            return Ok(());
        }
        let open = |next: usize| {
            self.extend_to(base, next)?;
            // SAFETY: the addresses are the arena's, and nobody uses them yet.
            unsafe { self.map_new(base + opened, next - opened) }?;
            // Release: pairs with the Acquire in `open_up_to`.
            self.opened.store(next, Ordering::Release);
            Ok(())
        };
        // Where that much is not to be had, what is needed may be.
        open(end.next_multiple_of(OPEN_BYTES).min(bytes)).or_else(|_| open(end))
    }

    /// Under the lock: address space for the arena's first `end` bytes, where it did not get all at once.
    fn extend_to(&self, base: usize, end: usize) -> Result<(), Errno> {
        // Relaxed: written under the lock, or before there was an arena.
        let reserved = self.reserved.load(Ordering::Relaxed);
        if end > reserved {
            mapping::reserve_here(base + reserved, end - reserved)?;
            // SAFETY: these are the arena's now. What is refused here is asked for again when they are used.
            let _ = unsafe { self.forks.leave_out(base + reserved, end - reserved) };
            self.reserved.store(end, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Addresses of the arena show zeros.
    ///
    /// # Safety
    /// Nothing may need what they show.
    unsafe fn map_new(&self, at: usize, bytes: usize) -> Result<(), Errno> {
        // SAFETY: by the caller's contract.
        unsafe { mapping::map_private(at, bytes) }?;
        // SAFETY: the addresses are the arena's.
        unsafe { self.forks.leave_out(at, bytes) }
    }

    /// The same, in small pages.
    ///
    /// # Safety
    /// As for [`PrivatePlatform::map_new`].
    pub(crate) unsafe fn map_new_small(&self, at: usize, bytes: usize) -> Result<(), Errno> {
        // SAFETY: by the caller's contract.
        unsafe { mapping::map_private_small(at, bytes) }?;
        let offset = at - self.base();
        for chunk in offset / CHUNK_BYTES..(offset + bytes).div_ceil(CHUNK_BYTES) {
            if let Some(is_small) = self.small_mark(chunk) {
                // Relaxed: see `make_small`.
                is_small.store(true, Ordering::Relaxed);
            }
        }
        // A refusal leaves zeros in children, which may touch none of them.
        // SAFETY: the addresses are the arena's.
        let _ = unsafe { self.forks.leave_out(at, bytes) };
        Ok(())
    }

    /// Address space for an arena: all of it, or where that is limited a first segment.
    fn reserve_arena(&self, bytes: usize, align: usize) -> Result<(NonNull<u8>, usize), Errno> {
        if !limits::address_space_is_limited() {
            return mapping::reserve(bytes, align, self.facts.page_size).map(|base| (base, bytes));
        }
        let first = bytes.min(OPEN_BYTES);
        segments::begin(first, bytes, align, self.facts.page_size).map(|base| (base, first))
    }

    /// What a fork does with the arena.
    pub(crate) const fn forks(&self) -> &Forks {
        &self.forks
    }

    /// Bytes of a page.
    pub(crate) const fn page_size(&self) -> usize {
        self.facts.page_size
    }

    /// Whether a chunk's pages are small for good.
    pub(crate) fn is_small(&self, chunk: usize) -> bool {
        // Relaxed: see `make_small`.
        self.small_mark(chunk).is_some_and(|is_small| is_small.load(Ordering::Relaxed))
    }

    /// Where that is noted, if there is a table.
    fn small_mark(&self, chunk: usize) -> Option<&AtomicBool> {
        // Relaxed: see `reserve`.
        let small = self.small.load(Ordering::Relaxed);
        // SAFETY: the table has a byte for each chunk of the arena, and lives as long as it.
        (small != 0).then(|| unsafe { AtomicBool::from_ptr(ptr::with_exposed_provenance_mut(small + chunk)) })
    }

    /// Where the arena starts.
    pub(crate) fn base(&self) -> usize {
        // Relaxed: see `reserve`.
        self.base.load(Ordering::Relaxed)
    }

    /// Bytes of the arena.
    pub(crate) fn length(&self) -> usize {
        // Relaxed: see `reserve`.
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the arena that were ever used, at the most.
    pub(crate) fn opened(&self) -> usize {
        // Acquire: as in `open_up_to`.
        self.opened.load(Ordering::Acquire)
    }

    /// Makes the pages of all chunks small of which `pages` are a part: memory that is given back out of a huge page would stay
    /// the process's until the system runs out of it, and the kernel might even fill the gaps again. Takes a tenth of a millisecond a
    /// chunk, once, and up to two mappings.
    pub(crate) fn make_small(&self, pages: PageRun) {
        let (from, to) = (pages.start.as_usize() * self.facts.page_size, pages.end().as_usize() * self.facts.page_size);
        for chunk in from / CHUNK_BYTES..to.div_ceil(CHUNK_BYTES) {
            let (start, end) = (chunk * CHUNK_BYTES, ((chunk + 1) * CHUNK_BYTES).min(self.opened()));
            let is_whole = from <= start && end <= to;
            let Some(is_small) = self.small_mark(chunk).filter(|_| !is_whole) else { continue };
            // Relaxed: a race makes it small twice.
            if is_small.load(Ordering::Relaxed) {
                continue;
            }
            is_small.store(true, Ordering::Relaxed);
            // SAFETY: the chunk lies in the part of the arena that can be used.
            unsafe { mapping::advise_small(self.base() + start, end - start) };
            let page = from.max(start);
            // SAFETY: as above.
            unsafe { mapping::split_huge(self.base() + page, self.facts.page_size) };
        }
    }

    /// Gives the memory of private pages back: they read zero.
    ///
    /// # Safety
    /// As for [`Platform::purge`].
    pub(crate) unsafe fn discard(&self, pages: PageRun) -> Result<(), Errno> {
        self.forks.check()?;
        self.make_small(pages);
        let start = self.base() + pages.start.as_usize() * self.facts.page_size;
        // SAFETY: by the caller's contract nothing needs the pages, which are the arena's.
        unsafe { mapping::discard(start, pages.count as usize * self.facts.page_size) }
    }

    /// Takes the lock of [`PrivatePlatform::open_up_to`], a leaf; a fork takes it, too, so that no child finds it held by a
    /// thread that is gone.
    fn lock_opening(&self) {
        let thread = scheduler::thread_number();
        // Acquire: pairs with the Release of the last holder.
        while self.opener.compare_exchange(0, thread, Ordering::Acquire, Ordering::Relaxed).is_err() {
            scheduler::yield_now();
        }
    }

    /// Gives it back.
    fn unlock_opening(&self) {
        // Release: pairs with the Acquire of the next holder.
        self.opener.store(0, Ordering::Release);
    }
}

/// Bytes of the table of an arena's chunks.
const fn table_bytes(arena_bytes: usize, page_size: usize) -> usize {
    arena_bytes.div_ceil(CHUNK_BYTES).next_multiple_of(page_size)
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
        let failed = |errno: Errno| errno.during(Operation::Reserve);
        if purpose == Purpose::Metadata {
            return mapping::map_metadata_at_new(bytes, align, self.facts.page_size).map_err(failed);
        }
        let (base, reserved) = self.reserve_arena(bytes, align).map_err(failed)?;
        // Relaxed: whoever asks for a page of the arena got it after this call.
        let is_first = self.base.compare_exchange(0, base.addr().get(), Ordering::Relaxed, Ordering::Relaxed).is_ok();
        // If there is an arena, page numbers count from its base.
        let begun = if is_first { self.forks.begin(self.facts.page_size) } else { Err(Errno(libc::EBUSY)) };
        // SAFETY: the addresses were reserved just now.
        let begun = begun.and_then(|()| unsafe { self.forks.leave_out(base.addr().get(), reserved) });
        if let Err(refused) = begun {
            if is_first {
                self.forks.end(self.facts.page_size);
                self.base.store(0, Ordering::Relaxed);
            }
            // SAFETY: nobody knows of the addresses yet.
            unsafe { mapping::unmap(base, reserved) };
            return Err(failed(refused));
        }
        self.reserved.store(reserved, Ordering::Relaxed);
        self.next_chunk.store(0, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        self.opened.store(0, Ordering::Relaxed);
        self.advised.store(self.small_heap_bytes, Ordering::Relaxed);
        // Without the table purges give less back.
        let table = mapping::map_metadata_at_new(
            table_bytes(bytes, self.facts.page_size),
            self.facts.page_size,
            self.facts.page_size,
        );
        self.small.store(table.map_or(0, |table| table.as_ptr().expose_provenance()), Ordering::Relaxed);
        Ok(base)
    }

    unsafe fn release(&self, purpose: Purpose, base: NonNull<u8>, bytes: usize) {
        if purpose == Purpose::Arena {
            // Relaxed: by the caller's contract no other call uses the arena any more.
            let small = self.small.swap(0, Ordering::Relaxed);
            if let Some(table) = NonNull::new(ptr::with_exposed_provenance_mut(small)) {
                // SAFETY: `reserve` mapped it for this arena.
                unsafe { mapping::unmap(table, table_bytes(bytes, self.facts.page_size)) };
            }
            self.base.store(0, Ordering::Relaxed);
            if self.forks.has_addresses() {
                // Behind the last segment may lie what is others'.
                // SAFETY: the addresses are the arena's, which nothing uses any more.
                unsafe { mapping::unmap(base, self.reserved.load(Ordering::Relaxed)) };
            }
            self.forks.end(self.facts.page_size);
            return;
        }
        // SAFETY: by the caller's contract this is a reservation that nothing uses any more.
        unsafe { mapping::unmap(base, bytes) };
    }

    /// A heap that grows fills its chunks one after another, so a huge page at its end is full soon: a quarter of the cost of
    /// 512 faults. Where the system gives none, nothing is lost.
    unsafe fn commit(&self, pages: PageRun, touch: Touch) -> Result<(), PlatformError> {
        let end = pages.end().as_usize() * self.facts.page_size;
        self.forks.check().map_err(|errno| errno.during(Operation::Commit))?;
        self.open_up_to(end)?;
        // Relaxed: a race advises a chunk twice, or leaves one to small pages.
        let advised = self.advised.load(Ordering::Relaxed);
        if touch == Touch::Sparse {
            // A huge page would take memory that nobody touches.
            self.advised.fetch_max(end, Ordering::Relaxed);
        } else if end > advised {
            let next = end.next_multiple_of(CHUNK_BYTES).min(self.opened());
            self.advised.store(next, Ordering::Relaxed);
            let base = self.base.load(Ordering::Relaxed);
            // SAFETY: the chunk lies in the arena; advice changes no content.
            unsafe { mapping::advise_huge(base + advised, next - advised) };
        }
        Ok(())
    }

    unsafe fn purge(&self, pages: PageRun) -> Result<(), PlatformError> {
        // SAFETY: the caller keeps the same contract.
        unsafe { self.discard(pages) }.map_err(|errno| errno.during(Operation::Purge))
    }

    unsafe fn relocate(&self, from: PageRun, to: PageIndex) -> Result<(), PlatformError> {
        // Relaxed: see `reserve`.
        let base = self.base.load(Ordering::Relaxed);
        let address = |page: PageIndex| base + page.as_usize() * self.facts.page_size;
        let bytes = from.count as usize * self.facts.page_size;
        let moved = self.forks.check().and_then(|()| {
            // SAFETY: both ranges are the arena's; by the caller's contract nobody uses them.
            unsafe { relocation::relocate(address(from.start), address(to), bytes) }.inspect_err(|_| {
                // A gap may have been filled.
                // SAFETY: the addresses are the arena's.
                let _ = unsafe { self.forks.leave_out(address(to), bytes) };
            })
        });
        moved.map_err(|errno| errno.during(Operation::Relocate))
    }

    /// Private memory is copied on write, or left out. What is left to do is that no child finds the lock held by a thread that
    /// is gone.
    fn freeze(&self) -> Result<(), PlatformError> {
        // A signal handler that forks may have interrupted the holder.
        // Relaxed: only the thread that wrote its own number can meet it.
        if self.opener.load(Ordering::Relaxed) == scheduler::thread_number() {
            return Err(Errno(libc::EDEADLK).during(Operation::Freeze));
        }
        self.lock_opening();
        // Relaxed: read by this thread, or by the one that it continues in the child.
        self.is_frozen.store(true, Ordering::Relaxed);
        if self.forks.policy() == ForkPolicy::Share {
            return Err(Errno(libc::EOPNOTSUPP).during(Operation::Freeze));
        }
        Ok(())
    }

    unsafe fn fork_done(&self) {
        // Relaxed: see `freeze`.
        if self.is_frozen.swap(false, Ordering::Relaxed) {
            self.unlock_opening();
        }
        self.forks.fence(self.base(), self.reserved.load(Ordering::Relaxed));
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
