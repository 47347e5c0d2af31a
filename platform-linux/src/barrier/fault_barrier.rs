//! The barrier that is made of userfaultfd's write protection: writers wait in the kernel, and so do its own writes.
//!
//! ```text
//!   meshing thread   register, protect ─▶ copy ─▶ mremap ─▶ wake
//!                                │                           │
//!   writing thread        store, read(2), ..: waits ─────────┘─▶ goes on, into what the addresses show by then
//! ```
//!
//! Nobody reads the descriptor: a writer is not served, it only has to be woken when its page is another. Each run is
//! registered for itself, and the mapping that replaces it is not: so a registration never lasts longer than a mesh, what
//! is left of mappings merges, and huge pages and fault-around are as they were.

use core::cell::UnsafeCell;
use core::ptr::NonNull;

use meshheap::Access;

use super::raised::Raised;
use super::signals::{self, Blocked};
use super::userfaultfd::Userfaultfd;
use crate::errno::Errno;

/// The barrier of one arena.
#[derive(Debug)]
pub(crate) struct FaultBarrier {
    run: Raised,
    /// Whether a descriptor that the program closed is opened again.
    is_opened_again: bool,
    /// The holder's of `run` alone.
    state: UnsafeCell<State>,
}

#[derive(Debug)]
struct State {
    /// None: not opened yet.
    descriptor: Option<Userfaultfd>,
    /// What signals the holder had blocked before.
    signals: Blocked,
}

// SAFETY: `state` is used only by the thread that holds `run`: see `raise` and `end`.
unsafe impl Sync for FaultBarrier {}
// SAFETY: as above; nothing in it belongs to a thread between two meshes.
unsafe impl Send for FaultBarrier {}

impl FaultBarrier {
    /// Opens the descriptor, as a sandbox may forbid it later. Where that fails, it is tried again when it is needed.
    pub(super) fn new() -> Self {
        let state = State { descriptor: Userfaultfd::open().ok(), signals: Blocked::uninit() };
        Self { run: Raised::new(), is_opened_again: false, state: UnsafeCell::new(state) }
    }

    /// The same, whose descriptor is opened again if the program closed it.
    pub(super) fn opened_again(self) -> Self {
        Self { is_opened_again: true, ..self }
    }

    /// Lets writers to the addresses wait, or go on.
    pub(super) fn protect(&self, at: NonNull<u8>, bytes: usize, access: Access) -> Result<(), Errno> {
        let start = at.addr().get();
        match access {
            Access::ReadOnly => self.raise(start, bytes),
            Access::ReadWrite => self.end(start, bytes, Userfaultfd::unprotect),
        }
    }

    /// Lets the waiting writers go on, if the calling thread raised the barrier for addresses within these, which show other
    /// memory now.
    pub(super) fn lift_within(&self, start: usize, bytes: usize) {
        let wake = |descriptor: &Userfaultfd, start, bytes| {
            descriptor.wake(start, bytes);
            Ok(())
        };
        // It cannot fail.
        let _ = self.end(start, bytes, wake);
    }

    fn raise(&self, start: usize, bytes: usize) -> Result<(), Errno> {
        if !self.run.hold() {
            return Err(Errno(libc::EBUSY));
        }
        let blocked = signals::block();
        // SAFETY: this thread holds the run.
        let state = unsafe { &mut *self.state.get() };
        let own = own(&mut state.descriptor, self.is_opened_again);
        let raised = own.and_then(|descriptor| descriptor.protect(start, bytes));
        if raised.is_err() {
            self.run.let_go();
            signals::restore(&blocked);
            return raised;
        }
        state.signals = blocked;
        self.run.set(start, start + bytes);
        raised
    }

    /// Ends what `raise` began, if the calling thread did that for addresses within these.
    fn end(
        &self,
        start: usize,
        bytes: usize,
        how: impl FnOnce(&Userfaultfd, usize, usize) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        if !self.run.is_ours_within(start, start + bytes) {
            return Ok(());
        }
        // SAFETY: this thread raised the barrier, so it holds the run.
        let state = unsafe { &*self.state.get() };
        let blocked = state.signals;
        let done = state.descriptor.as_ref().map_or(Ok(()), |descriptor| how(descriptor, start, bytes));
        self.run.set(0, 0);
        self.run.let_go();
        signals::restore(&blocked);
        done
    }
}

/// The descriptor for this process's memory: a child opens its own, as it must not touch its parent's. So does the process, if
/// it may, once it was closed.
fn own(descriptor: &mut Option<Userfaultfd>, is_opened_again: bool) -> Result<&Userfaultfd, Errno> {
    let is_lost = |own: &Userfaultfd| own.is_inherited() || is_opened_again && !own.is_open();
    if descriptor.as_ref().is_some_and(is_lost) {
        *descriptor = None;
    }
    if descriptor.is_none() {
        *descriptor = Some(Userfaultfd::open().map_err(|refusal| Errno(refusal.code))?);
    }
    descriptor.as_ref().ok_or(Errno(libc::EBADF))
}

/// Memory that is the process's own, as a heap has that shares memory only when it meshes.
#[cfg(test)]
mod tests {
    use core::ptr::{NonNull, with_exposed_provenance_mut};
    use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
    use std::{format, fs, println, thread};

    use meshheap::Access;

    use super::FaultBarrier;
    use crate::backing::Refusal;
    use crate::barrier::userfaultfd::Userfaultfd;
    use crate::{limits, mapping};

    const HUGE: usize = 2 << 20;

