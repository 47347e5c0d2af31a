//! A platform for tests and models: a table of page states over plain memory. See the crate docs for the tour.
//!
//! ```text
//!   address of page   0        1        2        3
//!   shows backing     0        0        2        3      (state(1) = Alias(0))
//!   buffer            [data]   [copy]   [data]   [zero]  one per address: there is no MMU
//! ```
//!
//! What an MMU does at every access is done once here, when the mapping changes:
//! * `alias` overwrites the buffers of its pages with what the target's addresses hold. A heap that did not copy the
//!   objects to the keeper first finds their bytes gone. Later writes do not cross over: objects must be touched, and copied,
//!   through their own addresses.
//! * `purge` zeroes the buffers of all addresses that show the page: a live object there is lost (I6).
//! * `unalias` fills the buffer with zeros if the backing page was purged while it was hidden, else with
//!   [`SimulatedPlatform::POISON`]: on Linux old content comes back, on which no heap may rely.
//!
//! # Rules
//! A wrong transition panics with the name of the rule. A call that [`SimulatedPlatform::fail_nth`] makes fail is still held
//! to the rules. The lock has the rank `Platform`, and is dropped before a panic, so that dropping the heap can still release.

use alloc::vec::Vec;
use core::ptr::NonNull;

use super::{Access, Facts, Platform, Purpose, Touch};
use crate::base::error::{Operation, PlatformError};
use crate::base::sync::{Mutex, MutexGuard, Rank};
use crate::base::units::{PageIndex, PageRun};

use block::Block;
use faults::Faults;
use table::{PageTable, Trouble};
use writes::Writes;

mod abilities;
mod block;
pub(super) mod faults;
mod table;
mod writes;

#[cfg(not(all(loom, feature = "loom")))]
const MIN_PAGE_SIZE: usize = 4096;
#[cfg(all(loom, feature = "loom"))]
const MIN_PAGE_SIZE: usize = 64;

/// What the address of an arena page shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageState {
    /// Its own backing page.
    Own,
    /// The backing page of another.
    Alias(PageIndex),
}

/// A platform without an MMU that checks every change of state, can fail any call, and can be looked at.
///
/// ```
/// use meshheap::{PageIndex, PageRun, PageState, Platform, Purpose, SimulatedPlatform};
///
/// let platform = SimulatedPlatform::new(4096);
/// let base = platform.reserve(Purpose::Arena, 4 * 4096, 4096)?;
/// // SAFETY: both pages lie in the arena and hold no objects.
/// unsafe { platform.alias(PageRun::new(PageIndex::new(1), 1), PageIndex::new(0)) }?;
/// assert_eq!(platform.state(PageIndex::new(1)), PageState::Alias(PageIndex::new(0)));
/// // SAFETY: this is the reservation from above.
/// unsafe { platform.release(Purpose::Arena, base, 4 * 4096) };
/// assert_eq!(platform.reserved_bytes(), 0);
/// # Ok::<(), meshheap::PlatformError>(())
/// ```
///
/// # Panics
/// Every verb, on a transition that the contract of [`Platform`] forbids; and `drop`, if something is still reserved (I9).
#[derive(Debug)]
pub struct SimulatedPlatform {
    /// Never changes after construction.
    facts: Facts,
    /// Never changes after construction.
    seed: u64,
    /// Everything else.
    state: Mutex<State>,
    writes: Writes,
}

#[derive(Debug)]
struct State {
    /// The arena's memory and its table, while it is reserved.
    arena: Option<(Block, PageTable)>,
    metadata: Vec<Block>,
    faults: Faults,
    clock_ns: u64,
    clock_step_ns: u64,
}

impl SimulatedPlatform {
    /// The code of a failure asked for by [`SimulatedPlatform::fail_nth`] or [`SimulatedPlatform::fail_all`].
    pub const INJECTED: i32 = -1;
    /// The code of a reservation beyond 256 MiB or beyond what the global allocator has.
    pub const OUT_OF_MEMORY: i32 = -2;
    /// The code of a change for which there are too many mappings.
    pub const MAPPING_LIMIT: i32 = -3;
    /// The bytes of an address that shows its own backing page again, unless that was purged while it was hidden.
    pub const POISON: u8 = 0xa5;

