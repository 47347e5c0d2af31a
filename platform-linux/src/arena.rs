//! An arena: a file in memory and the addresses that show it.
//!
//! ```text
//!   addresses  base ──┬──────┬──────┬──────┬──────┐
//!                     │  0   │  1   │  2   │  3   │   page 2 is an alias of page 0:
//!                     └──┬───┴──┬───┴──┬───┴──┬───┘   mmap(base + 2 pages, offset 0)
//!   file       0 ─────┬──▼───┬──▼──◀───┘  ┌───▼──┐
//!                     │  0   │  1   │ (2) │  3   │   backing page 2: shown by nobody, purge punches a hole
//!                     └──────┴──────┴─────┴──────┘
//! ```

use core::ptr::NonNull;

use meshheap::{Access, PageIndex, PageRun};

use crate::barrier::Barrier;
use crate::errno::Errno;
use crate::mapping;
use crate::memfd::MemFd;
use crate::scheduler;

/// Addresses and file of a live reservation. Dropping it gives both back.
#[derive(Debug)]
pub(crate) struct Arena {
    /// The backing pages.
    file: MemFd,
    /// `bytes` of address space are reserved from here on, whatever they show.
    base: NonNull<u8>,
    bytes: usize,
    page_size: usize,
    /// Lets writers wait for pages that are read-only.
    barrier: Option<Barrier>,
}

// SAFETY: the arena owns the addresses that `base` points to, from whatever thread; it never reads or writes there.
unsafe impl Send for Arena {}

// SAFETY: nothing of an arena changes while it is shared; the kernel orders calls for the same addresses.
unsafe impl Sync for Arena {}

impl Arena {
    /// Every page shows its own backing page, which reads zero.
    pub(crate) fn reserve(bytes: usize, align: usize, page_size: usize, write_barrier: bool) -> Result<Self, Errno> {
        let file = MemFd::create(bytes)?;
        let base = mapping::reserve(bytes, align, page_size)?;
        let mut arena = Self { file, base, bytes, page_size, barrier: None };
        // SAFETY: the addresses were reserved just now. If this fails, dropping the arena gives all of it back.
        unsafe { mapping::map_file(base, bytes, &arena.file, 0) }?;
        if write_barrier {
            arena.barrier = Some(Barrier::new(base.addr().get(), bytes)?);
        }
        Ok(arena)
    }

    pub(crate) const fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(crate) fn is(&self, base: NonNull<u8>, bytes: usize) -> bool {
        (self.base, self.bytes) == (base, bytes)
    }

    /// The addresses of `pages` show the backing pages from `target` on: their own, if that is where they start.
    ///
    /// # Safety
    /// Nothing may need what the addresses show only there.
    pub(crate) unsafe fn show(&self, pages: PageRun, target: PageIndex) -> Result<(), Errno> {
        let (at, bytes) = self.addresses(pages)?;
        let from = self.offset(PageRun { start: target, count: pages.count })?;
        // SAFETY: the addresses are the arena's; the rest is the caller's contract.
        unsafe { mapping::map_file(at, bytes, &self.file, from) }?;
        // The new mapping can be written.
        if let Some(barrier) = &self.barrier {
            barrier.lift_within(at.addr().get(), bytes);
        }
        Ok(())
    }

    /// Gives the memory of the backing pages back: they read zero.
    ///
    /// # Safety
    /// Nothing may need them, at whatever address they are shown.
    pub(crate) unsafe fn purge(&self, pages: PageRun) -> Result<(), Errno> {
        let from = self.offset(pages)?;
        // SAFETY: the caller keeps the same contract.
        unsafe { self.file.punch(from, pages.count as usize * self.page_size) }
    }

    /// Allows or forbids writes to the addresses of `pages`. With a barrier, one run at a time can be read-only, and the
    /// thread that made it so makes it writable.
    ///
    /// # Safety
    /// The caller handles writers that run into them, or the barrier does.
    pub(crate) unsafe fn protect(&self, pages: PageRun, access: Access) -> Result<(), Errno> {
        let (at, bytes) = self.addresses(pages)?;
        let Some(barrier) = &self.barrier else {
            // SAFETY: the addresses are the arena's; the rest is the caller's contract.
            return unsafe { mapping::protect(at, bytes, access) };
        };
        if access == Access::ReadOnly {
            barrier.raise(at.addr().get(), bytes)?;
        }
        // SAFETY: as above.
        let mut done = unsafe { mapping::protect(at, bytes, access) };
        while access == Access::ReadWrite && done == Err(Errno(libc::ENOMEM)) {
            // The kernel needs no mapping more for it, but perhaps memory to merge what it has. Writers wait meanwhile.
            scheduler::yield_now();
            // SAFETY: as above.
            done = unsafe { mapping::protect(at, bytes, access) };
        }
        if access == Access::ReadOnly && done.is_err() {
            // A run over several mappings may have come part of the way.
            // SAFETY: allows what was allowed before.
            let _ = unsafe { mapping::protect(at, bytes, Access::ReadWrite) };
        }
        // Where writes are refused for good, a fault tells the writers; waiting would be for ever.
        if access == Access::ReadWrite || done.is_err() {
            barrier.lift_within(at.addr().get(), bytes);
        }
        done
    }

    fn addresses(&self, pages: PageRun) -> Result<(NonNull<u8>, usize), Errno> {
        let offset = self.offset(pages)?;
        // SAFETY: the run was found to lie in the arena.
        Ok((unsafe { self.base.add(offset) }, pages.count as usize * self.page_size))
    }

    /// Where a run starts, in the file and from `base`. A run beyond the arena is a broken contract; it is refused in release
    /// builds too, since a mapping there would replace memory of others, and the check costs nothing beside a system call.
    fn offset(&self, pages: PageRun) -> Result<usize, Errno> {
        let last = u64::from(pages.start.get()) + u64::from(pages.count);
        let inside = pages.count > 0 && last <= (self.bytes / self.page_size) as u64;
        debug_assert!(inside, "{pages:?} does not lie in the arena");
        if inside { Ok(pages.start.as_usize() * self.page_size) } else { Err(Errno(libc::EINVAL)) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // First, as another arena may get the addresses next.
        self.barrier = None;
        // SAFETY: by the contract of `release` nothing uses the memory any more.
        unsafe { mapping::unmap(self.base, self.bytes) };
    }
}
