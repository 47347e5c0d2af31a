//! Heaps as values, from C.

use std::path::Path;
use std::process::Command;

use crate::support::{compile, is_installed, library_folder, output};

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_runtime_in_c_embeds_and_meshes_heaps() {
    let folder = library_folder().to_str().expect("a path of text");
    let include = format!("-I{}/include", package().display());
    let flags = [include, format!("-L{folder}"), "-lmeshheap".to_owned(), format!("-Wl,-rpath,{folder}")];
    let program = compile("cc", "embed.c", &flags.each_ref().map(String::as_str));
    assert_eq!(output(&mut Command::new(program)), "ok\n");
}

#[test]
fn the_header_is_what_cbindgen_makes() {
    if !is_installed("cbindgen") {
        return;
    }
    let arguments = ["--quiet", "--config", "cbindgen.toml", "src/lib.rs"];
    let made = output(Command::new("cbindgen").args(arguments).current_dir(package()));
    let kept = std::fs::read_to_string(package().join("include/meshheap.h")).expect("the header is there");
    assert_eq!(made, kept);
}
