//! A failed call changes nothing. Each test brings about one reason for the kernel to refuse.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use meshheap::{Access, Operation, Platform, PlatformError, Purpose};
use meshheap_linux::LinuxPlatform;
use meshheap_linux::memory::mapping_count;

use crate::arena::{Arena, error, run};
use crate::process::{alone, set_limit};

/// The test makes as many mappings as the system allows; beyond this the test would take seconds.
const MOST_MAPPINGS: usize = 300_000;

fn reserve(platform: &LinuxPlatform, bytes: usize) -> Result<(), PlatformError> {
    let base = platform.reserve(Purpose::Arena, bytes, 2 << 20)?;
    // SAFETY: the reservation from above, not used any more.
    unsafe { platform.release(Purpose::Arena, base, bytes) };
    Ok(())
}

/// The descriptor of the arena's file.
pub(crate) fn arena_descriptor() -> RawFd {
    let files = std::fs::read_dir("/proc/self/fd").expect("Linux has this folder").flatten();
    let names = files.filter_map(|file| Some((file.file_name(), std::fs::read_link(file.path()).ok()?)));
    let mut ours = names.filter(|(_, target)| target.to_string_lossy().starts_with("/memfd:meshheap"));
    let (name, _) = ours.next().expect("an arena is live");
    name.to_string_lossy().parse().expect("the names are numbers")
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
        let platform = LinuxPlatform::new();
        assert_eq!(reserve(&platform, 2 << 20), error(Operation::Reserve, libc::EFBIG));
        reserve(&platform, 1 << 20).expect("as large as allowed");
    });
}

#[test]
fn without_descriptors_there_is_no_arena() {
    alone(|| {
        set_limit(libc::RLIMIT_NOFILE, 0);
        let platform = LinuxPlatform::new();
        assert_eq!(reserve(&platform, 1 << 20), error(Operation::Reserve, libc::EMFILE));
    });
}

#[test]
fn a_descriptor_that_others_closed_and_reused_is_left_alone() {
    alone(|| {
        let arena = Arena::new(64);
        arena.fill(0..64, 1);
        arena.alias(run(8, 1), 0).expect("below the limit of mappings");
        let fd = arena_descriptor();
        let mut other = File::from(anonymous_file());
        other.write_all(&[7; 4096 * 16]).expect("it is in memory");
        // SAFETY: both are open; this is what a daemon that closes everything does, in one step.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), fd) }, fd);
        assert_eq!(arena.alias(run(9, 1), 0), error(Operation::Alias, libc::EBADF));
        assert_eq!(arena.unalias(run(8, 1)), error(Operation::Unalias, libc::EBADF));
        assert_eq!(arena.purge(run(1, 1)), error(Operation::Purge, libc::EBADF));
        assert!((0..64).all(|page| arena.holds(page, 1)));
        drop(arena);
        // SAFETY: asks about a number only.
        assert!(unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0, "it is not ours to close any more");
        let mut content = Vec::new();
        other.rewind().expect("it is a file");
        other.read_to_end(&mut content).expect("it is in memory");
        assert!(content.len() == 4096 * 16 && content.iter().all(|&byte| byte == 7));
    });
}

fn anonymous_file() -> OwnedFd {
    // SAFETY: the name ends with a zero.
    let fd = unsafe { libc::memfd_create(c"other".as_ptr(), libc::MFD_CLOEXEC) };
    assert!(fd >= 0);
    // SAFETY: opened just now, and nobody else's.
    unsafe { OwnedFd::from_raw_fd(fd) }
}
