//! [`HybridPlatform`]: private memory whose pages become shared when they are meshed, and private again before a fork.
//!
//! ```text
//!                 share                    another's pages: alias
//!   Private ─────────────────▶ Shared ◀──────────────────────────── (shown at several addresses)
//!     ▲  ▲                     │    │
//!     │  └──── unalias ────────┘    │ freeze (before a fork)
//!     │                             ▼
//!     └──── unalias ──────────── Frozen: private, copied from the old file when it is written to
//! ```
//!
//! Nearly all memory of a heap is private at any moment: it faults in huge pages, and a fork copies it on write. What meshing
//! lays together lies in a file in memory, for which three views stand: the arena's own addresses, a shared view, from which
//! aliases are made, and a private one, from which the arena's shared pages are replaced before a fork. The latter two are never
//! written to but for the copy that shares a page. Nobody writes to the file from then on: parent and child both see what it
//! held, and each change is a page of their own. That is right for aliases, too: those of one page hold different objects, and
//! each is only ever used at its own address.
//!
//! # Locks
//! One lock guards the table of what is shown and all changes of it. It is held from the moment at which a run is raised until
//! it is lifted: nobody who holds it can then be waiting at the barrier.

mod freezing;
mod shown;
mod views;

use core::cell::UnsafeCell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use meshheap::{Access, Facts, Operation, PageIndex, PageRun, Platform, PlatformError, Purpose, Touch};

use crate::backing::Refusal;
use crate::barrier::{Barrier, BarrierChoice, WriteBarrier};
use crate::collapse::Collapse;
use crate::errno::Errno;
use crate::fork_policy::ForkPolicy;
use crate::private::PrivatePlatform;
use crate::{clock, entropy, limits, mapping, scheduler};
use freezing::Pages;
use shown::{Shown, Table};
use views::Views;

/// Linux, for one heap in memory that is private until it is meshed.
///
/// Takes no file, no descriptor and no signal handler before the first mesh. A heap on it may be used on both sides of a fork
/// if [`Heap::fork_prepare`](meshheap::Heap::fork_prepare) was called before it.
#[derive(Debug)]
pub struct HybridPlatform {
    facts: Facts,
    private: PrivatePlatform,
    /// How writers are stopped; none: by the first that works, when it is needed.
    wish: Option<WriteBarrier>,
    /// The thread that changes what is shown; 0: none.
    holder: AtomicU32,
    /// Whether a freeze took the locks, which `fork_done` gives back.
    is_frozen: AtomicBool,
    /// The holder's alone.
    sharing: UnsafeCell<Sharing>,
}

/// What there is once pages have been shared.
#[derive(Debug)]
struct Sharing {
    table: Option<Table>,
    views: Option<Views>,
    barrier: Option<Barrier>,
    /// The run that the holder raised.
    raised: Option<PageRun>,
}

// SAFETY: `sharing` is used only by the thread that `holder` names, or by one that has the platform to itself.
unsafe impl Sync for HybridPlatform {}
// SAFETY: nothing in it belongs to a thread between two calls.
unsafe impl Send for HybridPlatform {}

impl HybridPlatform {
    /// Meshes at safepoints only. Asks the system for its page size and limits; takes nothing from it before `reserve`.
    #[must_use]
    pub fn new() -> Self {
        Self::with(Some(WriteBarrier::None))
    }

    /// The same with a write barrier, so that [`Heap::mesh`](meshheap::Heap::mesh) may run beside threads that write. Which one is
    /// found out when the first page is meshed, by trying: userfaultfd, else a handler for SIGSEGV. If the system refuses both,
    /// that step ends with the reason. See [`crate::barrier`] for what each asks of the program.
    #[must_use]
    pub fn with_write_barrier() -> Self {
        Self::with(None)
    }

    /// The same with this barrier.
    #[must_use]
    pub fn with_barrier(barrier: WriteBarrier) -> Self {
        Self::with(Some(barrier))
    }

    /// Private memory for good: it cannot mesh.
    #[must_use]
    pub fn without_meshing() -> Self {
        let mut platform = Self::new();
        platform.facts = platform.private.facts();
        platform
    }

    /// The same with small pages for the arena's first `bytes` bytes: see [`PrivatePlatform::with_small_pages_up_to`].
    #[must_use]
    pub fn with_small_pages_up_to(mut self, bytes: usize) -> Self {
        self.private = self.private.with_small_pages_up_to(bytes);
        self
    }

