//! Heaps as values, from C.

use std::path::Path;
use std::process::Command;

use crate::support::{compile, is_installed, library_folder, output};

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Compiles a program that uses the header and links the library, and runs it.
fn embeds(source: &str) {
    let folder = library_folder().to_str().expect("a path of text");
    let include = format!("-I{}/include", package().display());
    let flags = [include, format!("-L{folder}"), "-lmeshheap".to_owned(), format!("-Wl,-rpath,{folder}")];
    let program = compile("cc", source, &flags.each_ref().map(String::as_str));
    assert_eq!(output(&mut Command::new(program)), "ok\n");
}

#[test]
fn a_runtime_in_c_embeds_and_meshes_heaps() {
    embeds("embed.c");
}

#[test]
fn its_threads_have_local_heaps() {
    embeds("embed_threads.c");
}

/// Whether a cbindgen is installed that reads the source: 0.28 is the first that knows its edition.
fn has_cbindgen() -> bool {
    if !is_installed("cbindgen") {
        return false;
    }
    let version = output(Command::new("cbindgen").arg("--version"));
    let mut numbers =
        version.trim_start_matches("cbindgen ").split('.').map_while(|part| part.trim().parse::<u32>().ok());
    let is_new = numbers.next() > Some(0) || numbers.next() >= Some(28);
    if !is_new {
        println!("SKIPPED: {version} is too old");
    }
    is_new
}

#[test]
fn the_header_is_what_cbindgen_makes() {
    if !has_cbindgen() {
        return;
    }
    let arguments = ["--quiet", "--config", "cbindgen.toml", "src/lib.rs"];
    let made = output(Command::new("cbindgen").args(arguments).current_dir(package()));
    let kept = std::fs::read_to_string(package().join("include/meshheap.h")).expect("the header is there");
    assert_eq!(made, kept);
}
