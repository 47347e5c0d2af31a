//! What the library exports and needs.

use std::collections::BTreeSet;
use std::process::Command;

use crate::support::{is_installed, library, output};

const MALLOC_FAMILY: [&str; 20] = [
    "malloc",
    "free",
    "calloc",
    "realloc",
    "reallocarray",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "malloc_usable_size",
    "cfree",
    "free_sized",
    "free_aligned_sized",
    "mallinfo",
    "mallinfo2",
    "malloc_stats",
    "malloc_info",
    "malloc_trim",
    "mallopt",
];

#[test]
fn nothing_but_malloc_the_operators_and_heaps_is_exported() {
    if !is_installed("nm") {
        return;
    }
    let listing = output(Command::new("nm").args(["-D", "--defined-only", "--format=posix"]).arg(library()));
    let exported: BTreeSet<_> = listing.lines().filter_map(|line| line.split(' ').next()).collect();
    for name in MALLOC_FAMILY {
        assert!(exported.contains(name), "{name} is missing");
    }
    let others = exported.iter().filter(|name| !MALLOC_FAMILY.contains(name));
    let strange: Vec<_> =
        others.filter(|name| !["_Zn", "_Zd", "mh_"].iter().any(|prefix| name.starts_with(prefix))).collect();
    assert!(strange.is_empty(), "{strange:?}");
    let operators = exported.iter().filter(|name| name.starts_with("_Z")).count();
    assert_eq!(operators, 20, "eight forms of `new`, twelve of `delete`");
}

#[test]
fn nothing_but_the_c_library_is_needed() {
    if !is_installed("readelf") {
        return;
    }
    let dynamic = output(Command::new("readelf").args(["--dynamic", "--wide"]).arg(library()));
    let needed: Vec<_> = dynamic.lines().filter(|line| line.contains("(NEEDED)")).collect();
    assert!(needed.iter().all(|line| line.contains("[libc.so.6]") || line.contains("[ld-linux")), "{needed:?}");
}

#[test]
fn once_loaded_it_stays() {
    if is_installed("readelf") {
        let dynamic = output(Command::new("readelf").args(["--dynamic", "--wide"]).arg(library()));
        assert!(dynamic.contains("NODELETE"), "{dynamic}");
    }
}