    /// The same with another [`ForkPolicy`]; memory that is private until it is meshed cannot be shared between processes.
    #[must_use]
    pub fn with_fork_policy(mut self, policy: ForkPolicy) -> Self {
        self.private = self.private.with_fork_policy(policy);
        self
    }

    /// Huge pages for up to `chunks` chunks of 2 MiB that are full and were always private: see [`PrivatePlatform::collapse`].
    pub fn collapse(&self, chunks: usize) -> Collapse {
        self.private.collapse_where(chunks, |pages, collapse| {
            if self.is_held_here() {
                return Err(Errno(libc::EDEADLK));
            }
            self.hold();
            // SAFETY: this thread is the holder.
            let table = unsafe { &(*self.sharing.get()).table };
            let is_private = table.as_ref().is_none_or(|table| table.are_private(pages));
            let outcome = if is_private { collapse() } else { Ok(false) };
            self.let_go();
            outcome
        })
    }

    /// Why the file that meshed pages lie in could be cut short; none while there is no file, or if nobody can do that.
    pub fn unsealed(&self) -> Option<Refusal> {
        if self.is_held_here() {
            return None;
        }
        self.hold();
        // SAFETY: this thread is the holder.
        let unsealed = unsafe { &*self.sharing.get() }.views.as_ref().and_then(Views::unsealed);
        self.let_go();
        unsealed
    }

    fn with(wish: Option<WriteBarrier>) -> Self {
        let private = PrivatePlatform::new();
        let facts = Facts {
            can_alias: true,
            can_protect: true,
            write_barrier: wish != Some(WriteBarrier::None),
            private_until_shared: true,
            mapping_limit: Some(limits::mappings()),
            ..private.facts()
        };
        let sharing = Sharing { table: None, views: None, barrier: None, raised: None };
        let (holder, is_frozen) = (AtomicU32::new(0), AtomicBool::new(false));
        Self { facts, private, wish, holder, is_frozen, sharing: UnsafeCell::new(sharing) }
    }

    /// Whether the calling thread changes what is shown already: it raised a run.
    fn is_held_here(&self) -> bool {
        // Relaxed: only the thread that wrote its own number can meet it.
        self.holder.load(Ordering::Relaxed) == scheduler::thread_number()
    }

    fn hold(&self) {
        let thread = scheduler::thread_number();
        // Acquire: pairs with the Release of the last holder. Bounded by its few system calls.
        while self.holder.compare_exchange(0, thread, Ordering::Acquire, Ordering::Relaxed).is_err() {
            scheduler::yield_now();
        }
    }

    fn let_go(&self) {
        // Release: pairs with the Acquire of the next holder.
        self.holder.store(0, Ordering::Release);
    }

    /// Makes a change of what is shown. One that replaces a run which this thread raised lifts it, if it succeeds.
    fn change(
        &self,
        operation: Operation,
        call: impl FnOnce(&Self, &mut Sharing) -> Result<(), Errno>,
    ) -> Result<(), PlatformError> {
        let was_held = self.is_held_here();
        if !was_held {
            self.hold();
        }
        // SAFETY: this thread is the holder, and `call` uses nothing of it but what it is given.
        let sharing = unsafe { &mut *self.sharing.get() };
        let outcome = self.private.forks().check().and_then(|()| call(self, sharing));
        if was_held && outcome.is_ok() {
            self.lift(sharing);
        }
        if !was_held || outcome.is_ok() {
            self.let_go();
        }
        outcome.map_err(|errno| errno.during(operation))
    }

    /// Lets the writers go on who wait for the raised run, which can be written again.
    fn lift(&self, sharing: &mut Sharing) {
        if let (Some(run), Some(barrier)) = (sharing.raised.take(), &sharing.barrier) {
            barrier.lift_within(self.address(run.start), self.bytes(run));
        }
    }

    fn address(&self, page: PageIndex) -> usize {
        self.private.base() + page.as_usize() * self.facts.page_size
    }

    const fn bytes(&self, pages: PageRun) -> usize {
        pages.count as usize * self.facts.page_size
    }

