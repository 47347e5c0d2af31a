//! What programs hold under the library, beside what they hold under the system's malloc.

use std::path::PathBuf;
use std::process::Command;

use crate::support::{compile, is_installed, output, under_library};

/// Two commands, without the library and with it, and what each prints.
fn both(command: impl Fn(Command) -> Command, program: &str) -> (u64, u64) {
    let number = |text: String| text.trim().parse().expect("a number");
    let system = number(output(&mut command(Command::new(program))));
    let ours = number(output(&mut command(under_library(program))));
    println!("{system} and {ours}");
    (system, ours)
}

/// What a way of taking memory holds, in KiB.
fn held(way: &str, argument: &str) -> (u64, u64) {
    let program: PathBuf = compile("cc", "memory.c", &[]);
    let with_arguments = |mut command: Command| {
        command.args([way, argument]);
        command
    };
    both(with_arguments, program.to_str().expect("a path of text"))
}

#[test]
fn small_aligned_objects_take_no_page_each() {
    let (system, ours) = held("aligned", "24");
    assert!(ours * 100 <= system * 135);
}

#[test]
fn sizes_between_powers_of_two_waste_little() {
    // Sizes just above a class's are the worst.
    let cases = [("640", 110), ("700", 115), ("900", 115), ("1100", 115), ("2100", 115), ("4200", 115), ("9000", 117)];
    for (size, most_percent) in cases {
        let (system, ours) = held("size", size);
        assert!(ours * 100 <= system * most_percent, "{size}");
    }
}

#[test]
fn what_is_freed_at_random_is_used_again() {
    for size in ["64", "500", "2000"] {
        let (_, ours) = held("refilled", size);
        assert!(ours <= 1020, "{size}: {ours} of 1000");
    }
}

#[test]
fn what_is_left_sparse_is_laid_together() {
    for size in ["100", "256", "1000"] {
        let (_, ours) = held("sparse", size);
        assert!(ours <= 25, "{size}: {ours} % of the full heap for a sixteenth of its objects");
    }
    let program = compile("cc", "memory.c", &[]);
    let mut off = under_library(program.to_str().expect("a path of text"));
    let left: u64 = output(off.args(["sparse", "256"]).env("MESHHEAP_MESH", "off")).trim().parse().expect("a number");
    assert!(left > 50, "what may not mesh holds {left} %");
}

#[test]
fn a_fresh_process_is_small() {
    let (system, ours) = held("fresh", "0");
    assert!(ours <= system + 512);
    if is_installed("python3") {
        let script = "import json, re, decimal, subprocess
print(sum(int(line.split()[1]) for line in open('/proc/self/smaps_rollup') if line.startswith(('Pss_Anon', 'Pss_Shmem'))))";
        let with_script = |mut command: Command| {
            command.args(["-c", script]);
            command
        };
        let (system, ours) = both(with_script, "python3");
        assert!(ours <= system + 1024);
    }
}

#[test]
fn threads_hold_little_and_leave_nothing() {
    let (system, ours) = held("threads", "2000");
    // Each has used some twenty classes once, and has a page or two of each.
    assert!(ours <= system + 2000 * 128, "128 KiB a thread");
    let (_, after_few) = held("short-threads", "100");
    let (_, after_many) = held("short-threads", "10000");
    assert!(after_many <= after_few + 1024);
}

#[test]
fn a_forked_child_shares_its_parents_pages() {
    for size in ["64", "1000"] {
        // Of 64 MiB. The system's malloc puts free chunks in order, and so writes to most pages.
        let (_, ours) = held("forked", size);
        assert!(ours <= 1024, "{size}");
    }
}
