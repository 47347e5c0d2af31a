//! A platform that writes down what the heap asks of it, in numbers of pages.

use core::ptr::NonNull;
use std::sync::Mutex;

use meshheap::{Access, Facts, Operation, PageIndex, PageRun, Platform, PlatformError, Purpose, Touch};

/// One call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// Which.
    pub operation: Operation,
    /// The pages that it names; for a reservation, how many.
    pub pages: PageRun,
    /// The page that they shall show, or be moved to.
    pub target: Option<PageIndex>,
    /// Whether it succeeded.
    pub is_done: bool,
}

/// A platform, and all calls of it.
#[derive(Debug)]
pub struct Recorded<P> {
    platform: P,
    calls: Mutex<Vec<Call>>,
}

impl<P: Platform> Recorded<P> {
    /// Nothing was asked yet.
    pub const fn new(platform: P) -> Self {
        Self { platform, calls: Mutex::new(Vec::new()) }
    }

    /// The platform.
    pub const fn inside(&self) -> &P {
        &self.platform
    }

    /// The calls so far.
    ///
    /// # Panics
    /// A thread panicked while it made a call.
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().expect("not poisoned").clone()
    }

    fn note<T>(
        &self,
        operation: Operation,
        pages: PageRun,
        target: Option<PageIndex>,
        outcome: Result<T, PlatformError>,
    ) -> Result<T, PlatformError> {
        let call = Call { operation, pages, target, is_done: outcome.is_ok() };
        self.calls.lock().expect("not poisoned").push(call);
        outcome
    }
}

// SAFETY: each call is the platform's own.
unsafe impl<P: Platform> Platform for Recorded<P> {
    fn facts(&self) -> Facts {
        self.platform.facts()
    }

    fn reserve(&self, purpose: Purpose, bytes: usize, align: usize) -> Result<NonNull<u8>, PlatformError> {
        let count = u32::try_from(bytes / self.facts().page_size).expect("test arenas are small");
        let pages = PageRun::new(PageIndex::new(0), count);
        self.note(Operation::Reserve, pages, None, self.platform.reserve(purpose, bytes, align))
    }

    unsafe fn release(&self, purpose: Purpose, base: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller keeps the same contract.
        unsafe { self.platform.release(purpose, base, bytes) }
    }

    unsafe fn commit(&self, pages: PageRun, touch: Touch) -> Result<(), PlatformError> {
        // SAFETY: the caller keeps the same contract.
        self.note(Operation::Commit, pages, None, unsafe { self.platform.commit(pages, touch) })
    }

    unsafe fn purge(&self, pages: PageRun) -> Result<(), PlatformError> {
        // SAFETY: the caller keeps the same contract.
        self.note(Operation::Purge, pages, None, unsafe { self.platform.purge(pages) })
    }

    unsafe fn alias(&self, pages: PageRun, target: PageIndex) -> Result<(), PlatformError> {
        // SAFETY: the caller keeps the same contract.
        self.note(Operation::Alias, pages, Some(target), unsafe { self.platform.alias(pages, target) })
    }

    unsafe fn unalias(&self, pages: PageRun) -> Result<(), PlatformError> {
        // SAFETY: the caller keeps the same contract.
        self.note(Operation::Unalias, pages, None, unsafe { self.platform.unalias(pages) })
    }

    unsafe fn protect(&self, pages: PageRun, access: Access) -> Result<(), PlatformError> {
        // SAFETY: the caller keeps the same contract.
        self.note(Operation::Protect, pages, None, unsafe { self.platform.protect(pages, access) })
    }

    unsafe fn relocate(&self, from: PageRun, to: PageIndex) -> Result<(), PlatformError> {
        // SAFETY: the caller keeps the same contract.
        self.note(Operation::Relocate, from, Some(to), unsafe { self.platform.relocate(from, to) })
    }

    fn is_private(&self, pages: PageRun) -> bool {
        self.platform.is_private(pages)
    }

    unsafe fn share(&self, pages: PageRun) -> Result<(), PlatformError> {
        // SAFETY: the caller keeps the same contract.
        self.note(Operation::Share, pages, None, unsafe { self.platform.share(pages) })
    }

    fn freeze(&self) -> Result<(), PlatformError> {
        self.platform.freeze()
    }

    unsafe fn fork_done(&self) {
        // SAFETY: the caller keeps the same contract.
        unsafe { self.platform.fork_done() }
    }

    fn now_ns(&self) -> u64 {
        self.platform.now_ns()
    }

    fn entropy(&self) -> u64 {
        self.platform.entropy()
    }

    fn yield_now(&self) {
        self.platform.yield_now();
    }
}
