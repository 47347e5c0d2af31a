//! What the heap asks of the system: one small trait in pages, with [`Facts`] in place of assumptions.
//!
//! # States of a page of the arena
//!
//! ```text
//!                 reserve                      alias
//!   Unreserved ───────────▶ Own (reads zero) ─────────▶ Alias (shows another page's memory)
//!       ▲      ◀───────────  │  ▲  ▲        ◀─────────
//!       └─────── release ────┘  │  │          unalias
//!                        write ▼  │ purge
//!                         Own (holds data)
//! ```
//!
//! Each arena page has an address and a *backing* page of the same index. A page in state Own shows its own backing page;
//! an alias shows the backing page of another. `purge` acts on backing pages, by index, wherever they are shown.

#[cfg(feature = "simulated")]
pub(crate) mod failing;
#[cfg(feature = "simulated")]
pub(crate) mod simulated;

use core::ptr::NonNull;

use crate::base::error::{Operation, PlatformError};
use crate::base::sync::Relax;
use crate::base::units::{PageIndex, PageRun};

/// What a platform can do and how it counts. Constant for the life of the platform value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Bytes of a page: a power of two from 4 KiB to 64 KiB.
    pub page_size: usize,
    /// Reserved memory costs nothing until it is touched. Without it the whole reservation is held from the start, so the
    /// embedder should choose a small arena.
    pub lazy_commit: bool,
    /// [`Platform::purge`] works. Without it free pages stay with the heap.
    pub can_purge: bool,
    /// [`Platform::alias`] and [`Platform::unalias`] work. Without them the heap works and does not mesh.
    pub can_alias: bool,
    /// [`Platform::protect`] works.
    pub can_protect: bool,
    /// Threads that write to read-only pages wait until these are writable again, and their writes then go to what the
    /// addresses show by then: [`crate::Heap::mesh`] may run beside them. Implies `can_protect`.
    pub write_barrier: bool,
    /// Pages are the process's own until [`Platform::share`] makes them fit to be shown elsewhere, and again after
    /// [`Platform::unalias`]; a fork copies them. Shared pages among private ones take mappings, as aliases do.
    pub private_until_shared: bool,
    /// [`Platform::relocate`] works. Without it large objects that cannot grow where they are are copied.
    pub can_relocate: bool,
    /// How many mappings the process may have, where there is such a limit.
    pub mapping_limit: Option<usize>,
}

/// What a reservation is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// The arena: the pages of all objects. At most one live reservation of a platform value is an arena; page indices
    /// of the other verbs count from its base.
    Arena,
    /// The heap's own tables. Never aliased, and given back only by `release`.
    Metadata,
}

/// What is known of how pages will be used, when they are committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Touch {
    /// Most of them soon: larger pages of the system pay.
    Dense,
    /// Perhaps only a few, as of a large zeroed array: no more memory should be taken than is touched.
    Sparse,
}

/// Whether threads may write to pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reads and writes.
    ReadWrite,
    /// Reads only; what happens to a write is the platform's write barrier.
    ReadOnly,
}

/// The system under one heap.
///
/// A platform value belongs to one heap: pass `&platform` to look at it meanwhile. Every method may be called from any
/// thread at any time, also at once with others. **A call that fails changes nothing.** No method may allocate from the
/// heap that it serves, or call it in any other way.
///
/// About 60 lines make a platform: see the example `custom_platform`. The defaults are those of a fixed region of memory
/// that can neither alias nor purge.
///
/// # Safety
/// An implementor promises that
/// * `reserve` gives zeroed, readable and writable memory that nothing else uses until `release`, aligned as asked;
/// * each verb moves exactly the given pages between the states of the module's picture, or fails and changes nothing;
/// * `alias` and `unalias` replace what an address shows in one step: a reader sees the old page or the new one;
/// * `facts` tells the truth and never changes.
pub unsafe trait Platform: Send + Sync {
    /// What this platform can do.
    fn facts(&self) -> Facts;

    /// Unreserved -> Own, reading zero: `bytes` bytes (a multiple of the page size) at a multiple of `align` (a power of two,
    /// at least the page size).
    ///
    /// # Errors
    /// The platform's own code, with [`Operation::Reserve`]. The heap then tries a smaller arena.
    fn reserve(&self, purpose: Purpose, bytes: usize, align: usize) -> Result<NonNull<u8>, PlatformError>;

    /// Any state -> Unreserved. Cannot fail: it runs when a heap is dropped.
    ///
    /// # Safety
    /// `base` and `bytes` must be those of a live reservation for `purpose`, whose memory is not used any more.
    unsafe fn release(&self, purpose: Purpose, base: NonNull<u8>, bytes: usize);

