//! The environment variables.

use crate::support::{compile, output, run, under_library};

#[test]
fn figures_are_written_at_exit_if_asked_for() {
    let program = compile("cc", "lifecycle.c", &["-ldl"]);
    let (_, stderr, status) = run(under_library(program).arg("dlopen").env("MESHHEAP_STATISTICS", "1"));
    assert!(status.success());
    assert!(stderr.starts_with("meshheap: live ") && stderr.lines().count() == 1, "{stderr}");
    for word in ["held", "meshed", "mappings", "passes", "longest step", "refused forks"] {
        assert!(stderr.contains(word), "{word}: {stderr}");
    }
}

#[test]
fn what_means_nothing_is_reported_and_ignored() {
    for (name, value) in [
        ("MESHHEAP_NO_SUCH", "1"),
        ("MESHHEAP_SEED", "seven"),
        ("MESHHEAP_SEED", ""),
        ("MESHHEAP_LIMIT", "0"),
        ("MESHHEAP_LIMIT", "-5"),
        ("MESHHEAP_LIMIT", "99999999999999999999g"),
        ("MESHHEAP_MISUSE", "perhaps"),
        ("MESHHEAP_STATISTICS", "yes"),
        ("MESHHEAP_MESH", "sometimes"),
        ("MESHHEAP_BARRIER", "tall"),
        ("MESHHEAP_MAPPINGS", "-1"),
    ] {
        let (stdout, stderr, status) = run(under_library("/bin/echo").arg("works").env(name, value));
        assert_eq!(stderr, format!("meshheap: ignored: {name}={value}\n"));
        assert!(status.success() && stdout == "works\n", "{name}={value}");
    }
}

#[test]
fn a_limit_makes_large_requests_fail() {
    let script = "use strict; my $text = 'x' x (100 << 20); print 'had it';";
    if !crate::support::is_installed("perl") {
        return;
    }
    assert_eq!(output(under_library("perl").args(["-e", script])), "had it");
    let (stdout, stderr, status) = run(under_library("perl").args(["-e", script]).env("MESHHEAP_LIMIT", "50m"));
    assert!(!status.success() && stdout.is_empty() && stderr.contains("Out of memory"), "{stdout} {stderr}");
}

#[test]
fn seeds_and_thread_limits_are_taken() {
    let command = &mut under_library("/bin/echo");
    command.arg("works").env("MESHHEAP_SEED", "7").env("MESHHEAP_THREAD_LIMIT", "64k").env("MESHHEAP_LIMIT", "1G");
    let (stdout, stderr, status) = run(command);
    assert!(status.success() && stderr.is_empty() && stdout == "works\n", "{stderr}");
}

#[test]
fn an_empty_environment_is_enough() {
    let library = crate::support::library();
    let (stdout, stderr, status) =
        run(std::process::Command::new("/bin/echo").arg("works").env_clear().env("LD_PRELOAD", library));
    assert!(status.success() && stderr.is_empty() && stdout == "works\n", "{stderr}");
}
