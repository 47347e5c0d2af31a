//! The architecture as a test: a file of the core names only lower floors, `mod.rs` of a floor is not named by its own
//! files for anything but types that it defines, and only one file names atomics and locks. What runs inside a program's calls
//! of malloc makes none of the C library's calls that may cancel the thread.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The floors of `core/src`, bottom up. Each names itself and those before it.
const FLOORS: [&str; 8] = ["base", "ds", "platform", "page_heap", "span", "mesh", "heap", "local_heap"];

/// Upward names that are the public face, with the reason.
const EXCEPTIONS: [(&str, &str); 1] = [
    // `Heap::local` makes handles: the embedder starts at the heap.
    ("heap", "local_heap"),
];

fn core_sources() -> Vec<PathBuf> {
    sources_in("../core/src")
}

fn sources_in(folder: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut found = Vec::new();
    let mut folders = vec![root];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the sources are there") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found
}

fn floor_of(path: &Path) -> Option<usize> {
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let at = parts.iter().rposition(|part| part == "src").expect("a source file");
    let first = parts[at + 1].trim_end_matches(".rs").to_owned();
    FLOORS.iter().position(|floor| *floor == first)
}

/// Code without comments.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("readable");
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_file_names_only_lower_floors() {
    for path in core_sources() {
        let Some(floor) = floor_of(&path) else { continue };
        let code = code(&path);
        for (upper, name) in FLOORS.iter().enumerate().skip(floor + 1) {
            let excepted = EXCEPTIONS.contains(&(FLOORS[floor], name));
            let named = code.contains(&format!("crate::{name}::")) || code.contains(&format!("crate::{name};"));
            assert!(excepted || !named, "{} (floor {floor}) names `{name}` (floor {upper})", path.display());
        }
    }
}

#[test]
fn only_the_sync_file_names_atomics_cells_and_locks() {
    let words = ["sync::atomic", "cell::UnsafeCell", "spin::", "loom::"];
    for path in core_sources() {
        if path.ends_with("base/sync.rs") || path.ends_with("base/sync/exploring.rs") {
            continue;
        }
        let code = code(&path);
        for word in words {
            assert!(!code.contains(word), "{} names `{word}`", path.display());
        }
    }
}

#[test]
fn the_core_names_no_system() {
    for path in core_sources() {
        let code = code(&path);
        for word in ["libc::", " static mut ", "thread_local!", "std::fs", "std::os"] {
            let allowed = path.ends_with("base/sync.rs") && word == "thread_local!";
            assert!(allowed || !code.contains(word), "{} names `{word}`", path.display());
        }
    }
}

/// Those of the C library's points of cancellation that a memory manager could be tempted to call.
const CANCELLATION_POINTS: &str = "accept clock_nanosleep close connect creat epoll_wait fsync getrandom msync nanosleep open \
    open64 openat pause poll ppoll pread pselect pthread_cond_wait pthread_join pthread_testcancel pwrite read readv recv select \
    sem_wait send sigsuspend sleep usleep wait waitpid write";

#[test]
fn nothing_that_runs_in_calls_of_malloc_cancels_a_thread() {
    for path in ["../platform-linux/src", "../preload/src"].into_iter().flat_map(sources_in) {
        let code = code(&path);
        for call in CANCELLATION_POINTS.split_whitespace() {
            assert!(!code.contains(&format!("libc::{call}(")), "{} calls `{call}`", path.display());
        }
    }
}

#[test]
fn files_keep_to_one_purpose() {
    let long: BTreeMap<_, _> = core_sources()
        .into_iter()
        .map(|path| (path.clone(), fs::read_to_string(&path).expect("readable").lines().count()))
        .filter(|&(_, lines)| lines > 450)
        .collect();
    assert!(long.is_empty(), "files of over 450 lines: {long:?}");
}
