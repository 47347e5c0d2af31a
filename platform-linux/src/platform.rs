//! [`LinuxPlatform`]: the trait's methods as calls of the kernel's facilities.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicI32, Ordering};

use meshheap::{Access, Facts, Operation, PageIndex, PageRun, Platform, PlatformError, Purpose, Touch};

use crate::arena::Arena;
use crate::arena_cell::ArenaCell;
use crate::backing::{self, Backing, BackingChoice};
use crate::barrier::{BarrierChoice, WriteBarrier};
use crate::errno::Errno;
use crate::fork_policy::{ForkPolicy, Forks};
use crate::private::PrivatePlatform;
use crate::{clock, entropy, limits, mapping, scheduler};

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
    choice: BackingChoice,
    barrier: BarrierChoice,
    memory: Memory,
    /// Of shared memory.
    forks: Forks,
    /// Why the arena's file is not sealed: an error number, or 0.
    unsealed: AtomicI32,
}

/// Where the arena is.
#[derive(Debug)]
enum Memory {
    Shared(ArenaCell),
    Private(PrivatePlatform),
}

impl LinuxPlatform {
    /// On the first [`Backing`] that works, which is tried at once with two pages; [`LinuxPlatform::backing`] tells which. Takes
    /// nothing from the system that it would keep before `reserve`.
    ///
    /// Call it before a sandbox is entered that kills for `memfd_create`, or choose a backing yourself.
    #[must_use]
    pub fn new() -> Self {
        Self::on(BackingChoice::by_trying(limits::page_bytes()))
    }

    /// On this backing. If the system refuses it, `reserve` fails, and so does the making of a heap.
    #[must_use]
    pub fn with_backing(backing: Backing) -> Self {
        Self::on(BackingChoice::of(backing))
    }

    fn on(choice: BackingChoice) -> Self {
        if choice.backing == Backing::Private {
            let private = PrivatePlatform::new();
            let barrier = BarrierChoice::NONE;
            return Self::made(private.facts(), choice, barrier, Memory::Private(private));
        }
        let facts = Facts {
            page_size: limits::page_bytes(),
            lazy_commit: true,
            can_purge: true,
            can_alias: true,
            can_protect: true,
            write_barrier: false,
            private_until_shared: false,
            can_relocate: false,
            mapping_limit: Some(limits::mappings()),
        };
        Self::made(facts, choice, BarrierChoice::NONE, Memory::Shared(ArenaCell::new()))
    }

    const fn made(facts: Facts, choice: BackingChoice, barrier: BarrierChoice, memory: Memory) -> Self {
        Self { facts, choice, barrier, memory, forks: Forks::new(ForkPolicy::Snapshot), unsealed: AtomicI32::new(0) }
    }

    /// The same with a [`ForkPolicy`]: shared memory knows no snapshots, private memory cannot be shared.
    #[must_use]
    pub fn with_fork_policy(mut self, policy: ForkPolicy) -> Self {
        self.memory = match self.memory {
            Memory::Private(private) => Memory::Private(private.with_fork_policy(policy)),
            shared @ Memory::Shared(_) => shared,
        };
        self.forks = Forks::new(policy);
        self
    }

    /// What the arena's memory is, and which call of the system refused what would have come first.
    #[must_use]
    pub fn backing(&self) -> BackingChoice {
        // Relaxed: a fact about an arena that this thread knows of.
        let unsealed = match self.unsealed.load(Ordering::Relaxed) {
            0 => None,
            code => Some(Errno(code).by("fcntl(F_ADD_SEALS)")),
        };
        BackingChoice { unsealed, ..self.choice }
    }

    /// The same with a write barrier, so that [`Heap::mesh`](meshheap::Heap::mesh) may run beside threads that write:
    /// [`WriteBarrier::Userfaultfd`] where the system permits it, else [`WriteBarrier::PageProtection`], which installs a
    /// handler for SIGSEGV in this process, for good. [`LinuxPlatform::barrier`] tells which. See [`crate::barrier`] for what
    /// each asks of the program.
    ///
    /// **With page protection, a system call that writes to a page while it is being meshed (read, recv, getrandom, ..)
    /// fails with EFAULT or is cut short; nothing is lost but datagrams.** With userfaultfd it waits.
    ///
    /// Devices and kernel threads that write to pages which they pinned before (`O_DIRECT`, registered buffers of io_uring,
    /// RDMA) are stopped by neither, and what they write is lost. Pin such objects ([`Heap::pin`](meshheap::Heap::pin)), let
    /// them be of another heap, or mesh at safepoints. The same goes for futexes that processes share, and with page
    /// protection for priority-inheriting futexes, which the kernel writes to.
    ///
    /// If the system refuses both, [`Facts::write_barrier`] says so, and the heap meshes at safepoints only.
    #[must_use]
    pub fn with_write_barrier() -> Self {
        Self::new().and_write_barrier()
    }

    /// The same for a platform whose backing was chosen: [`LinuxPlatform::with_write_barrier`] has the details. Private memory
    /// does not mesh and gets no barrier.
    #[must_use]
    pub fn and_write_barrier(self) -> Self {
        self.behind(BarrierChoice::by_trying)
    }

    /// The same with this barrier, or none if the system refuses it: [`LinuxPlatform::barrier`] tells.
    #[must_use]
    pub fn and_barrier(self, barrier: WriteBarrier) -> Self {
        self.behind(|| BarrierChoice::of(barrier))
    }

    /// Which write barrier there is, and which call of the system refused a better one.
    #[must_use]
    pub const fn barrier(&self) -> BarrierChoice {
        self.barrier
    }

