//! Heaps without a budget against a build without budgets: is there a difference beyond the noise? Measured in pairs, as
//! shared machines are now faster, now slower.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use comfy_table::Cell;
use serde::Serialize;

use crate::faults::touch::touch;
use crate::faults::{Args, Nodes, SIZES};
use crate::measure::progress;
use crate::report::{Report, table};

/// What the core is compiled with, to have no code for budgets.
const WITHOUT_BUDGETS: &str = "--cfg meshheap_without_budgets";

#[derive(clap::Args)]
pub(crate) struct TouchArgs {
    #[arg(long)]
    threads: usize,
    #[arg(long)]
    size: usize,
    #[arg(long)]
    mib: usize,
}

/// Prints page faults a second.
pub(crate) fn run_touch(args: &TouchArgs) -> anyhow::Result<()> {
    println!("{}", touch(Nodes::Absent, args.threads, args.size, args.mib << 20)?);
    Ok(())
}

/// By how many percent the build without budgets is faster, measured in pairs of one run of each.
#[derive(Serialize)]
struct Row {
    object_bytes: usize,
    threads: usize,
    median: f64,
    /// A quarter of the pairs lies below.
    lower: f64,
    /// A quarter of the pairs lies above.
    upper: f64,
}

pub(super) fn add(report: &mut Report, args: &Args) -> anyhow::Result<()> {
    let own = env::current_exe().context("cannot tell where this program is")?;
    let programs = [build(&own)?, own];
    let cases: Vec<_> = SIZES.into_iter().flat_map(|size| (1..=4).map(move |threads| (size, threads))).collect();
    let bar = progress("built out", cases.len() * args.rounds as usize);
    let mut rows = Vec::new();
    let mut figures = table(["bytes", "threads", "lower quartile", "median", "upper quartile"]);
    let mut all = Vec::new();
    for (size, threads) in cases {
        let mut found = Vec::new();
        for round in 0..args.rounds as usize {
            let mut rates = [0.0; 2];
            for turn in 0..programs.len() {
                let which = (round + turn) % programs.len();
                rates[which] = rate(&programs[which], threads, size, args.mib)?;
            }
            found.push(100.0 * (rates[0] / rates[1] - 1.0));
            bar.inc(1);
        }
        let [lower, median, upper] = quartiles(&found);
        let cells = [lower, median, upper].map(|percent| Cell::new(format!("{percent:+.1}")));
        figures.add_row([size, threads].map(Cell::new).into_iter().chain(cells));
        rows.push(Row { object_bytes: size, threads, median, lower, upper });
        all.extend(found);
    }
    bar.finish_and_clear();
    // Three pairs of four would speak for a difference that is more than noise.
    let [lower, ..] = quartiles(&all);
    report.judge("percent that code for absent budgets costs in three pairs of four", lower, 0.0);
    report.add_table("How much faster no code for budgets is than no budget, in percent", figures);
    report.add_rows("compiled_out", &rows)
}

fn quartiles(found: &[f64]) -> [f64; 3] {
    let mut sorted = found.to_vec();
    sorted.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| sorted[(sorted.len() - 1) * quarter / 4])
}

fn rate(program: &Path, threads: usize, size: usize, mib: usize) -> anyhow::Result<f64> {
    let numbers = [("--threads", threads), ("--size", size), ("--mib", mib)];
    let numbers = numbers.map(|(name, number)| [name.to_owned(), number.to_string()]).concat();
    let output = Command::new(program).arg("faults-touch").args(numbers).output().context("cannot run a process")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().parse().context("it tells a number")
}

/// Builds this program without code for budgets, beside where it lies itself, and says where.
fn build(own: &Path) -> anyhow::Result<PathBuf> {
    // target/release/meshheap-bench
    let target = own.parent().and_then(Path::parent).context("this program lies in no target folder")?;
    let target = target.join("without-budgets");
    let flags =
        env::var("RUSTFLAGS").map_or_else(|_| WITHOUT_BUDGETS.to_owned(), |flags| format!("{flags} {WITHOUT_BUDGETS}"));
    eprintln!("building what is missing or stale without budgets");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--package", "meshheap-bench", "--bin", "meshheap-bench", "--target-dir"]);
    cargo.arg(&target).env("RUSTFLAGS", flags).current_dir(env!("CARGO_MANIFEST_DIR"));
    ensure!(cargo.status().context("cannot run cargo")?.success(), "the program cannot be built without budgets");
    Ok(target.join("release").join("meshheap-bench"))
}

#[cfg(test)]
mod tests {
    use super::quartiles;

    #[test]
    fn quartiles_are_figures_that_were_found() {
        assert_eq!(quartiles(&[100.0, 10.0, 11.0, 9.0, 0.0]), [9.0, 10.0, 11.0]);
        assert_eq!(quartiles(&[3.0]), [3.0; 3]);
    }
}
