//! An arena: shared memory, and two views of it.
//!
//! ```text
//!   base    ───┬──────┬──────┬──────┬──────┐   what the heap uses
//!              │  0   │  1   │  2   │  3   │   page 2 is an alias of page 0:
//!              └──┬───┴──┬───┴──┬───┴──┬───┘   mremap(source + 0, 0, .., base + 2 pages)
//!   memory     ┌──▼───┬──▼──◀───┘  ┌───▼──┐
//!              │  0   │  1   │ (2) │  3   │   backing page 2: not shown there; purge reaches it by the source
//!              └──▲───┴──▲───┴──▲──┴───▲──┘
//!              ┌──┴───┬──┴───┬──┴───┬──┴───┐
//!   source  ───┤  0   │  1   │  2   │  3   │   always shows every page as its own, and is never touched: it costs
//!              └──────┴──────┴──────┴──────┘   address space and one mapping, no memory and no page tables
//! ```
//!
//! The source stands for the memory as a descriptor would, but no other part of the program can close it.

use core::ptr::NonNull;

use meshheap::{Access, PageIndex, PageRun};

use crate::backing::Refusal;
use crate::barrier::{Barrier, WriteBarrier};
use crate::descriptor::Descriptor;
use crate::errno::Errno;
use crate::fork_policy::Forks;
use crate::mapping;

/// A live reservation. Dropping it gives all of it back.
#[derive(Debug)]
pub(crate) struct Arena {
    /// Lets writers wait for pages that are read-only. First, as another arena may get the addresses next.
    barrier: Option<Barrier>,
    /// What the heap uses, whatever it shows.
    base: View,
    /// Shows each page's own backing page. Never touched.
    source: View,
    page_size: usize,
}

/// Addresses of an arena's whole length.
#[derive(Debug)]
struct View {
    start: NonNull<u8>,
    bytes: usize,
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: by the contract of `release` nothing uses the addresses any more.
        unsafe { mapping::unmap(self.start, self.bytes) };
    }
}

// SAFETY: a view owns the addresses that `start` points to, from whatever thread; it never reads or writes there.
unsafe impl Send for View {}

// SAFETY: nothing of a view changes while it is shared; the kernel orders calls for the same addresses.
unsafe impl Sync for View {}

impl Arena {
    /// Every page shows its own backing page, which reads zero: the file's, or without one anonymous memory.
    pub(crate) fn reserve(
        file: Option<&Descriptor>,
        bytes: usize,
        align: usize,
        page_size: usize,
    ) -> Result<Self, Refusal> {
        let start = mapping::reserve(bytes, align, page_size).map_err(|errno| errno.by("mmap"))?;
        let base = View { start, bytes };
        // SAFETY: the addresses were reserved just now.
        unsafe { mapping::map_shared(start, bytes, file) }.map_err(|errno| errno.by("mmap"))?;
        // SAFETY: as above.
        let start = unsafe { mapping::show_at_new(start, bytes) }.map_err(|errno| errno.by("mremap"))?;
        Ok(Self { barrier: None, base, source: View { start, bytes }, page_size })
    }

    /// The same, behind a write barrier of this kind.
    pub(crate) fn behind_barrier(mut self, kind: WriteBarrier) -> Result<Self, Errno> {
        self.barrier = Barrier::new(kind, self.base.start.addr().get(), self.base.bytes)?;
        Ok(self)
    }

    /// The same, as this policy has it.
    pub(crate) fn under(self, forks: &Forks) -> Result<Self, Errno> {
        for view in [&self.base, &self.source] {
            // What is shown from the source is left out like it.
            // SAFETY: the addresses are the arena's.
            unsafe { forks.leave_out(view.start.addr().get(), view.bytes) }?;
        }
        Ok(self)
    }

    /// Ends an arena whose addresses a fork has left out: there is nothing to give back here.
    pub(crate) fn leave(self) {
        let Self { barrier, base, source, .. } = self;
        core::mem::forget((base, source));
        drop(barrier);
    }

    pub(crate) const fn base(&self) -> NonNull<u8> {
        self.base.start
    }

    /// Where it starts and how long it is.
    pub(crate) fn addresses_of_base(&self) -> (usize, usize) {
        (self.base.start.addr().get(), self.base.bytes)
    }

    pub(crate) fn is(&self, base: NonNull<u8>, bytes: usize) -> bool {
        (self.base.start, self.base.bytes) == (base, bytes)
    }

    /// The addresses of `pages` show the backing pages from `target` on: their own, if that is where they start.
    ///
    /// # Safety
    /// Nothing may need what the addresses show only there.
    pub(crate) unsafe fn show(&self, pages: PageRun, target: PageIndex) -> Result<(), Errno> {
        let (at, bytes) = self.addresses(&self.base, pages)?;
        let (from, _) = self.addresses(&self.source, PageRun { start: target, count: pages.count })?;
        // SAFETY: the addresses are the arena's, of two views; the rest is the caller's contract.
        unsafe { mapping::show_at(from, bytes, at) }?;
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
        let (at, bytes) = self.addresses(&self.source, pages)?;
        // SAFETY: the addresses are the arena's; the rest is the caller's contract.
        unsafe { mapping::remove(at, bytes) }
    }

    /// Allows or forbids writes to the addresses of `pages`. With a barrier, one run at a time can be read-only, and the
    /// thread that made it so makes it writable.
    ///
    /// # Safety
    /// The caller handles writers that run into them, or the barrier does.
    pub(crate) unsafe fn protect(&self, pages: PageRun, access: Access) -> Result<(), Errno> {
        let (at, bytes) = self.addresses(&self.base, pages)?;
        match &self.barrier {
            // SAFETY: the addresses are the arena's.
            Some(barrier) => unsafe { barrier.protect(at, bytes, access) },
            // SAFETY: the addresses are the arena's; the rest is the caller's contract.
            None => unsafe { mapping::protect(at, bytes, access) },
        }
    }

    /// Where a view shows a run, if that were its own. A run beyond the arena is a broken contract; it is refused in release
    /// builds too, since a mapping there would replace memory of others, and the check costs nothing beside a system call.
    fn addresses(&self, view: &View, pages: PageRun) -> Result<(NonNull<u8>, usize), Errno> {
        let last = u64::from(pages.start.get()) + u64::from(pages.count);
        let inside = pages.count > 0 && last <= (view.bytes / self.page_size) as u64;
        debug_assert!(inside, "{pages:?} does not lie in the arena");
        if !inside {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: the run was found to lie in the arena.
        let start = unsafe { view.start.add(pages.start.as_usize() * self.page_size) };
        Ok((start, pages.count as usize * self.page_size))
    }
}