    fn behind(mut self, choose: impl FnOnce() -> BarrierChoice) -> Self {
        self.barrier = if self.facts.can_protect { choose() } else { BarrierChoice::none_for_private_memory() };
        self.facts.write_barrier = self.barrier.barrier != WriteBarrier::None;
        self
    }

    fn reserve_arena(&self, bytes: usize, align: usize) -> Result<NonNull<u8>, PlatformError> {
        let cell = match &self.memory {
            Memory::Shared(cell) => cell,
            Memory::Private(private) => return private.reserve(Purpose::Arena, bytes, align),
        };
        let reserved = cell.reserve(|| {
            let arena = backing::reserve(self.choice.backing, bytes, align, self.facts.page_size);
            let (arena, unsealed) = arena.map_err(|refusal| Errno(refusal.code))?;
            // Relaxed: see `backing`.
            self.unsealed.store(unsealed.map_or(0, |refusal| refusal.code), Ordering::Relaxed);
            let arena = arena.behind_barrier(self.barrier.barrier)?.under(&self.forks)?;
            self.forks.begin(self.facts.page_size)?;
            Ok(arena)
        });
        reserved.map_err(|errno| errno.during(Operation::Reserve))
    }

    /// # Safety
    /// As for [`Platform::release`].
    unsafe fn release_shared(&self, cell: &ArenaCell, base: NonNull<u8>, bytes: usize) {
        let end = |arena: Arena| {
            if self.forks.has_views() {
                drop(arena);
                return;
            }
            arena.leave();
            if self.forks.has_addresses() {
                // SAFETY: this process keeps them free only.
                unsafe { mapping::unmap(base, bytes) };
            }
        };
        // SAFETY: the caller keeps the same contract.
        unsafe { cell.release(base, bytes, end) };
        self.forks.end(self.facts.page_size);
    }

    /// The live arena of shared memory.
    ///
    /// # Safety
    /// It must not be released while the reference is used: every verb's contract says that its pages lie in it.
    unsafe fn arena(&self) -> Result<&Arena, Errno> {
        self.forks.check()?;
        match &self.memory {
            // SAFETY: the caller keeps the same contract.
            Memory::Shared(cell) => unsafe { cell.get() },
            Memory::Private(_) => Err(Errno(libc::EOPNOTSUPP)),
        }
    }
}

impl Default for LinuxPlatform {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: fresh mappings read zero; `mremap` and `madvise` touch exactly the given pages, which are checked to lie in the
// arena, and change nothing when they fail: `show_at` sees to it that the kernel has looked at its limits before it unmaps
// (Linux before 5.1 does not at the limit of mappings, and others may leave a hole if they have no memory for the mapping's own
// record). A reader that faults while a mapping is replaced waits in the kernel and finds the new one.
unsafe impl Platform for LinuxPlatform {
    fn facts(&self) -> Facts {
        self.facts
    }

    fn reserve(&self, purpose: Purpose, bytes: usize, align: usize) -> Result<NonNull<u8>, PlatformError> {
        debug_assert!(bytes > 0 && bytes.is_multiple_of(self.facts.page_size) && align >= self.facts.page_size);
        match purpose {
            Purpose::Arena => self.reserve_arena(bytes, align),
            Purpose::Metadata => mapping::map_metadata_at_new(bytes, align, self.facts.page_size)
                .map_err(|errno| errno.during(Operation::Reserve)),
        }
    }

    unsafe fn release(&self, purpose: Purpose, base: NonNull<u8>, bytes: usize) {
        match (purpose, &self.memory) {
            // SAFETY: the caller keeps the same contract.
            (Purpose::Arena, Memory::Shared(cell)) => unsafe { self.release_shared(cell, base, bytes) },
            // SAFETY: as above.
            (Purpose::Arena, Memory::Private(private)) => unsafe { private.release(purpose, base, bytes) },
            // SAFETY: by the caller's contract this is a reservation that nothing uses any more.
            (Purpose::Metadata, _) => unsafe { mapping::unmap(base, bytes) },
        }
    }

    unsafe fn commit(&self, pages: PageRun, touch: Touch) -> Result<(), PlatformError> {
        match &self.memory {
            // Pages of shared memory come at the first touch.
            Memory::Shared(_) => Ok(()),
            // SAFETY: the caller keeps the same contract.
            Memory::Private(private) => unsafe { private.commit(pages, touch) },
        }
    }

    unsafe fn purge(&self, pages: PageRun) -> Result<(), PlatformError> {
        if let Memory::Private(private) = &self.memory {
            // SAFETY: the caller keeps the same contract.
            return unsafe { private.purge(pages) };
        }
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

    unsafe fn relocate(&self, from: PageRun, to: PageIndex) -> Result<(), PlatformError> {
        match &self.memory {
            // SAFETY: the caller keeps the same contract.
            Memory::Private(private) => unsafe { private.relocate(from, to) },
            Memory::Shared(_) => Err(Errno(libc::EOPNOTSUPP).during(Operation::Relocate)),
        }
    }

    fn freeze(&self) -> Result<(), PlatformError> {
        match &self.memory {
            Memory::Private(private) => private.freeze(),
            Memory::Shared(_) if self.forks.policy() != ForkPolicy::Snapshot => Ok(()),
            // Parent and child share it all.
            Memory::Shared(_) => Err(Errno(libc::EOPNOTSUPP).during(Operation::Freeze)),
        }
    }

    unsafe fn fork_done(&self) {
        match &self.memory {
            // SAFETY: the caller keeps the same contract.
            Memory::Private(private) => unsafe { private.fork_done() },
            Memory::Shared(cell) => {
                if let Some((base, bytes)) = cell.addresses() {
                    self.forks.fence(base, bytes);
                }
            }
        }
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
