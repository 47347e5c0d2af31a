//! `comeback` from outside: what it prints and writes, and how it ends when something is wrong.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

fn comeback(arguments: &[&str]) -> Output {
    let binaries = Path::new(env!("CARGO_BIN_EXE_workload_system")).parent().expect("programs lie in a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_meshheap-bench"));
    command.arg("comeback").arg("--binaries").arg(binaries);
    command.args(["--scale", "0.01", "--idle", "0.01"]).args(arguments).output().expect("the tool can be started")
}

fn assert_ends(output: &Output, code: i32, with: &[&str]) {
    let printed = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{printed}");
    for with in with {
        assert!(printed.contains(with), "{with:?} is missing in:\n{printed}");
    }
}

#[test]
fn every_scenario_runs_with_one_thread_and_with_two() {
    let folder = TempDir::new().expect("there is room for temporary files");
    let json = folder.path().join("figures.json").to_string_lossy().into_owned();
    let output = comeback(&["--allocators", "meshheap-auto,system", "--json", &json]);
    assert_ends(&output, 0, &["power-law", "doubling", "all-freed"]);
    let report: Value = serde_json::from_str(&fs::read_to_string(&json).expect("it was written")).expect("well-formed");
    let rows = report["figures"]["rows"].as_array().expect("there are rows");
    assert_eq!(rows.len(), workloads::comeback::ALL.len() * 2 * 2);
    for row in rows {
        let (live, most) = (row["live_mib"].as_f64(), row["most_live_mib"].as_f64());
        assert!(live < most && row["held_mib"].is_f64(), "{row}");
    }
}

#[test]
fn unknown_names_are_listed_and_the_rest_runs() {
    let output =
        comeback(&["all-freed", "half-freed", "--allocators", "system,fastalloc", "--preload", "gone=/gone.so"]);
    assert_ends(
        &output,
        1,
        &[
            "failed: half-freed: unknown scenario",
            "failed: fastalloc: unknown",
            "failed: gone: not loaded",
            "power-law",
        ],
    );
}

#[test]
fn nothing_known_is_a_wrong_command_line() {
    assert_ends(&comeback(&["half-freed"]), 2, &["power-law"]);
    assert_ends(&comeback(&["--allocators", "fastalloc"]), 2, &["fastalloc: unknown"]);
}
