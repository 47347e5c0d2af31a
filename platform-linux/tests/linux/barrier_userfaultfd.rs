//! The write barrier made of userfaultfd: writers wait in the kernel.

use core::ffi::c_int;
use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;

use meshheap::{Access, Operation, Platform};
use meshheap_linux::{LinuxPlatform, WriteBarrier};

use crate::arena::{Arena, error, run};
use crate::barrier::{action, empty_file, first_byte};
use crate::process::{alone, watch_alone};

/// An arena behind userfaultfd; none where the system does not permit that.
pub(crate) fn arena(pages: usize) -> Option<Arena> {
    Arena::behind(WriteBarrier::Userfaultfd, pages)
}

/// A thread that shows when it waits in the kernel.
#[derive(Default)]
pub(crate) struct Sleeper {
    thread: AtomicI32,
    is_done: AtomicBool,
}

impl Sleeper {
    /// Does `work` in the calling thread, and watches it.
    pub(crate) fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        // SAFETY: takes no arguments.
        self.thread.store(unsafe { libc::gettid() }, Ordering::SeqCst);
        let done = work();
        self.is_done.store(true, Ordering::SeqCst);
        done
    }

    /// Waits until the other thread sleeps in what it does, and checks that it does not go on.
    pub(crate) fn wait_until_it_waits(&self) {
        while !self.sleeps() {
            assert!(!self.is_done.load(Ordering::SeqCst), "it does not wait");
            std::thread::yield_now();
        }
        assert!(!self.is_done.load(Ordering::SeqCst), "it does not wait");
    }

    pub(crate) fn is_done(&self) -> bool {
        self.is_done.load(Ordering::SeqCst)
    }

    fn sleeps(&self) -> bool {
        let thread = self.thread.load(Ordering::SeqCst);
        // Where in the kernel it sleeps.
        let place = std::fs::read_to_string(format!("/proc/self/task/{thread}/wchan")).unwrap_or_default();
        place.contains("userfault")
    }
}

/// Lets another thread write 7 to page 8 while that is read-only, does `end` once it waits, and checks that it then ends.
fn write_during(arena: &Arena, end: impl FnOnce()) {
    let start = arena.address(&(8..9)).as_ptr().expose_provenance();
    arena.protect(run(8, 1), Access::ReadOnly).expect("below the limit of mappings");
    let sleeper = Sleeper::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: the byte lies in the arena, and nobody else writes to it.
            sleeper.run(|| unsafe { with_exposed_provenance_mut::<u8>(start).write_volatile(7) });
        });
        sleeper.wait_until_it_waits();
        end();
    });
    assert!(sleeper.is_done());
}

fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").expect("Linux tells").lines().count()
}

#[test]
fn a_write_during_a_mesh_waits_in_the_kernel_and_goes_to_the_new_page() {
    let Some(arena) = arena(16) else { return };
    arena.fill(2..3, 2);
    arena.fill(8..9, 8);
    write_during(&arena, || arena.alias(run(8, 1), 2).expect("two mappings"));
    assert_eq!((first_byte(&arena, 2), first_byte(&arena, 8)), (7, 7));
    arena.unalias(run(8, 1)).expect("it merges");
    assert!(arena.holds(8, 8), "nothing was written to the old page");
}

#[test]
fn a_write_to_a_page_that_was_never_touched_waits_too() {
    let Some(arena) = arena(16) else { return };
    write_during(&arena, || arena.alias(run(8, 1), 2).expect("two mappings"));
    assert_eq!(first_byte(&arena, 2), 7);
    arena.unalias(run(8, 1)).expect("it merges");
    assert!(arena.holds(8, 0), "nothing was written to the old page");
}

#[test]
fn a_write_during_a_mesh_that_is_given_up_goes_to_the_old_page() {
    let Some(arena) = arena(16) else { return };
    write_during(&arena, || arena.protect(run(8, 1), Access::ReadWrite).expect("it merges"));
    assert_eq!(first_byte(&arena, 8), 7);
    assert_eq!(first_byte(&arena, 2), 0);
}

#[test]
fn an_alias_is_meshed_again() {
    let Some(arena) = arena(16) else { return };
    arena.alias(run(8, 1), 2).expect("two mappings");
    write_during(&arena, || arena.alias(run(8, 1), 4).expect("as many"));
    assert_eq!((first_byte(&arena, 4), first_byte(&arena, 2)), (7, 0));
}

#[test]
fn a_write_waits_for_its_own_run_only() {
    let Some(first) = arena(16) else { return };
    let second = arena(16).expect("permitted");
    first.protect(run(8, 2), Access::ReadOnly).expect("two mappings");
    // None of these may wait: nobody would wake this thread.
    first.fill(7..8, 1);
    first.fill(10..11, 1);
    first.alias(run(12, 1), 0).expect("two mappings");
    first.fill(12..13, 1);
    second.fill(8..9, 1);
    assert_eq!(first.protect(run(4, 1), Access::ReadOnly), error(Operation::Protect, libc::EBUSY));
    first.protect(run(8, 2), Access::ReadWrite).expect("it merges");
    first.protect(run(4, 1), Access::ReadOnly).expect("two mappings");
    first.alias(run(4, 1), 0).expect("as many");
    first.fill(4..5, 3);
    assert!(first.holds(0, 3));
}

