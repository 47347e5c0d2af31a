//! Wrong pointers: one line on stderr, then abort or go on; never corruption.

use std::os::unix::process::ExitStatusExt;

use crate::support::{compile, run, under_library};

/// Each kind that the program knows, and what the report says of it.
const KINDS: [(&str, &str); 10] = [
    ("double", "was freed already"),
    ("double-later", "was freed already"),
    ("double-large", "does not belong to this heap"),
    ("interior", "points into an object"),
    ("interior-large", "points into an object"),
    ("odd", "points into an object"),
    ("stack", "does not belong to this heap"),
    ("wild", "does not belong to this heap"),
    ("realloc-freed", "was freed already"),
    ("realloc-stack", "does not belong to this heap"),
];

fn is_one_line(stderr: &str, what: &str) -> bool {
    stderr.lines().count() == 1 && stderr.starts_with("meshheap: wrong pointer: 0x") && stderr.contains(what)
}

#[test]
fn a_wrong_pointer_is_reported_and_the_program_aborts() {
    let program = compile("cc", "misuse.c", &[]);
    for (kind, what) in KINDS {
        let (stdout, stderr, status) = run(under_library(&program).arg(kind));
        assert!(is_one_line(&stderr, what), "{kind}: {stderr}");
        assert_eq!(status.signal(), Some(6), "{kind}: {status}");
        assert_eq!(stdout, "", "{kind}");
    }
}

#[test]
fn a_program_that_goes_on_is_whole() {
    let program = compile("cc", "misuse.c", &[]);
    for (kind, what) in KINDS {
        let (stdout, stderr, status) = run(under_library(&program).arg(kind).env("MESHHEAP_MISUSE", "continue"));
        assert!(is_one_line(&stderr, what), "{kind}: {stderr}");
        assert!(status.success(), "{kind}: {status} {stdout}");
        assert_eq!(stdout, "went on\nintact\n", "{kind}");
    }
}