    fn addresses(&self, pages: PageRun) -> Result<(NonNull<u8>, usize), Errno> {
        let last = pages.start.as_usize() + pages.count as usize;
        let inside = pages.count > 0 && last * self.facts.page_size <= self.private.length();
        debug_assert!(inside, "{pages:?} does not lie in the arena");
        // A mapping elsewhere would replace memory of others.
        let start = core::ptr::with_exposed_provenance_mut(self.address(pages.start));
        let start = NonNull::new(start).filter(|_| inside).ok_or(Errno(libc::EINVAL))?;
        Ok((start, self.bytes(pages)))
    }

    /// The table, made when it is needed first.
    fn table<'a>(&self, table: &'a mut Option<Table>) -> Result<&'a mut Table, Errno> {
        if table.is_none() {
            *table = Some(Table::new(self.private.length() / self.facts.page_size, self.facts.page_size)?);
        }
        table.as_mut().ok_or(Errno(libc::ENOMEM))
    }

    /// Of as much of the arena as is used.
    fn new_views(&self) -> Result<Views, Errno> {
        Views::new(self.private.length(), self.private.opened(), self.facts.page_size, self.private.forks())
    }

    fn raise(&self, sharing: &mut Sharing, pages: PageRun) -> Result<(), Errno> {
        self.private.forks().check()?;
        let (at, bytes) = self.addresses(pages)?;
        self.private.make_small(pages);
        if sharing.barrier.is_none() {
            sharing.barrier = self.new_barrier()?;
        }
        match &sharing.barrier {
            // SAFETY: the addresses are the arena's.
            Some(barrier) => unsafe { barrier.protect(at, bytes, Access::ReadOnly) },
            // SAFETY: as above; the rest is the contract of `protect`.
            None => unsafe { mapping::protect(at, bytes, Access::ReadOnly) },
        }
    }

    fn new_barrier(&self) -> Result<Option<Barrier>, Errno> {
        let choice = self.wish.map_or_else(BarrierChoice::by_trying, BarrierChoice::of);
        if choice.barrier == WriteBarrier::None && self.facts.write_barrier {
            let refusal = choice.page_protection.or(choice.userfaultfd);
            return Err(Errno(refusal.map_or(libc::EPERM, |refusal| refusal.code)));
        }
        let barrier = Barrier::new(choice.barrier, self.private.base(), self.private.length())?;
        Ok(barrier.map(Barrier::opened_again))
    }

    /// # Safety
    /// As for [`Platform::share`].
    unsafe fn share_held(&self, sharing: &mut Sharing, pages: PageRun) -> Result<(), Errno> {
        let (at, bytes) = self.addresses(pages)?;
        self.private.make_small(pages);
        if sharing.views.is_none() {
            sharing.views = Some(self.new_views()?);
        }
        let views = sharing.views.as_mut().ok_or(Errno(libc::ENOMEM))?;
        let table = self.table(&mut sharing.table)?;
        let offset = pages.start.as_usize() * self.facts.page_size;
        views.reach(offset + bytes)?;
        // SAFETY: by the caller's contract nobody writes to the pages; what the file holds there is nobody's.
        unsafe { views.fill(offset, at, bytes) };
        // SAFETY: the addresses show the same bytes afterwards.
        let shown = unsafe { views.show(offset, bytes, at) };
        if shown.is_err() {
            // SAFETY: nobody sees these pages of the file.
            let _ = unsafe { views.remove(offset, bytes) };
            return shown;
        }
        table.set_shared(pages, pages.start);
        Ok(())
    }

    /// # Safety
    /// As for [`Platform::alias`].
    unsafe fn alias_held(&self, sharing: &mut Sharing, pages: PageRun, target: PageIndex) -> Result<(), Errno> {
        let (at, bytes) = self.addresses(pages)?;
        self.private.make_small(pages);
        let (views, table) = sharing.both()?;
        let offset = target.as_usize() * self.facts.page_size;
        // SAFETY: by the caller's contract the objects were copied to the target.
        unsafe { views.show(offset, bytes, at) }?;
        table.set_shared(pages, target);
        Ok(())
    }

    /// # Safety
    /// As for [`Platform::unalias`].
    unsafe fn unalias_held(&self, sharing: &mut Sharing, pages: PageRun) -> Result<(), Errno> {
        let (at, bytes) = self.addresses(pages)?;
        let table = sharing.table.as_mut().ok_or(Errno(libc::EINVAL))?;
        // SAFETY: by the caller's contract there are no live objects.
        unsafe { self.private.map_new_small(at.addr().get(), bytes) }?;
        table.set_private(pages);
        // A refusal leaves pages of the file that nobody sees until they are used again.
        let _ = Self::remove_from_file(sharing, pages, self.facts.page_size);
        Ok(())
    }

    /// Gives back what the file holds of pages that no longer show it.
    fn remove_from_file(sharing: &mut Sharing, pages: PageRun, page_size: usize) -> Result<(), Errno> {
        let (Some(views), Some(table)) = (&sharing.views, &mut sharing.table) else { return Ok(()) };
        if table.is_in_file(pages) {
            // SAFETY: by the callers' contracts nothing needs these pages of the file.
            unsafe { views.remove(pages.start.as_usize() * page_size, pages.count as usize * page_size) }?;
            table.forget_file(pages);
        }
        Ok(())
    }

    /// # Safety
    /// As for [`Platform::purge`].
    unsafe fn purge_held(&self, sharing: &mut Sharing, pages: PageRun) -> Result<(), Errno> {
        let table = sharing.table.as_ref();
        match table.map_or(Shown::Private, |table| table.shown(pages.start)) {
            // SAFETY: the caller keeps the same contract.
            Shown::Private => unsafe { self.private.discard(pages) }?,
            Shown::Frozen => {
                let (at, bytes) = self.addresses(pages)?;
                // SAFETY: by the caller's contract nothing needs the pages.
                unsafe { self.private.map_new_small(at.addr().get(), bytes) }?;
                if let Some(table) = &mut sharing.table {
                    table.set_private(pages);
                }
            }
            Shown::Page(_) => {}
        }
        Self::remove_from_file(sharing, pages, self.facts.page_size)
    }

    /// Private views in place of shared ones, wherever the arena shows the file.
    fn freeze_held(&self, sharing: &mut Sharing) -> Result<(), Errno> {
        let (Some(views), Some(table)) = (&sharing.views, &mut sharing.table) else { return Ok(()) };
        let opened = self.private.opened() / self.facts.page_size;
        let base = core::ptr::with_exposed_provenance_mut(self.private.base());
        let base = NonNull::new(base).ok_or(Errno(libc::EINVAL))?;
        freezing::freeze(Pages { base, size: self.facts.page_size, opened }, views, table)?;
        // The private mappings keep the file. What is shared from now on goes to a new one, which both processes have for
        // themselves.
        table.forget_all_files(opened);
        sharing.views = None;
        Ok(())
    }
}

