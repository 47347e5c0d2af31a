//! The write barrier: writers wait for the run that is being meshed, and for nothing else.

use core::ffi::c_int;
use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;

use meshheap::{Access, Operation, Platform};
use meshheap_linux::{LinuxPlatform, barrier};

use crate::arena::{Arena, error, run};
use crate::process::{alone, watch_alone};

/// Lets another thread write to page 8 while that is read-only, does `end` once it waits, and checks that it then ends.
pub(crate) fn write_during(arena: &Arena, end: impl FnOnce()) {
    let (start, waits) = (arena.address(&(8..9)).as_ptr().expose_provenance(), barrier::waits());
    let is_written = AtomicBool::new(false);
    arena.protect(run(8, 1), Access::ReadOnly).expect("below the limit of mappings");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: the byte lies in the arena, and nobody else writes to it.
            unsafe { with_exposed_provenance_mut::<u8>(start).write_volatile(7) };
            is_written.store(true, Ordering::SeqCst);
        });
        while barrier::waits() == waits {
            std::thread::yield_now();
        }
        assert!(!is_written.load(Ordering::SeqCst));
        end();
    });
    assert!(is_written.load(Ordering::SeqCst));
    assert_eq!(barrier::waits(), waits + 1, "it waited once, and did not try again and again");
}

pub(crate) fn first_byte(arena: &Arena, page: usize) -> u8 {
    // SAFETY: the page lies in the arena, and nobody writes to it.
    unsafe { arena.address(&(page..page + 1)).read() }
}

#[test]
fn a_write_during_a_mesh_waits_and_goes_to_the_new_page() {
    alone(|| {
        let arena = Arena::with_barrier(16);
        arena.fill(2..3, 2);
        arena.fill(8..9, 8);
        write_during(&arena, || arena.alias(run(8, 1), 2).expect("two mappings"));
        assert_eq!((first_byte(&arena, 2), first_byte(&arena, 8)), (7, 7));
        arena.unalias(run(8, 1)).expect("it merges");
        assert!(arena.holds(8, 8), "nothing was written to the old page");
    });
}

#[test]
fn a_write_during_a_mesh_that_is_given_up_goes_to_the_old_page() {
    alone(|| {
        let arena = Arena::with_barrier(16);
        write_during(&arena, || arena.protect(run(8, 1), Access::ReadWrite).expect("it merges"));
        assert_eq!(first_byte(&arena, 8), 7);
    });
}

#[test]
fn a_write_waits_for_its_own_run_only() {
    let arenas = [Arena::with_barrier(16), Arena::with_barrier(16)];
    arenas[0].protect(run(8, 2), Access::ReadOnly).expect("two mappings");
    // None of these may wait: nobody would wake this thread.
    arenas[0].fill(7..8, 1);
    arenas[0].fill(10..11, 1);
    arenas[0].alias(run(12, 1), 0).expect("two mappings");
    arenas[0].fill(12..13, 1);
    arenas[1].fill(8..9, 1);
    assert_eq!(arenas[0].protect(run(4, 1), Access::ReadOnly), error(Operation::Protect, libc::EBUSY));
    arenas[0].protect(run(8, 2), Access::ReadWrite).expect("it merges");
    arenas[0].protect(run(4, 1), Access::ReadOnly).expect("two mappings");
    arenas[0].alias(run(4, 1), 0).expect("as many");
    arenas[0].fill(4..5, 3);
    assert!(arenas[0].holds(0, 3));
}

#[test]
fn many_arenas_have_barriers_at_once_and_leave_none_behind() {
    alone(|| {
        for _ in 0..2 {
            let arenas: Vec<_> = (0..100).map(|_| Arena::with_barrier(16)).collect();
            for arena in &arenas {
                arena.protect(run(4, 1), Access::ReadOnly).expect("two mappings");
            }
            for arena in &arenas {
                arena.alias(run(4, 1), 2).expect("as many");
                write_during(arena, || arena.alias(run(8, 1), 2).expect("two mappings"));
            }
        }
    });
}

#[test]
fn a_run_that_cannot_be_made_read_only_holds_nobody_up() {
    alone(|| {
        let arena = Arena::with_barrier(16);
        // A filter that lets `mprotect` fail would stay; instead the pages are gone for the kernel, which then says so.
        let hole = arena.address(&(8..9)).as_ptr().cast();
        // SAFETY: the page is the arena's, and nothing is in it.
        assert_eq!(unsafe { libc::munmap(hole, arena.page) }, 0);
        assert_eq!(arena.protect(run(7, 2), Access::ReadOnly), error(Operation::Protect, libc::ENOMEM));
        arena.fill(7..8, 1);
        arena.protect(run(4, 1), Access::ReadOnly).expect("nothing is raised any more");
        arena.protect(run(4, 1), Access::ReadWrite).expect("it merges");
    });
}

#[test]
fn the_meshing_thread_does_not_wait_for_itself() {
    let child = watch_alone(|| {
        let arena = Arena::with_barrier(16);
        arena.protect(run(8, 1), Access::ReadOnly).expect("two mappings");
        arena.fill(8..9, 1);
    });
    if let Some((_, child)) = child {
        assert_eq!(child.status.signal(), Some(libc::SIGSEGV), "a crash tells more than a thread that hangs");
    }
}

static PLACE: AtomicUsize = AtomicUsize::new(0);

extern "C" fn write_to_place(_: c_int) {
    // SAFETY: the test put the address of a byte there.
    unsafe { with_exposed_provenance_mut::<u8>(PLACE.load(Ordering::SeqCst)).write_volatile(9) };
}

#[test]
fn a_signal_to_the_meshing_thread_is_handled_after_the_mesh() {
    alone(|| {
        let arena = Arena::with_barrier(16);
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

/// An empty file in memory.
pub(crate) fn empty_file() -> OwnedFd {
    // SAFETY: the name ends with a zero.
    let fd = unsafe { libc::memfd_create(c"empty".as_ptr(), libc::MFD_CLOEXEC) };
    assert!(fd >= 0);
    // SAFETY: opened just now, and nobody else's.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

#[test]
fn a_page_that_the_system_cannot_supply_is_not_waited_for() {
    let child = watch_alone(|| {
        let arena = Arena::with_barrier(16);
        let at = arena.address(&(8..9)).as_ptr().cast();
        let empty = empty_file();
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        // As if the file had been cut short: an arena's own cannot be any more, as nobody has its descriptor.
        // SAFETY: the page is the arena's, and nothing is in it.
        let mapped = unsafe { libc::mmap(at, arena.page, libc::PROT_WRITE, flags, empty.as_raw_fd(), 0) };
        assert_eq!(mapped, at);
        arena.fill(8..9, 1);
    });
    if let Some((_, child)) = child {
        assert_eq!(child.status.signal(), Some(libc::SIGBUS));
    }
}

#[test]
fn no_barrier_unless_asked_for() {
    assert!(!LinuxPlatform::new().facts().write_barrier);
    alone(|| {
        let before = action();
        drop(Arena::new(16));
        assert_eq!(action(), before, "no handler is installed");
        drop(Arena::with_barrier(16));
        assert_ne!(action(), before);
        let ours = action();
        drop(Arena::with_barrier(16));
        assert_eq!(action(), ours, "once");
    });
}

/// What handles SIGSEGV: asking changes nothing.
pub(crate) fn action() -> usize {
    let mut action = core::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: the kernel fills the action in.
    assert_eq!(unsafe { libc::sigaction(libc::SIGSEGV, core::ptr::null(), action.as_mut_ptr()) }, 0);
    // SAFETY: it did.
    unsafe { action.assume_init() }.sa_sigaction
}
