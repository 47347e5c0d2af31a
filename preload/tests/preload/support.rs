//! Builds the library and the C programs, and runs programs with and without it.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Where what is built for the tests lies.
fn build_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("preload-tests")
}

/// The folder of a build as it is shipped, made once.
pub(crate) fn library_folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target folder holds it");
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--profile", "preload", "--package", "meshheap-preload", "--target-dir"])
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .expect("cargo runs the tests, so it is there");
        assert!(built.success(), "the library can be built");
        target.join("preload")
    })
}

/// The library.
pub(crate) fn library() -> PathBuf {
    library_folder().join("libmeshheap.so")
}

/// Whether a program is installed; says so if not.
pub(crate) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    if !found {
        println!("SKIPPED: {program} is not installed");
    }
    found
}

/// Compiles a program of `tests/c` with a C or C++ compiler. Calls to malloc stay calls.
pub(crate) fn compile(compiler: &str, source: &str, extra: &[&str]) -> PathBuf {
    let folder = build_folder();
    std::fs::create_dir_all(&folder).expect("the target folder can be written to");
    // Tests run beside each other, and some share a source.
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    // Relaxed: only the numbers have to differ.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let program = folder.join(format!("{source}-{number}"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(source);
    let output = Command::new(compiler)
        .args(["-O1", "-g", "-w", "-fno-builtin", "-pthread", "-o"])
        .arg(&program)
        .arg(source)
        .args(extra)
        .output()
        .expect("a C compiler is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// `program` under the library, in an environment without settings for it.
pub(crate) fn under_library(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("MESHHEAP_") {
            command.env_remove(name);
        }
    }
    command.env("LD_PRELOAD", library());
    command
}

/// Runs it. The standard streams as text, and whether it succeeded.
pub(crate) fn run(command: &mut Command) -> (String, String, std::process::ExitStatus) {
    let Output { status, stdout, stderr } = command.output().expect("the program can be started");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(stdout), text(stderr), status)
}

/// Runs it, which must succeed. What it wrote to its standard output.
pub(crate) fn output(command: &mut Command) -> String {
    let (stdout, stderr, status) = run(command);
    assert!(status.success(), "{command:?}: {status}\n{stdout}\n{stderr}");
    stdout
}
