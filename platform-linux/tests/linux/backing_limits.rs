//! The choice of the arena's memory where the system is strict. Each test lowers a limit in a process of its own.

use core::ffi::CStr;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;

use meshheap::{AllocError, Heap, Operation, Platform, PlatformError};
use meshheap_linux::{Backing, BackingChoice, LinuxPlatform, Refusal};

use crate::heap::{are_untouched, assert_meshes, heap_on, mesh_all, sparse_objects};
use crate::process::{alone, set_limit};

/// Room for the objects of `assert_meshes`.
const ARENA_BYTES: usize = 64 << 20;

/// Makes the system refuse these calls from now on, in this thread and those that it starts, with EPERM.
pub(crate) fn refuse(calls: &[libc::c_long]) {
    let number = core::mem::offset_of!(libc::seccomp_data, nr) as u32;
    let mut program = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, number)];
    for &call in calls {
        // The next statement if it is this call, else the one after that.
        let jump = statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call as u32);
        program.push(libc::sock_filter { jf: 1, ..jump });
        program.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32));
    }
    program.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW));
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: takes numbers only.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    // SAFETY: the kernel copies the program, which lives until here.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) };
    assert_eq!(set, 0, "no privilege is needed without new privileges");
}

/// One without jumps.
const fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

fn refusal(by: &'static str, code: i32) -> Option<Refusal> {
    Some(Refusal { by, code })
}

/// The choice that falls on shared anonymous memory.
fn shared(by: &'static str, code: i32) -> BackingChoice {
    BackingChoice {
        backing: Backing::SharedAnonymous,
        memfd: refusal(by, code),
        shared_anonymous: None,
        unsealed: None,
    }
}

/// The choice that falls on private memory.
const fn private(memfd: Option<Refusal>, shared_anonymous: Option<Refusal>) -> BackingChoice {
    BackingChoice { backing: Backing::Private, memfd, shared_anonymous, unsealed: None }
}

#[test]
fn under_a_filter_without_memfd_the_memory_is_anonymous_and_meshes() {
    alone(|| {
        refuse(&[libc::SYS_memfd_create]);
        let platform = LinuxPlatform::new();
        assert_eq!(platform.backing(), shared("memfd_create", libc::EPERM));
        assert_meshes(platform, ARENA_BYTES);
    });
}

#[test]
fn under_a_filter_without_mremap_the_memory_is_private() {
    alone(|| {
        refuse(&[libc::SYS_mremap]);
        let platform = LinuxPlatform::new();
        let refused = refusal("mremap", libc::EPERM);
        let expected = private(refused, refused);
        assert_eq!(platform.backing(), expected);
        assert!(!platform.facts().can_alias);
        let heap = heap_on(platform, ARENA_BYTES);
        let kept = sparse_objects(&heap);
        mesh_all(&heap);
        assert!(are_untouched(&kept));
    });
}

#[test]
fn under_a_limit_of_file_sizes_the_memory_is_anonymous_and_meshes() {
    alone(|| {
        // Less than an arena, more than is ever touched: no call may run into the limit, whose signal kills.
        set_limit(libc::RLIMIT_FSIZE, ARENA_BYTES as u64 / 2);
        let platform = LinuxPlatform::new();
        assert_eq!(platform.backing(), shared("RLIMIT_FSIZE", libc::EFBIG));
        assert_meshes(platform, ARENA_BYTES);
    });
}

#[test]
fn without_descriptors_the_memory_is_anonymous_and_meshes() {
    alone(|| {
        set_limit(libc::RLIMIT_NOFILE, 0);
        let platform = LinuxPlatform::new();
        assert_eq!(platform.backing(), shared("memfd_create", libc::EMFILE));
        assert_eq!(platform.facts().mapping_limit, Some(65_530), "there is one, though it cannot be read");
        // Nor can Pss.
        let heap = heap_on(platform, ARENA_BYTES);
        let kept = sparse_objects(&heap);
        let held = heap.statistics().held_bytes;
        mesh_all(&heap);
        assert!(are_untouched(&kept) && heap.statistics().held_bytes * 3 < held);
    });
}

#[test]
fn a_heap_on_a_backing_that_is_refused_is_an_error() {
    alone(|| {
        set_limit(libc::RLIMIT_NOFILE, 0);
        let refused = Heap::new(LinuxPlatform::with_backing(Backing::Memfd)).err();
        let expected = PlatformError { operation: Operation::Reserve, code: libc::EMFILE };
        assert_eq!(refused, Some(AllocError::from(expected)));
    });
}

#[test]
fn under_a_limit_of_address_space_the_arena_shrinks_and_meshes() {
    alone(|| {
        set_limit(libc::RLIMIT_AS, 2 << 30);
        for backing in [Backing::Memfd, Backing::SharedAnonymous] {
            let platform = LinuxPlatform::with_backing(backing);
            let arena_bytes = heap_on(LinuxPlatform::with_backing(backing), 64 << 30).statistics().arena_bytes;
            assert!((256 << 20..2 << 30).contains(&arena_bytes), "{arena_bytes}");
            assert_meshes(platform, 64 << 30);
        }
    });
}

/// Lets this thread read `text` in place of a file of the kernel's. False where it is not privileged.
fn pretend(path: &CStr, text: &str) -> bool {
    let file = std::env::temp_dir().join(format!("meshheap-{}", std::process::id()));
    std::fs::write(&file, text).expect("a folder for such files");
    let source = CString::new(file.as_os_str().as_bytes()).expect("a path");
    let none = core::ptr::null();
    // SAFETY: takes a number only.
    let pretended = unsafe { libc::unshare(libc::CLONE_NEWNS) } == 0
        // SAFETY: the paths end with zeros.
        && unsafe { libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_PRIVATE, none.cast()) } == 0
        // SAFETY: as above.
        && unsafe { libc::mount(source.as_ptr(), path.as_ptr(), none, libc::MS_BIND, none.cast()) } == 0;
    std::fs::remove_file(&file).expect("it was written above");
    pretended
}

#[test]
fn with_strict_overcommit_and_without_memfd_the_memory_is_private() {
    alone(|| {
        if !pretend(c"/proc/sys/vm/overcommit_memory", "2\n") {
            return;
        }
        assert_eq!(LinuxPlatform::new().backing().backing, Backing::Memfd, "of a file only what is used counts");
        refuse(&[libc::SYS_memfd_create]);
        let platform = LinuxPlatform::new();
        let (memfd, shared_anonymous) =
            (refusal("memfd_create", libc::EPERM), refusal("vm.overcommit_memory", libc::ENOMEM));
        assert_eq!(platform.backing(), private(memfd, shared_anonymous));
        let heap = heap_on(platform, ARENA_BYTES);
        assert!(are_untouched(&sparse_objects(&heap)));
    });
}

#[test]
fn where_all_memory_is_locked_it_is_private() {
    alone(|| {
        // SAFETY: takes a number only.
        if unsafe { libc::mlockall(libc::MCL_FUTURE) } != 0 {
            return;
        }
        let platform = LinuxPlatform::new();
        let refused = refusal("madvise(MADV_REMOVE)", libc::EINVAL);
        let expected = private(refused, refused);
        assert_eq!(platform.backing(), expected);
        assert!(!platform.facts().can_alias);
        // May need more locked memory than the process is allowed.
        // SAFETY: takes no arguments.
        assert_eq!(unsafe { libc::munlockall() }, 0);
        let heap = heap_on(platform, ARENA_BYTES);
        assert!(are_untouched(&sparse_objects(&heap)));
    });
}
