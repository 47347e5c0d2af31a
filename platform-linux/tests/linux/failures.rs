//! A failed call changes nothing. Each test brings about one reason for the kernel to refuse.

use meshheap::{Access, Operation, Platform, PlatformError, Purpose};
use meshheap_linux::memory::mapping_count;
use meshheap_linux::{Backing, LinuxPlatform};

use crate::arena::{Arena, error, run};
use crate::process::{alone, lower_for_a_while, set_limit};

/// The test makes as many mappings as the system allows; beyond this the test would take seconds.
const MOST_MAPPINGS: usize = 300_000;

fn reserve(platform: &LinuxPlatform, bytes: usize) -> Result<(), PlatformError> {
    let base = platform.reserve(Purpose::Arena, bytes, 2 << 20)?;
    // SAFETY: the reservation from above, not used any more.
    unsafe { platform.release(Purpose::Arena, base, bytes) };
    Ok(())
}

/// New addresses, which the kernel picks.
fn map(bytes: usize, sharing: libc::c_int) -> *mut libc::c_void {
    let flags = sharing | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: replaces nothing.
    unsafe { libc::mmap(core::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) }
}

/// Makes mappings until the system allows no more, and gives what undoes it.
fn exhaust_mappings(limit: usize, page: usize) -> impl FnOnce() {
    let bytes = 2 * limit * page;
    let filler = map(bytes, libc::MAP_PRIVATE);
    assert_ne!(filler, libc::MAP_FAILED);
    // Every second page differs from its neighbours: two mappings each time.
    for odd in (1..2 * limit).step_by(2) {
        // SAFETY: a page of the filler.
        let at = unsafe { filler.byte_add(odd * page) };
        // SAFETY: nothing is in it.
        if unsafe { libc::mprotect(at, page, libc::PROT_READ) } != 0 {
            break;
        }
    }
    // The kernel refuses to cut at the limit, but anything only beyond it. Shared mappings do not merge.
    while map(page, libc::MAP_SHARED) != libc::MAP_FAILED {}
    // SAFETY: the filler is this function's own.
    move || assert_eq!(unsafe { libc::munmap(filler, bytes) }, 0)
}

#[test]
fn at_the_mapping_limit_verbs_fail_and_change_nothing_but_memory_can_be_given_back() {
    alone(|| {
        let arena = Arena::new(64);
        let limit = arena.platform.facts().mapping_limit.expect("Linux has a limit");
        if limit > MOST_MAPPINGS {
            return;
        }
        arena.fill(0..64, 1);
        arena.fill(8..9, 8);
        arena.alias(run(20, 2), 0).expect("below the limit");
        let undo = exhaust_mappings(limit, arena.page);
        let before = mapping_count();
        assert_eq!(arena.alias(run(8, 1), 0), error(Operation::Alias, libc::ENOMEM));
        assert_eq!(arena.unalias(run(20, 2)), error(Operation::Unalias, libc::ENOMEM));
        assert_eq!(arena.protect(run(8, 1), Access::ReadOnly), error(Operation::Protect, libc::ENOMEM));
        assert_eq!(reserve(&LinuxPlatform::new(), arena.page), error(Operation::Reserve, libc::ENOMEM));
        assert!(arena.holds(8, 8) && arena.holds(20, 1) && mapping_count() == before);
        arena.fill(8..9, 9);
        arena.purge(run(20, 2)).expect("a purge needs no mapping");
        drop(arena);
        assert!(mapping_count() < before, "a release needs no mapping");
        undo();
        reserve(&LinuxPlatform::new(), 1 << 20).expect("below the limit again");
    });
}

#[test]
fn too_little_address_space_is_an_error_that_leaves_nothing() {
    alone(|| {
        set_limit(libc::RLIMIT_AS, 1 << 30);
        let platform = LinuxPlatform::new();
        let before = (mapping_count(), std::fs::read_dir("/proc/self/fd").expect("Linux has this folder").count());
        assert_eq!(reserve(&platform, 2 << 30), error(Operation::Reserve, libc::ENOMEM));
        let after = (mapping_count(), std::fs::read_dir("/proc/self/fd").expect("Linux has this folder").count());
        assert_eq!(before, after);
        reserve(&platform, 1 << 20).expect("a smaller arena fits");
    });
}

#[test]
fn a_limit_of_file_sizes_is_an_error_and_kills_nobody() {
    alone(|| {
        set_limit(libc::RLIMIT_FSIZE, 1 << 20);
        let platform = LinuxPlatform::with_backing(Backing::Memfd);
        assert_eq!(reserve(&platform, 2 << 20), error(Operation::Reserve, libc::EFBIG));
        reserve(&platform, 1 << 20).expect("as large as allowed");
    });
}

#[test]
fn without_descriptors_there_is_no_memfd() {
    alone(|| {
        set_limit(libc::RLIMIT_NOFILE, 0);
        let platform = LinuxPlatform::with_backing(Backing::Memfd);
        assert_eq!(reserve(&platform, 1 << 20), error(Operation::Reserve, libc::EMFILE));
    });
}

#[test]
fn a_limit_of_address_space_below_what_is_used_already_leaves_no_hole() {
    alone(|| {
        for arena in Arena::each(64) {
            arena.fill(0..64, 1);
            arena.fill(8..9, 8);
            arena.alias(run(20, 2), 0).expect("no limit");
            let undo = lower_for_a_while(libc::RLIMIT_AS, 1 << 20);
            assert_eq!(arena.alias(run(8, 1), 0), error(Operation::Alias, libc::ENOMEM));
            assert_eq!(arena.unalias(run(20, 2)), error(Operation::Unalias, libc::ENOMEM));
            assert!(arena.holds(8, 8) && arena.holds(20, 1));
            arena.purge(run(20, 2)).expect("a purge needs no address space");
            undo();
            arena.unalias(run(20, 2)).expect("no limit");
            assert!(arena.holds(20, 0) && arena.holds(21, 0));
        }
    });
}
