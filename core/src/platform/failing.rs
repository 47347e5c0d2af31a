//! Any platform, some of whose calls fail because a test wants it.

use core::ptr::NonNull;

use crate::base::error::{Operation, PlatformError};
use crate::base::rng::Rng;
use crate::base::sync::{Mutex, MutexGuard, Rank};
use crate::base::units::{PageIndex, PageRun};
use crate::platform::simulated::faults::Faults;
use crate::platform::{Access, Facts, Platform, Purpose, Touch};

/// A platform whose calls fail on demand, around any other: for tests of what a program does when the system refuses it
/// something. A call that fails does not reach the platform inside.
///
/// Calls are told by number ([`Failing::fail_nth`]), all at once ([`Failing::fail_all`]), or by chance, which a seed makes the
/// same each time ([`Failing::fail_by_chance`]). With a seed for the heap as well ([`Options::seed`](crate::Options::seed)) and
/// one thread, a failure can be found by chance and then looked at as often as need be.
///
/// ```
/// use core::alloc::Layout;
/// use meshheap::{Failing, Heap, Operation, Options, SimulatedPlatform};
///
/// let platform = Failing::new(SimulatedPlatform::new(4096)); // or LinuxPlatform::new(), or your own
/// let mut options = Options::default();
/// options.arena_bytes = 1 << 20;
/// let heap = Heap::with_options(&platform, options)?;
/// platform.fail_nth(Operation::Commit, 1);
/// assert!(heap.alloc(Layout::new::<u64>()).is_err(), "the page for it is refused");
/// heap.alloc(Layout::new::<u64>())?; // only the first call was to fail
/// # Ok::<(), meshheap::AllocError>(())
/// ```
///
/// # Replay
/// A heap decides by its seed and by numbers of pages, never by addresses. So a seed, a list of operations, one thread at a time
/// and a clock that answers alike ([`Failing::set_clock_step`]) give every placement and every mesh again, in another process as
/// well. (Where an alignment exceeds 2 MiB, it also matters where the arena lies.)
///
/// # What does not fail
/// [`Platform::release`] cannot fail, nor do calls of [`Platform::protect`] that allow writes again: threads wait for these.
#[derive(Debug)]
pub struct Failing<P> {
    plan: Mutex<Plan>,
    inside: P,
}

#[derive(Debug)]
struct Plan {
    faults: Faults,
    chance: Option<Chance>,
    failed: usize,
    clock: Option<Clock>,
}

/// A clock that does not know the time.
#[derive(Debug)]
struct Clock {
    now_ns: u64,
    step_ns: u64,
}

#[derive(Debug)]
struct Chance {
    rng: Rng,
    one_in: u32,
}

impl<P: Platform> Failing<P> {
    /// The code of failures that were asked for.
    pub const INJECTED: i32 = -1;

    /// No call fails so far.
    pub fn new(inside: P) -> Self {
        let plan = Plan { faults: Faults::default(), chance: None, failed: 0, clock: None };
        Self { plan: Mutex::new(Rank::Platform, plan), inside }
    }

    /// The platform inside.
    pub const fn inside(&self) -> &P {
        &self.inside
    }

    /// The `n`-th call of `operation` from now on (1 is the next) fails once. Replaces an earlier wish for the same operation.
    ///
    #[doc = include_str!("simulated/fail_nth.md")]
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn fail_nth(&self, operation: Operation, n: usize) {
        assert!(n > 0, "calls are counted from 1");
        self.lock().faults.fail_nth(operation, n);
    }

    /// Every call of `operation` fails until [`Failing::heal`].
    pub fn fail_all(&self, operation: Operation) {
        self.lock().faults.fail_all(operation);
    }

    /// From now on, and until [`Failing::heal`], each call of any operation fails with probability `1 / one_in`. The same seed and
    /// the same calls give the same failures.
    ///
    /// # Panics
    /// If `one_in` is 0.
    pub fn fail_by_chance(&self, seed: u64, one_in: u32) {
        assert!(one_in > 0, "one call in none");
        self.lock().chance = Some(Chance { rng: Rng::new(seed, 0), one_in });
    }

    /// No call fails on demand any more.
    pub fn heal(&self) {
        let mut plan = self.lock();
        plan.faults.heal();
        plan.chance = None;
    }

    /// How many calls of `operation` there were, failed ones included.
    #[must_use]
    pub fn calls(&self, operation: Operation) -> usize {
        self.lock().faults.calls(operation)
    }

