//! What the kernel does to a heap: system calls that fail, little room, pages that it keeps.

use std::process::Command;

use crate::support::{compile, output, under_library};

/// What the heap asks of the kernel beside `mmap` and `munmap`, which every malloc needs.
const CALLS: [(&str, i64); 14] = [
    ("clone", libc::SYS_clone),
    ("clone3", libc::SYS_clone3),
    ("fallocate", libc::SYS_fallocate),
    ("futex", libc::SYS_futex),
    ("getrandom", libc::SYS_getrandom),
    ("gettid", libc::SYS_gettid),
    ("ioctl", libc::SYS_ioctl),
    ("madvise", libc::SYS_madvise),
    ("memfd_create", libc::SYS_memfd_create),
    ("mprotect", libc::SYS_mprotect),
    ("mremap", libc::SYS_mremap),
    ("openat", libc::SYS_openat),
    ("prlimit64", libc::SYS_prlimit64),
    ("userfaultfd", libc::SYS_userfaultfd),
];

fn refused(threads: &str) {
    let program = compile("cc", "refused.c", &[]);
    for (name, number) in CALLS {
        for errno in [libc::EPERM, libc::ENOSYS] {
            let printed =
                output(under_library(&program).args(["call", &number.to_string(), &errno.to_string(), threads]));
            assert!(printed == "ok\n" || printed.starts_with("SKIPPED"), "{name}: {printed}");
        }
    }
}

#[test]
fn system_calls_may_be_refused_to_a_program_with_one_thread() {
    refused("0");
}

#[test]
fn system_calls_may_be_refused_to_a_program_with_threads() {
    refused("1");
}

/// MiB of objects that there is room for under a limit of the shell's, in MiB.
fn room(option: &str, limit: usize) -> usize {
    let program = compile("cc", "refused.c", &[]);
    let script = format!("ulimit -{option} {}; LD_PRELOAD=\"$1\" exec \"$0\" room {limit}", limit << 10);
    let printed = output(Command::new("sh").args(["-c", &script]).arg(program).arg(crate::support::library()));
    printed.trim().parse().expect("a number")
}

#[test]
fn most_of_a_limit_of_data_is_room_for_objects() {
    for limit in [64, 200, 1000] {
        let room = room("d", limit);
        assert!(room * 10 >= limit * 8, "{room} of {limit} MiB");
    }
}

#[test]
fn half_of_a_limit_of_address_space_is_room_for_objects_and_a_quarter_for_others() {
    for limit in [200, 400, 3000] {
        let room = room("v", limit);
        assert!(room * 2 >= limit && room * 4 <= limit * 3, "{room} of {limit} MiB");
    }
}

#[test]
fn the_kernel_reads_into_registered_buffers_whatever_the_heap_is_asked() {
    let printed = output(&mut under_library(compile("cc", "registered.c", &[])));
    assert!(printed == "ok\n" || printed.starts_with("SKIPPED"), "{printed}");
}

#[test]
fn threads_with_the_smallest_stacks_use_a_sparse_heap() {
    let program = compile("cc", "refused.c", &[]);
    for mesh in ["auto", "thread", "steps", "request", "off"] {
        assert_eq!(output(under_library(&program).arg("stack").env("MESHHEAP_MESH", mesh)), "ok\n", "{mesh}");
    }
}