    /// Makes pages of the arena ready to be written: called before pages are used for the first time since `reserve` or
    /// `purge`, with a hint of how. Only platforms that count what they lend, or that need a call for it, have something to do here; `purge`
    /// takes the commitment back. It is called whatever [`Facts::lazy_commit`] says, and pages may be committed already.
    ///
    /// # Errors
    /// The platform's own code, with [`Operation::Commit`]: the pages are not used.
    ///
    /// # Safety
    /// The pages must lie in the arena and be in state Own.
    unsafe fn commit(&self, pages: PageRun, touch: Touch) -> Result<(), PlatformError> {
        let _ = (pages, touch);
        Ok(())
    }

    /// Gives the physical memory of backing pages back; they read as zero from now on.
    ///
    /// # Errors
    /// The platform's own code, with [`Operation::Purge`]: the pages hold what they held.
    ///
    /// # Safety
    /// The pages must lie in the arena and hold nothing that is needed, at whatever address it is shown (I6).
    unsafe fn purge(&self, pages: PageRun) -> Result<(), PlatformError> {
        let _ = pages;
        Err(PlatformError { operation: Operation::Purge, code: 0 })
    }

    /// Own or Alias -> Alias: the addresses of `pages` show the backing pages from `target` on, readable and writable. One
    /// call, one mapping. The target's pages are in state Own, shared where that makes a difference, and the runs do not overlap.
    ///
    /// # Errors
    /// The platform's own code, with [`Operation::Alias`]: the addresses show what they showed.
    ///
    /// # Safety
    /// Both runs must lie in the arena. No live object may change its bytes by it: the caller copied them (I5).
    unsafe fn alias(&self, pages: PageRun, target: PageIndex) -> Result<(), PlatformError> {
        let _ = (pages, target);
        Err(PlatformError { operation: Operation::Alias, code: 0 })
    }

    /// Alias -> Own: the addresses of `pages` show their own backing pages again, readable and writable, with what these
    /// hold: zero if they were purged meanwhile. Where pages are [private until shared](Facts::private_until_shared), they are
    /// private again, read zero, and may have been shared rather than aliases.
    ///
    /// # Errors
    /// The platform's own code, with [`Operation::Unalias`]: the addresses show what they showed.
    ///
    /// # Safety
    /// The pages must be aliases, or shared, and hold no live objects.
    unsafe fn unalias(&self, pages: PageRun) -> Result<(), PlatformError> {
        let _ = pages;
        Err(PlatformError { operation: Operation::Unalias, code: 0 })
    }

    /// Allows or forbids writes to the addresses of `pages`: the hook for write barriers. Once a call that forbids them
    /// returns, none is under way any more. `alias` allows them again, in the same step in which it replaces what the
    /// addresses show.
    ///
    /// With [`Facts::write_barrier`] the heap forbids writes to one run at a time, and takes no lock and touches no object
    /// but to copy it until the same thread has allowed them again, or aliased the run.
    ///
    /// # Errors
    /// The platform's own code, with [`Operation::Protect`]: access is as it was. If writes cannot be allowed again, the heap
    /// goes on without: the platform should rather try until they can, for as long as there is hope.
    ///
    /// # Safety
    /// The pages must lie in the arena; whoever forbids writes must handle the writers that run into it.
    unsafe fn protect(&self, pages: PageRun, access: Access) -> Result<(), PlatformError> {
        let _ = (pages, access);
        Err(PlatformError { operation: Operation::Protect, code: 0 })
    }

    /// Moves what the pages of `from` hold to the pages from `to` on, without a copy. Afterwards `from` reads as zero and holds
    /// no memory; what `to` held is gone.
    ///
    /// # Errors
    /// The platform's own code, with [`Operation::Relocate`]: `from` holds what it held; `to` may hold anything.
    ///
    /// # Safety
    /// Both runs must lie in the arena in state Own, be committed and not overlap. Nobody may use either meanwhile, and nothing
    /// may need what `to` holds.
    unsafe fn relocate(&self, from: PageRun, to: PageIndex) -> Result<(), PlatformError> {
        let _ = (from, to);
        Err(PlatformError { operation: Operation::Relocate, code: 0 })
    }

    /// Whether the addresses of `pages` show memory of this process's own, which [`Platform::alias`] cannot show elsewhere until
    /// [`Platform::share`] was called. Only where pages are [private until shared](Facts::private_until_shared): all are at first,
    /// and aliases, too, after [`Platform::freeze`].
    fn is_private(&self, pages: PageRun) -> bool {
        let _ = pages;
        false
    }