#[test]
fn a_barrier_takes_the_mappings_of_the_alias_that_is_to_come_and_leaves_none() {
    alone(|| {
        let Some(arena) = arena(64) else { return };
        let before = mappings();
        for page in [8, 16, 24] {
            arena.protect(run(page, 2), Access::ReadOnly).expect("two mappings");
            arena.protect(run(page, 2), Access::ReadWrite).expect("it merges");
        }
        assert_eq!(mappings(), before, "a mesh that is given up costs nothing");
        for (count, page) in [8, 16, 24].into_iter().enumerate() {
            arena.protect(run(page, 2), Access::ReadOnly).expect("two mappings");
            assert_eq!(mappings(), before + 2 * (count + 1));
            arena.alias(run(page, 2), 0).expect("as many");
            assert_eq!(mappings(), before + 2 * (count + 1));
        }
        for page in [8, 16, 24] {
            arena.unalias(run(page, 2)).expect("it merges");
        }
        assert_eq!(mappings(), before);
    });
}

static PLACE: AtomicUsize = AtomicUsize::new(0);

extern "C" fn write_to_place(_: c_int) {
    // SAFETY: the test put the address of a byte there.
    unsafe { with_exposed_provenance_mut::<u8>(PLACE.load(Ordering::SeqCst)).write_volatile(9) };
}

#[test]
fn a_signal_to_the_meshing_thread_is_handled_after_the_mesh() {
    alone(|| {
        let Some(arena) = arena(16) else { return };
        PLACE.store(arena.address(&(8..9)).as_ptr().expose_provenance(), Ordering::SeqCst);
        // SAFETY: the handler only writes a byte.
        unsafe { libc::signal(libc::SIGUSR1, write_to_place as extern "C" fn(c_int) as usize) };
        arena.protect(run(8, 1), Access::ReadOnly).expect("two mappings");
        // SAFETY: there is a handler.
        unsafe { libc::raise(libc::SIGUSR1) };
        arena.alias(run(8, 1), 2).expect("as many");
        assert_eq!(first_byte(&arena, 2), 9);
    });
}

/// What the program does to SIGSEGV, which ends a barrier of page protection.
#[test]
fn no_handler_and_no_mask_of_the_program_ends_the_barrier() {
    alone(|| {
        let Some(arena) = arena(16) else { return };
        // SAFETY: the default action needs no handler.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
        let mut set = core::mem::MaybeUninit::uninit();
        // SAFETY: fills the set in.
        unsafe { libc::sigfillset(set.as_mut_ptr()) };
        // Inherited by the thread that writes.
        // SAFETY: the set was filled in.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), core::ptr::null_mut()) };
        write_during(&arena, || arena.alias(run(8, 1), 2).expect("two mappings"));
        assert_eq!((first_byte(&arena, 2), first_byte(&arena, 8)), (7, 7));
    });
}

fn blocked_signals() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("Linux tells");
    status.lines().find(|line| line.starts_with("SigBlk")).expect("it is there").to_owned()
}

#[test]
fn the_meshing_thread_blocks_afterwards_what_it_blocked_before() {
    alone(|| {
        let before = blocked_signals();
        let Some(arena) = arena(16) else { return };
        for end in [true, false] {
            arena.protect(run(8, 1), Access::ReadOnly).expect("two mappings");
            assert_ne!(blocked_signals(), before);
            if end {
                arena.alias(run(8, 1), 2).expect("as many");
            } else {
                arena.protect(run(8, 1), Access::ReadWrite).expect("it merges");
            }
            assert_eq!(blocked_signals(), before);
        }
        let hole = arena.address(&(4..5)).as_ptr().cast();
        // SAFETY: the page is the arena's, and nothing is in it.
        assert_eq!(unsafe { libc::munmap(hole, arena.page) }, 0);
        assert!(arena.protect(run(4, 1), Access::ReadOnly).is_err());
        assert_eq!(blocked_signals(), before);
    });
}

#[test]
fn a_page_that_the_system_cannot_supply_is_not_waited_for() {
    let child = watch_alone(|| {
        let Some(arena) = arena(16) else { std::process::abort() };
        let at = arena.address(&(8..9)).as_ptr().cast();
        let empty = empty_file();
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        // As if the file had been cut short.
        // SAFETY: the page is the arena's, and nothing is in it.
        let mapped = unsafe { libc::mmap(at, arena.page, libc::PROT_WRITE, flags, empty.as_raw_fd(), 0) };
        assert_eq!(mapped, at);
        arena.protect(run(8, 1), Access::ReadOnly).expect("two mappings");
        arena.protect(run(8, 1), Access::ReadWrite).expect("it merges");
        arena.fill(8..9, 1);
    });
    if let Some((_, child)) = child {
        let signal = child.status.signal();
        assert!(signal == Some(libc::SIGBUS) || (signal == Some(libc::SIGABRT) && arena(16).is_none()), "{child:?}");
    }
}

#[test]
fn no_handler_is_installed() {
    alone(|| {
        let before = action();
        let Some(arena) = arena(16) else { return };
        write_during(&arena, || arena.alias(run(8, 1), 2).expect("two mappings"));
        assert_eq!(action(), before);
        assert!(LinuxPlatform::new().and_barrier(WriteBarrier::PageProtection).facts().write_barrier);
        assert_ne!(action(), before, "this one needs it");
    });
}
