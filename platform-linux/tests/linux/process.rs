//! Running a test in a process of its own, so that mappings, descriptors, memory and limits are the test's alone.

use core::any::type_name;
use std::process::{Command, Output};

/// Set in the process that runs one test.
const ALONE: &str = "MESHHEAP_TEST_ALONE";

/// Runs `test`, a closure in a test, in a new process of this program that runs the same test and nothing else. A fork would
/// not do: other tests' threads may hold locks of the standard library, which no thread of the child would ever open.
pub(crate) fn alone<F: FnOnce()>(test: F) {
    if let Some((name, child)) = watch_alone(test) {
        let (out, err) = (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
        assert!(child.status.success() && out.contains("1 passed"), "{name} alone: {}\n{out}{err}", child.status);
    }
}

/// Runs `test` likewise, and gives in the first process how the new one ended: for tests that do not survive. None in the new
/// one.
pub(crate) fn watch_alone<F: FnOnce()>(test: F) -> Option<(String, Output)> {
    if std::env::var_os(ALONE).is_some() {
        test();
        return None;
    }
    // "linux::failures::the_test::{{closure}}". Should that change, then no test runs, which is found below.
    let path = type_name::<F>().trim_end_matches("::{{closure}}");
    let (_, name) = path.split_once("::").expect("a path within this crate");
    let mut command = Command::new(std::env::current_exe().expect("Linux tells"));
    let child = command.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(ALONE, "1").output();
    Some((name.to_owned(), child.expect("this program can be run")))
}

/// The name of a limit: the C libraries disagree.
#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

/// Lowers a limit of this process, for good.
pub(crate) fn set_limit(resource: Resource, bytes: libc::rlim_t) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: `limit` is a whole limit.
    assert_eq!(unsafe { libc::setrlimit(resource, &raw const limit) }, 0, "a limit can always be lowered");
}

/// Lowers a limit, and gives what lifts it again.
pub(crate) fn lower_for_a_while(resource: Resource, bytes: libc::rlim_t) -> impl FnOnce() {
    let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes into `before`.
    assert_eq!(unsafe { libc::getrlimit(resource, &raw mut before) }, 0);
    let lower = libc::rlimit { rlim_cur: bytes, ..before };
    // SAFETY: `lower` is a whole limit.
    assert_eq!(unsafe { libc::setrlimit(resource, &raw const lower) }, 0, "a limit can always be lowered");
    // SAFETY: `before` is a whole limit.
    move || assert_eq!(unsafe { libc::setrlimit(resource, &raw const before) }, 0, "up to the hard limit")
}

/// Runs `child` in a forked process, and gives how that ended: 0 if it found all well. A panic is nothing well. `after_fork` runs in
/// both processes, `parent` in this one before the child is waited for.
pub(crate) fn status_of_child(
    after_fork: impl FnOnce(),
    parent: impl FnOnce(),
    child: impl FnOnce() -> bool,
) -> libc::c_int {
    // SAFETY: tests run alone, so that no lock of the standard library is held, and the child ends without unwinding.
    let pid = unsafe { libc::fork() };
    after_fork();
    if pid == 0 {
        let is_well = std::panic::catch_unwind(core::panic::AssertUnwindSafe(child)).unwrap_or(false);
        // SAFETY: ends the process.
        unsafe { libc::_exit(i32::from(!is_well)) };
    }
    assert!(pid > 0, "fork works");
    parent();
    let mut status = 0;
    // SAFETY: the kernel writes the status.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    status
}

/// Runs `child` in a forked process, and gives whether it came to its end and found all well.
pub(crate) fn ends_well(child: impl FnOnce() -> bool) -> bool {
    status_of_child(|| {}, || {}, child) == 0
}

/// Runs `child` in a forked process, and gives the number of the signal that ended it, if one did. Its panics fail the test.
pub(crate) fn in_child(after_fork: impl FnOnce(), child: impl FnOnce()) -> Option<i32> {
    let whole = || {
        child();
        true
    };
    let status = status_of_child(after_fork, || {}, whole);
    if libc::WIFSIGNALED(status) {
        return Some(libc::WTERMSIG(status));
    }
    assert_eq!(status, 0, "the child found what it should");
    None
}