    /// Own -> Own, or an alias after `freeze` -> Own: the addresses of `pages` show their own backing pages, readable and writable,
    /// which [`Platform::alias`] can now show elsewhere. No byte changes. One mapping, apart from its neighbours.
    ///
    /// Under a write barrier the pages may be read-only when it is called, and can be written again in the same step in which
    /// their memory changes.
    ///
    /// # Errors
    /// The platform's own code, with [`Operation::Share`]: everything is as it was.
    ///
    /// # Safety
    /// The pages must lie in the arena and be in use; no thread writes to them meanwhile but through the write barrier.
    unsafe fn share(&self, pages: PageRun) -> Result<(), PlatformError> {
        let _ = pages;
        Err(PlatformError { operation: Operation::Share, code: 0 })
    }

    /// Just before a fork, until [`Platform::fork_done`]: makes all shared pages private, so that parent and child each go on with
    /// what their addresses show now, and keeps the platform's own state at rest. Addresses that showed one page each get the
    /// content for themselves, at the first write. Threads may read and write all the while.
    ///
    /// # Errors
    /// The platform's own code, with [`Operation::Freeze`]: some pages stay shared, so the child must not use the arena. Call
    /// `fork_done` all the same.
    fn freeze(&self) -> Result<(), PlatformError> {
        Ok(())
    }

    /// Just after a fork, in the parent and in the child.
    ///
    /// # Safety
    /// [`Platform::freeze`] must have been called by this thread, or by the one that it continues in the child, and this be the
    /// first call since then.
    unsafe fn fork_done(&self) {}

    /// Nanoseconds of a clock that never goes back. A platform without a clock returns 0: steps are then bounded by
    /// pages and mappings only.
    fn now_ns(&self) -> u64 {
        0
    }

    /// A random number to seed placement with. A platform without a source returns a constant.
    fn entropy(&self) -> u64 {
        0x5eed
    }

    /// Lets another thread run: called while a lock is waited for.
    fn yield_now(&self) {
        core::hint::spin_loop();
    }
}

impl<P: Platform> Relax for P {
    fn relax(&self) {
        self.yield_now();
    }
}

/// Writes each method of [`Platform`] as a call of the same method of `**self`.
macro_rules! forward_platform {
    () => {
        fn facts(&self) -> Facts {
            (**self).facts()
        }
        fn reserve(&self, purpose: Purpose, bytes: usize, align: usize) -> Result<NonNull<u8>, PlatformError> {
            (**self).reserve(purpose, bytes, align)
        }
        unsafe fn release(&self, purpose: Purpose, base: NonNull<u8>, bytes: usize) {
            // SAFETY: the caller keeps the same contract.
            unsafe { (**self).release(purpose, base, bytes) }
        }
        unsafe fn commit(&self, pages: PageRun, touch: Touch) -> Result<(), PlatformError> {
            // SAFETY: the caller keeps the same contract.
            unsafe { (**self).commit(pages, touch) }
        }
        unsafe fn purge(&self, pages: PageRun) -> Result<(), PlatformError> {
            // SAFETY: the caller keeps the same contract.
            unsafe { (**self).purge(pages) }
        }
        unsafe fn alias(&self, pages: PageRun, target: PageIndex) -> Result<(), PlatformError> {
            // SAFETY: the caller keeps the same contract.
            unsafe { (**self).alias(pages, target) }
        }
        unsafe fn unalias(&self, pages: PageRun) -> Result<(), PlatformError> {
            // SAFETY: the caller keeps the same contract.
            unsafe { (**self).unalias(pages) }
        }
        unsafe fn protect(&self, pages: PageRun, access: Access) -> Result<(), PlatformError> {
            // SAFETY: the caller keeps the same contract.
            unsafe { (**self).protect(pages, access) }
        }
        unsafe fn relocate(&self, from: PageRun, to: PageIndex) -> Result<(), PlatformError> {
            // SAFETY: the caller keeps the same contract.
            unsafe { (**self).relocate(from, to) }
        }
        fn is_private(&self, pages: PageRun) -> bool {
            (**self).is_private(pages)
        }
        unsafe fn share(&self, pages: PageRun) -> Result<(), PlatformError> {
            // SAFETY: the caller keeps the same contract.
            unsafe { (**self).share(pages) }
        }
        fn freeze(&self) -> Result<(), PlatformError> {
            (**self).freeze()
        }
        unsafe fn fork_done(&self) {
            // SAFETY: the caller keeps the same contract.
            unsafe { (**self).fork_done() }
        }
        fn now_ns(&self) -> u64 {
            (**self).now_ns()
        }
        fn entropy(&self) -> u64 {
            (**self).entropy()
        }
        fn yield_now(&self) {
            (**self).yield_now();
        }
    };
}

// SAFETY: every method is the referent's own.
unsafe impl<P: Platform> Platform for &P {
    forward_platform!();
}