impl Sharing {
    fn both(&mut self) -> Result<(&Views, &mut Table), Errno> {
        match (&self.views, &mut self.table) {
            (Some(views), Some(table)) => Ok((views, table)),
            _ => Err(Errno(libc::EINVAL)),
        }
    }
}

impl Default for HybridPlatform {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: private memory is `PrivatePlatform`'s; shared memory is replaced by single calls that change nothing when they fail,
// under one lock; a reader that faults meanwhile waits in the kernel and finds the new mapping. `freeze` changes no byte: a
// page's private view shows what the file holds, to which nobody writes any more once all are private, and writes until then
// go to objects that no other view of the page is used for.
unsafe impl Platform for HybridPlatform {
    fn facts(&self) -> Facts {
        self.facts
    }

    fn reserve(&self, purpose: Purpose, bytes: usize, align: usize) -> Result<NonNull<u8>, PlatformError> {
        self.private.reserve(purpose, bytes, align)
    }

    unsafe fn release(&self, purpose: Purpose, base: NonNull<u8>, bytes: usize) {
        if purpose == Purpose::Arena {
            self.hold();
            // SAFETY: this thread is the holder.
            let sharing = unsafe { &mut *self.sharing.get() };
            if !self.private.forks().has_views() {
                // This process never had them.
                core::mem::forget(sharing.views.take());
            }
            *sharing = Sharing { table: None, views: None, barrier: None, raised: None };
            self.let_go();
        }
        // SAFETY: the caller keeps the same contract.
        unsafe { self.private.release(purpose, base, bytes) };
    }

    unsafe fn commit(&self, pages: PageRun, touch: Touch) -> Result<(), PlatformError> {
        // SAFETY: the caller keeps the same contract.
        unsafe { self.private.commit(pages, touch) }
    }