    /// A platform that can do everything, without a limit of mappings; its clock stands at 0.
    ///
    /// # Panics
    /// If `page_size` is not a power of two of at least 4096 (64 under loom).
    #[must_use]
    pub fn new(page_size: usize) -> Self {
        assert!(page_size.is_power_of_two() && page_size >= MIN_PAGE_SIZE, "no page size: {page_size}");
        let facts = Facts {
            page_size,
            lazy_commit: true,
            can_purge: true,
            can_alias: true,
            can_protect: true,
            write_barrier: false,
            private_until_shared: false,
            can_relocate: true,
            mapping_limit: None,
        };
        let state =
            State { arena: None, metadata: Vec::new(), faults: Faults::default(), clock_ns: 0, clock_step_ns: 0 };
        let state = Mutex::new(Rank::Platform, state);
        Self { facts, seed: 0x5eed, state, writes: Writes::new() }
    }

    /// From now on the clock advances by `step_ns` at each look at it.
    pub fn set_clock_step(&self, step_ns: u64) {
        self.lock().clock_step_ns = step_ns;
    }

    /// The `n`-th call of `operation` from now on (1 is the next) fails once, with [`SimulatedPlatform::INJECTED`].
    /// Replaces an earlier wish for the same operation.
    ///
    #[doc = include_str!("simulated/fail_nth.md")]
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn fail_nth(&self, operation: Operation, n: usize) {
        assert!(n > 0, "calls are counted from 1");
        self.lock().faults.fail_nth(operation, n);
    }

    /// Every call of `operation` fails until [`SimulatedPlatform::heal`].
    pub fn fail_all(&self, operation: Operation) {
        self.lock().faults.fail_all(operation);
    }

    /// No call fails on demand any more.
    pub fn heal(&self) {
        self.lock().faults.heal();
    }

    /// How many calls of `operation` there were, failed ones included.
    #[must_use]
    pub fn calls(&self, operation: Operation) -> usize {
        self.lock().faults.calls(operation)
    }

    /// Bytes in live reservations: 0 after the heap is dropped (I9).
    #[must_use]
    pub fn reserved_bytes(&self) -> usize {
        self.lock().reserved_bytes()
    }

    /// What the address of `page` shows.
    ///
    /// # Panics
    /// If there is no such page.
    #[must_use]
    pub fn state(&self, page: PageIndex) -> PageState {
        let shows = self.look(|table| table.page(page).shows);
        if shows == page { PageState::Own } else { PageState::Alias(shows) }
    }

    /// Whether writes to the address of `page` are allowed. Nothing hinders them: there is no MMU.
    ///
    /// # Panics
    /// If there is no such page.
    #[must_use]
    pub fn access(&self, page: PageIndex) -> Access {
        self.look(|table| table.page(page).access)
    }

    /// Backing pages that were committed, and not purged since. A second `commit` changes nothing.
    ///
    /// # Panics
    /// If there is no arena.
    #[must_use]
    pub fn committed_pages(&self) -> usize {
        self.look(PageTable::committed_pages)
    }

    /// Mappings that the arena takes beyond its first: neighbouring addresses that do not show neighbouring backing pages,
    /// or differ in access.
    ///
    /// # Panics
    /// If there is no arena.
    #[must_use]
    pub fn mappings(&self) -> usize {
        self.look(PageTable::mappings)
    }

    /// Backing pages that hold something: that show a byte other than zero at some address, or that no address shows and
    /// that were not purged since. A page that was touched and holds zeros does not count, though a real system keeps it.
    ///
    /// # Safety
    /// Nothing may write to the arena meanwhile.
    ///
    /// # Panics
    /// If there is no arena.
    #[must_use]
    pub unsafe fn pages_with_data(&self) -> usize {
        // SAFETY: the caller keeps the same contract.
        self.look(|table| unsafe { table.pages_with_data() })
    }

