//! Finds the workload programs, or has cargo build them. Cargo itself knows which are missing or stale.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::compare::allocators::{Allocator, Linked};
use crate::compare::failure::Failure;

/// Fills in where each allocator's program is, or why there is none.
pub(crate) fn prepare(allocators: &mut [Allocator], binaries: Option<&Path>) -> anyhow::Result<()> {
    let folder = match binaries {
        Some(folder) => folder.to_owned(),
        None => build_all(allocators)?,
    };
    for allocator in allocators {
        let Ok(program) = &mut allocator.program else { continue };
        program.path = folder.join(program.linked.binary);
        if !program.path.is_file() {
            allocator.program = Err(Failure::NotBuilt(format!("no {}", program.path.display())));
        }
    }
    Ok(())
}

/// Builds what the allocators need, as far as it can be built, and says where it is.
fn build_all(allocators: &mut [Allocator]) -> anyhow::Result<PathBuf> {
    let target = target_folder()?;
    let mut wanted: Vec<Linked> = Vec::new();
    for program in allocators.iter().filter_map(|allocator| allocator.program.as_ref().ok()) {
        if !wanted.contains(&program.linked) {
            wanted.push(program.linked);
        }
    }
    let (alone, together): (Vec<Linked>, Vec<Linked>) = wanted.into_iter().partition(|linked| linked.alone);
    let mut failed = Vec::new();
    if build(&together, &target, Stdio::inherit()).is_err() {
        // Which one is it? The others must not go with it.
        failed.extend(together.iter().filter_map(|&linked| build_one(linked, &target)));
    }
    failed.extend(alone.iter().filter_map(|&linked| build_one(linked, &target)));
    for allocator in allocators {
        let built = |linked| failed.iter().find(|(other, _)| *other == linked);
        let failure = allocator.program.as_ref().ok().and_then(|program| built(program.linked));
        if let Some((_, failure)) = failure {
            allocator.program = Err(failure.clone());
        }
    }
    Ok(target.join("release"))
}

/// The target folder that this program was built in.
fn target_folder() -> anyhow::Result<PathBuf> {
    let program = env::current_exe().context("cannot tell where this program is")?;
    // target/release/meshheap-bench
    let target = program.parent().and_then(Path::parent).context("this program lies in no target folder")?;
    Ok(target.to_owned())
}

fn build_one(linked: Linked, target: &Path) -> Option<(Linked, Failure)> {
    let error = build(&[linked], target, Stdio::piped()).err()?;
    eprintln!("  {} cannot be built, the rest goes on", linked.name);
    Some((linked, Failure::NotBuilt(error.to_string())))
}

fn build(wanted: &[Linked], target: &Path, errors: Stdio) -> anyhow::Result<()> {
    if wanted.is_empty() {
        return Ok(());
    }
    let features: Vec<_> = wanted.iter().filter_map(|linked| linked.feature).collect();
    let mut arguments = vec!["build", "--release", "--package", "meshheap-bench"];
    let features = features.join(",");
    if !features.is_empty() {
        arguments.extend(["--features", &features]);
    }
    arguments.extend(wanted.iter().flat_map(|linked| ["--bin", linked.binary]));
    eprintln!("building what is missing or stale: cargo {}", arguments.join(" "));
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(&arguments).arg("--target-dir").arg(target).stderr(errors);
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().context("cannot run cargo")?;
    if !output.status.success() {
        bail!("{}", last_words(&String::from_utf8_lossy(&output.stderr)));
    }
    Ok(())
}

/// The line of cargo's output that says most.
fn last_words(output: &str) -> &str {
    let lines = || output.lines().map(str::trim).filter(|line| !line.is_empty());
    lines().find(|line| line.starts_with("error")).or_else(|| lines().next_back()).unwrap_or("cargo failed")
}

#[cfg(test)]
mod tests {
    use super::last_words;

    #[test]
    fn cargo_is_quoted_with_its_error() {
        assert_eq!(
            last_words("warning: x\nerror: failed to run `cmake`\n  caused by\n"),
            "error: failed to run `cmake`"
        );
        assert_eq!(last_words(""), "cargo failed");
    }
}
