//! `compare` from outside: what it prints and writes, and how it ends when something is wrong.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// The folder of the workload programs that cargo built for this test.
fn binaries() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_workload_system")).parent().expect("programs lie in a folder").to_owned()
}

fn compare(binaries: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_meshheap-bench"));
    command.arg("compare").arg("--binaries").arg(binaries);
    command.args(["--scale", "0.002", "--runs", "2"]).args(arguments).output().expect("the tool can be started")
}

fn printed(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn assert_ends(output: &Output, code: i32, with: &[&str]) {
    let printed = printed(output);
    assert_eq!(output.status.code(), Some(code), "{printed}");
    for with in with {
        assert!(printed.contains(with), "{with:?} is missing in:\n{printed}");
    }
}

/// A folder with a shell script in place of the program that runs on the system's malloc.
fn impostor(script: &str) -> TempDir {
    let folder = TempDir::new().expect("there is room for temporary files");
    let program = folder.path().join("workload_system");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("the folder is writable");
    fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("the file is ours");
    folder
}

#[test]
fn one_workload_on_the_system_is_measured_and_written() {
    let folder = TempDir::new().expect("there is room for temporary files");
    let path = |name| folder.path().join(name).to_string_lossy().into_owned();
    let (json, csv, svg) = (path("figures.json"), path("figures.csv"), path("figures.svg"));
    let files = ["--json", &json, "--csv", &csv, "--svg", &svg];
    let output = compare(&binaries(), &[&["json", "--allocators", "system"], files.as_slice()].concat());
    assert_ends(&output, 0, &["system, s", "geometric mean"]);

    let text = fs::read_to_string(&json).expect("the file was written");
    let report: Value = serde_json::from_str(&text).expect("well-formed");
    assert_eq!(report["figures"]["runs"].as_array().map(Vec::len), Some(2));
    let row = &report["figures"]["rows"][0];
    assert_eq!((&row["workload"], &row["allocator"]), (&Value::from("json"), &Value::from("system")));
    assert_eq!(row["cpu_ratio"], Value::from(1.0));
    assert!(row["cpu_s"].as_f64().is_some_and(|time| time > 0.0));
    let lines = fs::read_to_string(&csv).expect("the file was written");
    assert_eq!(lines.lines().count(), 2);
    assert!(lines.starts_with("workload,allocator,"));
    assert!(fs::read_to_string(&svg).expect("the file was written").contains("</svg>"));
}

#[test]
fn unknown_names_are_listed_and_the_rest_runs() {
    let output = compare(&binaries(), &["json", "chess", "--allocators", "system,fastalloc"]);
    assert_ends(
        &output,
        1,
        &[
            "failed: chess: unknown workload",
            "failed: fastalloc: unknown",
            "churn-small",
            "mimalloc3",
            "geometric mean",
        ],
    );
}

#[test]
fn nothing_known_is_a_wrong_command_line() {
    assert_ends(&compare(&binaries(), &["chess"]), 2, &["churn-small"]);
    assert_ends(&compare(&binaries(), &["--allocators", "fastalloc"]), 2, &["fastalloc: unknown"]);
    assert_ends(&compare(&binaries(), &["--baseline", "fastalloc"]), 2, &["mimalloc3"]);
    assert_ends(&compare(&binaries(), &["--runs", "0"]), 2, &["--runs"]);
    assert_ends(&compare(&binaries(), &["--timeout", "soon"]), 2, &["--timeout"]);
}

#[test]
fn a_library_that_cannot_be_loaded_is_named() {
    let text = impostor("exit 0");
    let library = format!("script={}", text.path().join("workload_system").display());
    let output = compare(&binaries(), &["json", "--allocators", &format!("system,gone=/gone.so,{library}")]);
    assert_ends(&output, 1, &["failed: gone: not loaded: /gone.so", "failed: json on script: not loaded", "system, s"]);
}

#[test]
fn a_program_that_is_not_there_is_not_built() {
    let empty = TempDir::new().expect("there is room for temporary files");
    assert_ends(&compare(empty.path(), &["json", "--allocators", "system"]), 2, &["not built"]);
}

#[test]
fn a_crash_and_its_signal_are_named() {
    let crashing = impostor("echo broken heap >&2; kill -SEGV $$");
    let output = compare(crashing.path(), &["json", "--allocators", "system"]);
    assert_ends(&output, 1, &["failed: json on system: crashed: signal 11 broken heap"]);
}

#[test]
fn other_output_than_an_outcome_is_a_crash() {
    let silent = impostor("exit 0");
    assert_ends(&compare(silent.path(), &["json", "--allocators", "system"]), 1, &["json on system: crashed"]);
}

#[test]
fn a_run_that_hangs_is_ended_and_named() {
    let hanging = impostor("exec sleep 1000");
    let output = compare(hanging.path(), &["json", "--allocators", "system", "--timeout", "0.2"]);
    assert_ends(&output, 1, &["failed: json on system: timed out"]);
}