    /// See `crate::model::note_write`.
    #[cfg(feature = "loom")]
    pub(crate) fn note_write(&self) {
        self.writes.note_write();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock(self)
    }

    fn look<T>(&self, f: impl FnOnce(&PageTable) -> T) -> T {
        let state = self.lock();
        let found = state.arena.as_ref().map(|(_, table)| f(table));
        drop(state);
        found.expect("there is no arena")
    }

    /// Counts a call of `operation`, and does it if `allowed`. The lock is dropped before a broken rule panics.
    fn run<T>(
        &self,
        operation: Operation,
        allowed: bool,
        f: impl FnOnce(&mut State) -> Result<T, Trouble>,
    ) -> Result<T, PlatformError> {
        let mut state = self.lock();
        state.faults.count(operation);
        let done = if allowed { f(&mut state) } else { Err(Trouble::rule("the facts deny it")) };
        drop(state);
        done.map_err(|trouble| match trouble {
            Trouble::Code(code) => PlatformError { operation, code },
            Trouble::Rule { rule, page: None } => panic!("{operation:?} refused: {rule}"),
            Trouble::Rule { rule, page: Some(page) } => panic!("{operation:?} refused: {rule} (page {})", page.get()),
        })
    }
}

// SAFETY: reservations are zeroed allocations of their own; the table moves exactly the pages that it is given, after all
// checks. `alias` and `unalias` take one step for everyone who keeps to their contracts, since nothing else touches those
// bytes meanwhile; a writer that a write barrier should stop is not stopped.
unsafe impl Platform for SimulatedPlatform {
    fn facts(&self) -> Facts {
        self.facts
    }

    fn reserve(&self, purpose: Purpose, bytes: usize, align: usize) -> Result<NonNull<u8>, PlatformError> {
        let page_size = self.facts.page_size;
        self.run(Operation::Reserve, true, |state| {
            Trouble::unless(bytes > 0 && bytes.is_multiple_of(page_size), "bytes must be whole pages")?;
            Trouble::unless(
                align.is_power_of_two() && align >= page_size,
                "align must be a power of two from a page on",
            )?;
            let second = purpose == Purpose::Arena && state.arena.is_some();
            Trouble::unless(!second, "there is one arena at a time")?;
            state.admit(Operation::Reserve)?;
            let block = Block::new(bytes, align).ok_or(Trouble::Code(Self::OUT_OF_MEMORY))?;
            let base = block.base;
            match purpose {
                Purpose::Arena => state.arena = Some((block, PageTable::new(base, bytes / page_size, &self.facts))),
                Purpose::Metadata => state.metadata.push(block),
            }
            Ok(base)
        })
    }

    unsafe fn release(&self, purpose: Purpose, base: NonNull<u8>, bytes: usize) {
        let is_it = |block: &Block| block.base == base && block.bytes == bytes;
        let mut state = self.lock();
        let block = match purpose {
            Purpose::Arena => state.arena.take_if(|(block, _)| is_it(block)).map(|(block, _)| block),
            Purpose::Metadata => state.metadata.iter().position(is_it).map(|at| state.metadata.swap_remove(at)),
        };
        drop(state);
        let block = block.unwrap_or_else(|| panic!("Release refused: no {purpose:?} of {bytes} bytes at {base:p}"));
        // SAFETY: by the caller's contract nothing uses the memory any more.
        unsafe { block.free() };
    }

    unsafe fn commit(&self, pages: PageRun, _: Touch) -> Result<(), PlatformError> {
        self.run(Operation::Commit, true, |state| {
            state.table()?.check_commit(pages)?;
            state.admit(Operation::Commit)?;
            state.table()?.commit(pages);
            Ok(())
        })
    }

