//! [`LinuxPlatform`]: the trait's methods as calls of the kernel's facilities.

use core::cell::UnsafeCell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, Ordering};

use meshheap::{Access, Facts, Operation, PageIndex, PageRun, Platform, PlatformError, Purpose};

use crate::arena::Arena;
use crate::errno::Errno;
use crate::{barrier, clock, entropy, limits, mapping, scheduler};

/// There is no arena. The cell is empty.
const FREE: u8 = 0;
/// One thread reserves or releases: the cell is that thread's.
const CHANGING: u8 = 1;
/// The cell holds the arena, and does not change.
const LIVE: u8 = 2;

/// Linux, for one heap.
///
/// ```
/// use meshheap::{PageIndex, PageRun, Platform, Purpose};
/// use meshheap_linux::LinuxPlatform;
///
/// let platform = LinuxPlatform::new();
/// let page = platform.facts().page_size;
/// let base = platform.reserve(Purpose::Arena, 4 * page, page)?;
/// // SAFETY: the first page of a reservation of four.
/// unsafe { base.write(7) };
/// // SAFETY: there are no objects in pages 2 and 3.
/// unsafe { platform.alias(PageRun::new(PageIndex::new(2), 2), PageIndex::new(0)) }?;
/// // SAFETY: page 2 lies in the reservation and shows page 0.
/// assert_eq!(unsafe { base.add(2 * page).read() }, 7);
/// // SAFETY: the reservation from above, not used any more.
/// unsafe { platform.release(Purpose::Arena, base, 4 * page) };
/// # Ok::<(), meshheap::PlatformError>(())
/// ```
#[derive(Debug)]
pub struct LinuxPlatform {
    facts: Facts,
    /// Whose `arena` is: FREE, CHANGING or LIVE.
    phase: AtomicU8,
    /// Written only while CHANGING, read only while LIVE.
    arena: UnsafeCell<Option<Arena>>,
}

// SAFETY: `arena` is written only by the thread that moved `phase` to CHANGING, and read only while LIVE; the caller's
// contract of `release` keeps it LIVE for as long as it is read.
unsafe impl Sync for LinuxPlatform {}

impl LinuxPlatform {
    /// Asks the system for its page size and its limit of mappings; takes nothing from it before `reserve`.
    #[must_use]
    pub fn new() -> Self {
        let facts = Facts {
            page_size: limits::page_bytes(),
            lazy_commit: true,
            can_purge: true,
            can_alias: true,
            can_protect: true,
            write_barrier: false,
            mapping_limit: limits::mappings(),
        };
        Self { facts, phase: AtomicU8::new(FREE), arena: UnsafeCell::new(None) }
    }

    /// The same with a write barrier, so that [`Heap::mesh`](meshheap::Heap::mesh) may run beside threads that write: it
    /// installs a handler for SIGSEGV in this process, for good. See [`barrier`] for what that asks of the program.
    ///
    /// The barrier is page protection. **A system call that writes to a page while it is being meshed (read, recv,
    /// getrandom, ..) fails with EFAULT or is cut short; nothing is lost but datagrams.** Devices and kernel threads that
    /// write to pages which they pinned before (`O_DIRECT`, registered buffers of io_uring, RDMA) are not stopped, and what
    /// they write is lost. Let them write to memory of another kind, or mesh at safepoints. Priority-inheriting futexes,
    /// which the kernel writes to, must not be objects of such a heap, nor may futexes that processes share.
    ///
    /// If the system refuses the handler, [`Facts::write_barrier`] says so, and the heap meshes at safepoints only.
    #[must_use]
    pub fn with_write_barrier() -> Self {
        let mut platform = Self::new();
        platform.facts.write_barrier = barrier::install();
        platform
    }

    /// FREE -> LIVE.
    fn reserve_arena(&self, bytes: usize, align: usize) -> Result<NonNull<u8>, Errno> {
        // Acquire: pairs with the Release of whoever freed the cell last.
        if self.phase.compare_exchange(FREE, CHANGING, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return Err(Errno(libc::EBUSY));
        }
        let reserved = Arena::reserve(bytes, align, self.facts.page_size, self.facts.write_barrier);
        let phase = if reserved.is_ok() { LIVE } else { FREE };
        let done = reserved.map(|arena| {
            let base = arena.base();
            // SAFETY: in the phase CHANGING, which this thread began, the cell is its own.
            unsafe { *self.arena.get() = Some(arena) };
            base
        });
        // Release: pairs with the Acquire of whoever finds the phase LIVE and reads the cell.
        self.phase.store(phase, Ordering::Release);
        done
    }