    /// Private memory at a multiple of what a huge page spans.
    fn private_memory() -> NonNull<u8> {
        let base = mapping::reserve(2 * HUGE, HUGE, limits::page_bytes()).expect("address space");
        // SAFETY: reserved just now.
        unsafe { mapping::map_private(base.addr().get(), 2 * HUGE) }.expect("memory");
        base
    }

    fn barrier() -> Option<FaultBarrier> {
        match Userfaultfd::open() {
            Ok(_) => Some(FaultBarrier::new()),
            Err(Refusal { by, code }) => {
                println!("not tested: {by}: {code}");
                None
            }
        }
    }

    fn page(base: NonNull<u8>, index: usize) -> NonNull<u8> {
        // SAFETY: the tests' indices are below the pages of their memory.
        unsafe { base.add(index * limits::page_bytes()) }
    }

    /// Lets another thread write 7 to `at`, does `end` once it waits in the kernel, and waits until it has written.
    fn write_during(at: NonNull<u8>, end: impl FnOnce()) {
        let (at, number, is_written) = (at.as_ptr().expose_provenance(), AtomicI32::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                // SAFETY: takes no arguments.
                number.store(unsafe { libc::gettid() }, Ordering::SeqCst);
                // SAFETY: a byte of the test's memory.
                unsafe { with_exposed_provenance_mut::<u8>(at).write_volatile(7) };
                is_written.store(true, Ordering::SeqCst);
            });
            let waits = || {
                let path = format!("/proc/self/task/{}/wchan", number.load(Ordering::SeqCst));
                fs::read_to_string(path).is_ok_and(|place| place.contains("userfault"))
            };
            while !waits() {
                assert!(!is_written.load(Ordering::SeqCst), "it does not wait");
                thread::yield_now();
            }
            end();
        });
    }

    /// Shows page 2 of shared memory at page 8, as a mesh does, and then gives up page 9.
    fn mesh(base: NonNull<u8>) {
        let Some(barrier) = barrier() else { return };
        let bytes = limits::page_bytes();
        let shared = mapping::reserve(bytes, bytes, bytes).expect("address space");
        // SAFETY: reserved just now.
        unsafe { mapping::map_shared(shared, bytes, None) }.expect("memory");
        let at = page(base, 8);
        let before = first_byte(at);
        barrier.protect(at, bytes, Access::ReadOnly).expect("two mappings");
        write_during(page(base, 8), || {
            assert_eq!(first_byte(at), before, "it can be read");
            // SAFETY: both are the test's.
            unsafe { mapping::show_at(shared, bytes, at) }.expect("as many mappings");
            barrier.lift_within(at.addr().get(), bytes);
        });
        assert_eq!((first_byte(at), first_byte(shared)), (7, 7));
        let at = page(base, 9);
        barrier.protect(at, bytes, Access::ReadOnly).expect("one mapping");
        write_during(at, || barrier.protect(at, bytes, Access::ReadWrite).expect("it merges"));
        assert_eq!(first_byte(at), 7);
        for other in [7, 10, 511, 512] {
            // SAFETY: a page of the test's memory: this thread would wait for itself.
            unsafe { page(base, other).write_volatile(3) };
        }
        // SAFETY: both are the test's, and the test is over.
        unsafe { mapping::unmap(shared, bytes) };
    }

    fn first_byte(at: NonNull<u8>) -> u8 {
        // SAFETY: a byte of the test's memory.
        unsafe { at.read_volatile() }
    }

    fn give_back(base: NonNull<u8>) {
        // SAFETY: the test's, which is over.
        unsafe { mapping::unmap(base, 2 * HUGE) };
    }

    #[test]
    fn writers_wait_for_private_pages() {
        let base = private_memory();
        // SAFETY: the memory is that long.
        unsafe { base.write_bytes(1, 2 * HUGE) };
        mesh(base);
        give_back(base);
    }

    #[test]
    fn writers_wait_for_private_pages_that_were_never_touched() {
        let Some(barrier) = barrier() else { return };
        let (base, bytes) = (private_memory(), limits::page_bytes());
        let at = page(base, 8);
        barrier.protect(at, bytes, Access::ReadOnly).expect("two mappings");
        // Nobody looks at the page before.
        write_during(at, || barrier.protect(at, bytes, Access::ReadWrite).expect("it merges"));
        assert_eq!(first_byte(at), 7);
        give_back(base);
    }

    #[test]
    fn writers_wait_for_a_part_of_a_huge_page() {
        let base = private_memory();
        // SAFETY: the memory is that long.
        unsafe { mapping::advise_huge(base.addr().get(), 2 * HUGE) };
        // SAFETY: as above.
        unsafe { base.write_bytes(1, 2 * HUGE) };
        // Where the system gave small pages so far, it is asked again; it may still refuse.
        // SAFETY: as above.
        if unsafe { libc::madvise(base.as_ptr().cast(), HUGE, libc::MADV_COLLAPSE) } != 0 {
            println!("tested with small pages");
        }
        mesh(base);
        give_back(base);
    }

    #[test]
    fn a_run_that_cannot_be_registered_holds_nobody_up() {
        let Some(barrier) = barrier() else { return };
        let (base, bytes) = (private_memory(), limits::page_bytes());
        // SAFETY: a page of the test's memory, in which nothing is.
        unsafe { mapping::unmap(page(base, 8), bytes) };
        assert!(barrier.protect(page(base, 8), bytes, Access::ReadOnly).is_err());
        barrier.protect(page(base, 10), bytes, Access::ReadOnly).expect("nothing is raised any more");
        barrier.protect(page(base, 10), bytes, Access::ReadWrite).expect("it merges");
        give_back(base);
    }
}
