//! The barrier that is made of page protection and a handler of SIGSEGV.

use core::cell::UnsafeCell;
use core::ptr::NonNull;

use meshheap::Access;

use super::registry;
use super::signals::{self, Blocked};
use super::watch::Watch;
use crate::errno::Errno;
use crate::{mapping, scheduler};

/// The barrier of one arena.
#[derive(Debug)]
pub(crate) struct PageProtection {
    watch: &'static Watch,
    /// What signals the thread that raised the barrier had blocked before. That thread's alone.
    signals: UnsafeCell<Blocked>,
}

// SAFETY: `signals` is used only by the thread that holds the watch: see `raise` and `lift_within`.
unsafe impl Sync for PageProtection {}

impl PageProtection {
    /// For an arena of `bytes` bytes at `base`.
    pub(super) fn new(base: usize, bytes: usize) -> Result<Self, Errno> {
        let watch = registry::register(base, base + bytes)?;
        Ok(Self { watch, signals: UnsafeCell::new(Blocked::uninit()) })
    }

    /// Forbids or allows writes to addresses of the arena; writers that run into it wait meanwhile.
    ///
    /// # Safety
    /// The addresses must be the arena's.
    pub(super) unsafe fn protect(&self, at: NonNull<u8>, bytes: usize, access: Access) -> Result<(), Errno> {
        let start = at.addr().get();
        if access == Access::ReadOnly {
            self.raise(start, bytes)?;
        }
        // SAFETY: by the caller's contract; writers wait.
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
            self.lift_within(start, bytes);
        }
        done
    }

    /// Writers that fault at these addresses wait from now on, until the calling thread lifts the barrier. That thread
    /// handles no signals meanwhile.
    fn raise(&self, start: usize, bytes: usize) -> Result<(), Errno> {
        if !self.watch.hold() {
            return Err(Errno(libc::EBUSY));
        }
        let blocked = signals::block();
        // SAFETY: this thread holds the watch.
        unsafe { *self.signals.get() = blocked };
        self.watch.raise(start, start + bytes);
        Ok(())
    }

    /// Lets the waiting writers go on, if the calling thread raised the barrier for addresses within these, which can be
    /// written again.
    pub(super) fn lift_within(&self, start: usize, bytes: usize) {
        if !self.watch.is_raised_within(start, start + bytes) {
            return;
        }
        // SAFETY: this thread raised the barrier, so it holds the watch and has written this.
        let blocked = unsafe { *self.signals.get() };
        self.watch.lift();
        signals::restore(&blocked);
    }
}

impl Drop for PageProtection {
    fn drop(&mut self) {
        self.watch.release();
    }
}