    /// How many calls failed on demand so far, of all operations.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.lock().failed
    }

    /// From now on the platform has a clock of its own, which advances by `step_ns` at each look at it: what the heap makes
    /// depend on time, such as when it gives free pages back, is the same each time then.
    pub fn set_clock_step(&self, step_ns: u64) {
        let mut plan = self.lock();
        let now_ns = plan.clock.as_ref().map_or(0, |clock| clock.now_ns);
        plan.clock = Some(Clock { now_ns, step_ns });
    }

    fn lock(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock(&self.inside)
    }

    /// Counts a call, and fails it if that is wanted. The lock is dropped before the platform inside is called.
    fn admit(&self, operation: Operation) -> Result<(), PlatformError> {
        let mut plan = self.lock();
        plan.faults.count(operation);
        let by_chance = plan.chance.as_mut().is_some_and(|chance| chance.rng.below(chance.one_in) == 0);
        if by_chance || plan.faults.strike(operation) {
            plan.failed += 1;
            return Err(PlatformError { operation, code: Self::INJECTED });
        }
        Ok(())
    }
}

// SAFETY: a call is the platform's own, or fails and changes nothing.
unsafe impl<P: Platform> Platform for Failing<P> {
    fn facts(&self) -> Facts {
        self.inside.facts()
    }

    fn reserve(&self, purpose: Purpose, bytes: usize, align: usize) -> Result<NonNull<u8>, PlatformError> {
        self.admit(Operation::Reserve)?;
        self.inside.reserve(purpose, bytes, align)
    }

    unsafe fn release(&self, purpose: Purpose, base: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller keeps the same contract.
        unsafe { self.inside.release(purpose, base, bytes) }
    }

    unsafe fn commit(&self, pages: PageRun, touch: Touch) -> Result<(), PlatformError> {
        self.admit(Operation::Commit)?;
        // SAFETY: the caller keeps the same contract.
        unsafe { self.inside.commit(pages, touch) }
    }

    unsafe fn purge(&self, pages: PageRun) -> Result<(), PlatformError> {
        self.admit(Operation::Purge)?;
        // SAFETY: the caller keeps the same contract.
        unsafe { self.inside.purge(pages) }
    }

    unsafe fn alias(&self, pages: PageRun, target: PageIndex) -> Result<(), PlatformError> {
        self.admit(Operation::Alias)?;
        // SAFETY: the caller keeps the same contract.
        unsafe { self.inside.alias(pages, target) }
    }

    unsafe fn unalias(&self, pages: PageRun) -> Result<(), PlatformError> {
        self.admit(Operation::Unalias)?;
        // SAFETY: the caller keeps the same contract.
        unsafe { self.inside.unalias(pages) }
    }

    unsafe fn protect(&self, pages: PageRun, access: Access) -> Result<(), PlatformError> {
        if access == Access::ReadOnly {
            self.admit(Operation::Protect)?;
        }
        // SAFETY: the caller keeps the same contract.
        unsafe { self.inside.protect(pages, access) }
    }

    unsafe fn relocate(&self, from: PageRun, to: PageIndex) -> Result<(), PlatformError> {
        self.admit(Operation::Relocate)?;
        // SAFETY: the caller keeps the same contract.
        unsafe { self.inside.relocate(from, to) }
    }

    fn is_private(&self, pages: PageRun) -> bool {
        self.inside.is_private(pages)
    }

    unsafe fn share(&self, pages: PageRun) -> Result<(), PlatformError> {
        self.admit(Operation::Share)?;
        // SAFETY: the caller keeps the same contract.
        unsafe { self.inside.share(pages) }
    }

    fn freeze(&self) -> Result<(), PlatformError> {
        self.admit(Operation::Freeze)?;
        self.inside.freeze()
    }

    unsafe fn fork_done(&self) {
        // SAFETY: the caller keeps the same contract.
        unsafe { self.inside.fork_done() }
    }

    fn now_ns(&self) -> u64 {
        if let Some(clock) = &mut self.lock().clock {
            clock.now_ns += clock.step_ns;
            return clock.now_ns;
        }
        self.inside.now_ns()
    }

    fn entropy(&self) -> u64 {
        self.inside.entropy()
    }

    fn yield_now(&self) {
        self.inside.yield_now();
    }
}