    unsafe fn purge(&self, pages: PageRun) -> Result<(), PlatformError> {
        self.change(Operation::Purge, |platform, sharing| {
            // SAFETY: the caller keeps the same contract.
            unsafe { platform.purge_held(sharing, pages) }
        })
    }

    fn is_private(&self, pages: PageRun) -> bool {
        let was_held = self.is_held_here();
        if !was_held {
            self.hold();
        }
        // SAFETY: this thread is the holder.
        let table = unsafe { &(*self.sharing.get()).table };
        let shown = table.as_ref().map_or(Shown::Private, |table| table.shown(pages.start));
        if !was_held {
            self.let_go();
        }
        !matches!(shown, Shown::Page(_))
    }

    unsafe fn share(&self, pages: PageRun) -> Result<(), PlatformError> {
        self.change(Operation::Share, |platform, sharing| {
            // SAFETY: the caller keeps the same contract.
            unsafe { platform.share_held(sharing, pages) }
        })
    }

    unsafe fn alias(&self, pages: PageRun, target: PageIndex) -> Result<(), PlatformError> {
        self.change(Operation::Alias, |platform, sharing| {
            // SAFETY: the caller keeps the same contract.
            unsafe { platform.alias_held(sharing, pages, target) }
        })
    }

    unsafe fn unalias(&self, pages: PageRun) -> Result<(), PlatformError> {
        self.change(Operation::Unalias, |platform, sharing| {
            // SAFETY: the caller keeps the same contract.
            unsafe { platform.unalias_held(sharing, pages) }
        })
    }

    unsafe fn protect(&self, pages: PageRun, access: Access) -> Result<(), PlatformError> {
        let failed = |errno: Errno| errno.during(Operation::Protect);
        if access == Access::ReadOnly {
            if self.is_held_here() {
                return Err(failed(Errno(libc::EBUSY)));
            }
            self.hold();
            // SAFETY: this thread is the holder.
            let sharing = unsafe { &mut *self.sharing.get() };
            let raised = self.raise(sharing, pages);
            match raised {
                // The lock stays held until the run can be written again.
                Ok(()) => sharing.raised = Some(pages),
                Err(_) => self.let_go(),
            }
            return raised.map_err(failed);
        }
        if !self.is_held_here() {
            return Ok(());
        }
        // SAFETY: this thread is the holder.
        let sharing = unsafe { &mut *self.sharing.get() };
        sharing.raised = None;
        let done = self.addresses(pages).and_then(|(at, bytes)| match &sharing.barrier {
            // SAFETY: the addresses are the arena's.
            Some(barrier) => unsafe { barrier.protect(at, bytes, access) },
            // SAFETY: as above.
            None => unsafe { mapping::protect(at, bytes, access) },
        });
        self.let_go();
        done.map_err(failed)
    }

    unsafe fn relocate(&self, from: PageRun, to: PageIndex) -> Result<(), PlatformError> {
        // SAFETY: large objects lie in private pages; the rest is the caller's contract.
        unsafe { self.private.relocate(from, to) }
    }

    fn freeze(&self) -> Result<(), PlatformError> {
        // A signal handler that forks may have interrupted the holder.
        if self.is_held_here() {
            return Err(Errno(libc::EDEADLK).during(Operation::Freeze));
        }
        let private = self.private.freeze();
        self.hold();
        // Relaxed: read by this thread, or by the one that it continues in the child.
        self.is_frozen.store(true, Ordering::Relaxed);
        private?;
        if self.private.forks().policy() == ForkPolicy::Exclude {
            return Ok(());
        }
        // SAFETY: this thread is the holder.
        let sharing = unsafe { &mut *self.sharing.get() };
        self.freeze_held(sharing).map_err(|errno| errno.during(Operation::Freeze))
    }

    unsafe fn fork_done(&self) {
        // A freeze that was refused because its thread held a lock already has taken none.
        // Relaxed: see `freeze`.
        if !self.is_frozen.swap(false, Ordering::Relaxed) {
            return;
        }
        // The child's thread has another number than the parent's: whoever calls this held it.
        self.let_go();
        // SAFETY: the caller keeps the same contract.
        unsafe { self.private.fork_done() };
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