    unsafe fn purge(&self, pages: PageRun) -> Result<(), PlatformError> {
        self.run(Operation::Purge, self.facts.can_purge, |state| {
            state.table()?.check_purge(pages)?;
            state.admit(Operation::Purge)?;
            // SAFETY: by the caller's contract nothing needs the pages' bytes.
            unsafe { state.table()?.purge(pages) };
            Ok(())
        })
    }

    unsafe fn alias(&self, pages: PageRun, target: PageIndex) -> Result<(), PlatformError> {
        self.writes.note_alias(self.facts.write_barrier);
        self.run(Operation::Alias, self.facts.can_alias, |state| {
            state.table()?.check_alias(pages, target)?;
            state.admit(Operation::Alias)?;
            // SAFETY: checked just now; by the caller's contract nothing needs the bytes that are overwritten.
            unsafe { state.table()?.alias(pages, target, self.facts.mapping_limit) }
        })
    }

    unsafe fn unalias(&self, pages: PageRun) -> Result<(), PlatformError> {
        self.run(Operation::Unalias, self.facts.can_alias, |state| {
            state.table()?.check_unalias(pages)?;
            state.admit(Operation::Unalias)?;
            // SAFETY: checked just now; by the caller's contract no object lives at these addresses.
            unsafe { state.table()?.unalias(pages, self.facts.mapping_limit) }
        })
    }

    unsafe fn protect(&self, pages: PageRun, access: Access) -> Result<(), PlatformError> {
        self.run(Operation::Protect, self.facts.can_protect, |state| {
            state.table()?.check_inside(pages)?;
            state.admit(Operation::Protect)?;
            state.table()?.protect(pages, access, self.facts.mapping_limit)
        })
    }

    fn is_private(&self, pages: PageRun) -> bool {
        self.facts.private_until_shared && self.look(|table| table.is_private(pages))
    }

    unsafe fn share(&self, pages: PageRun) -> Result<(), PlatformError> {
        self.run(Operation::Share, self.facts.private_until_shared, |state| {
            state.table()?.check_inside(pages)?;
            state.admit(Operation::Share)?;
            state.table()?.share(pages, self.facts.mapping_limit)
        })
    }

    fn freeze(&self) -> Result<(), PlatformError> {
        if !self.facts.private_until_shared {
            return Ok(());
        }
        self.run(Operation::Freeze, true, |state| {
            state.admit(Operation::Freeze)?;
            state.table()?.freeze();
            Ok(())
        })
    }

    unsafe fn relocate(&self, from: PageRun, to: PageIndex) -> Result<(), PlatformError> {
        self.run(Operation::Relocate, self.facts.can_relocate, |state| {
            state.table()?.check_relocate(from, to)?;
            state.admit(Operation::Relocate)?;
            // SAFETY: checked just now; by the caller's contract nobody uses either run.
            unsafe { state.table()?.relocate(from, to) };
            Ok(())
        })
    }

    fn now_ns(&self) -> u64 {
        let mut state = self.lock();
        state.clock_ns += state.clock_step_ns;
        state.clock_ns
    }

    fn entropy(&self) -> u64 {
        self.seed
    }
}

impl Drop for SimulatedPlatform {
    fn drop(&mut self) {
        let held = self.state.get_mut().reserved_bytes();
        #[cfg(any(test, feature = "check"))]
        let held = if std::thread::panicking() { 0 } else { held };
        assert!(held == 0, "I9: the platform still holds {held} bytes of a heap");
    }
}

impl State {
    fn table(&mut self) -> Result<&mut PageTable, Trouble> {
        self.arena.as_mut().map(|(_, table)| table).ok_or(Trouble::rule("there is no arena"))
    }

    fn reserved_bytes(&self) -> usize {
        self.metadata.iter().chain(self.arena.as_ref().map(|(block, _)| block)).map(|block| block.bytes).sum()
    }

    /// Fails the call that is being made if a test wants it to.
    fn admit(&self, operation: Operation) -> Result<(), Trouble> {
        if self.faults.strike(operation) { Err(Trouble::Code(SimulatedPlatform::INJECTED)) } else { Ok(()) }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../tests/simulated.rs"]
mod tests;