    /// LIVE -> FREE.
    ///
    /// # Safety
    /// As for `release`.
    unsafe fn release_arena(&self, base: NonNull<u8>, bytes: usize) {
        // Acquire: pairs with the Release of `reserve_arena`.
        let live = self.phase.compare_exchange(LIVE, CHANGING, Ordering::Acquire, Ordering::Relaxed).is_ok();
        debug_assert!(live, "there is no arena to release");
        if !live {
            return;
        }
        // SAFETY: in the phase CHANGING, which this thread began, the cell is its own.
        let arena = unsafe { (*self.arena.get()).take() };
        debug_assert!(arena.as_ref().is_some_and(|arena| arena.is(base, bytes)), "this is not the arena's reservation");
        drop(arena);
        // Release: pairs with the Acquire of the next `reserve_arena`.
        self.phase.store(FREE, Ordering::Release);
    }

    /// The live arena.
    ///
    /// # Safety
    /// It must not be released while the reference is used: every verb's contract says that its pages lie in it.
    unsafe fn arena(&self) -> Result<&Arena, Errno> {
        // Acquire: pairs with the Release of `reserve_arena`.
        let live = self.phase.load(Ordering::Acquire) == LIVE;
        debug_assert!(live, "there is no arena");
        // SAFETY: the cell does not change while LIVE, and by the caller's contract it stays so.
        let arena = if live { unsafe { &*self.arena.get() } } else { &None };
        arena.as_ref().ok_or(Errno(libc::EINVAL))
    }
}

impl Default for LinuxPlatform {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: fresh files and private mappings read zero; `mmap` and `fallocate` touch exactly the given pages, which are
// checked to lie in the arena, and change nothing when they fail: the kernel looks at its limits before it unmaps (up to
// Linux 6.11 it may leave a hole if it has no memory for the mapping's own record). A reader
// that faults while a mapping is replaced waits in the kernel and finds the new one.
unsafe impl Platform for LinuxPlatform {
    fn facts(&self) -> Facts {
        self.facts
    }

    fn reserve(&self, purpose: Purpose, bytes: usize, align: usize) -> Result<NonNull<u8>, PlatformError> {
        debug_assert!(bytes > 0 && bytes.is_multiple_of(self.facts.page_size) && align >= self.facts.page_size);
        let reserved = match purpose {
            Purpose::Arena => self.reserve_arena(bytes, align),
            Purpose::Metadata => mapping::map_metadata_at_new(bytes, align, self.facts.page_size),
        };
        reserved.map_err(|errno| errno.during(Operation::Reserve))
    }

    unsafe fn release(&self, purpose: Purpose, base: NonNull<u8>, bytes: usize) {
        match purpose {
            // SAFETY: the caller keeps the same contract.
            Purpose::Arena => unsafe { self.release_arena(base, bytes) },
            // SAFETY: by the caller's contract this is a reservation that nothing uses any more.
            Purpose::Metadata => unsafe { mapping::unmap(base, bytes) },
        }
    }

    unsafe fn purge(&self, pages: PageRun) -> Result<(), PlatformError> {
        // SAFETY: by the caller's contract the pages lie in the live arena.
        let done = unsafe { self.arena() }.and_then(|arena| {
            // SAFETY: by the caller's contract nothing needs the pages.
            unsafe { arena.purge(pages) }
        });
        done.map_err(|errno| errno.during(Operation::Purge))
    }

    unsafe fn alias(&self, pages: PageRun, target: PageIndex) -> Result<(), PlatformError> {
        // SAFETY: by the caller's contract the pages lie in the live arena.
        let done = unsafe { self.arena() }.and_then(|arena| {
            // SAFETY: by the caller's contract the objects were copied to the target.
            unsafe { arena.show(pages, target) }
        });
        done.map_err(|errno| errno.during(Operation::Alias))
    }

    unsafe fn unalias(&self, pages: PageRun) -> Result<(), PlatformError> {
        // SAFETY: by the caller's contract the pages lie in the live arena.
        let done = unsafe { self.arena() }.and_then(|arena| {
            // SAFETY: by the caller's contract the pages have no live objects.
            unsafe { arena.show(pages, pages.start) }
        });
        done.map_err(|errno| errno.during(Operation::Unalias))
    }

    unsafe fn protect(&self, pages: PageRun, access: Access) -> Result<(), PlatformError> {
        // SAFETY: by the caller's contract the pages lie in the live arena.
        let done = unsafe { self.arena() }.and_then(|arena| {
            // SAFETY: by the caller's contract writers are taken care of.
            unsafe { arena.protect(pages, access) }
        });
        done.map_err(|errno| errno.during(Operation::Protect))
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
