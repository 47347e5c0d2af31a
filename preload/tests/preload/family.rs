//! What each function promises.

use crate::support::{compile, is_installed, output, under_library};

#[test]
fn the_malloc_family_keeps_the_c_librarys_promises() {
    let program = compile("cc", "family.c", &[]);
    assert_eq!(output(&mut under_library(program)), "ok\n");
}

#[test]
fn operator_new_and_delete_work_in_all_forms() {
    if is_installed("c++") {
        let program = compile("c++", "operators.cpp", &["-std=c++17"]);
        assert_eq!(output(&mut under_library(program)), "ok\n");
    }
}

#[test]
fn the_static_library_is_a_malloc_too() {
    let archive = crate::support::library_folder().join("libmeshheap.a");
    let program = compile("cc", "family.c", &[archive.to_str().expect("a path of text")]);
    assert_eq!(output(&mut std::process::Command::new(program)), "ok\n");
}
