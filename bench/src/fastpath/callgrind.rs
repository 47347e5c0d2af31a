//! Instructions of a pair: this program runs a loop under callgrind twice, the second time with twice as many pairs. What the
//! second run executes more is the loop's alone.

use std::env;
use std::process::Command;

use anyhow::{Context, ensure};
use clap::ValueEnum;
use indicatif::ProgressBar;

use crate::fastpath::Kind;

/// Enough that start-up, which may differ by some instructions, does not show.
const PAIRS: u64 = 200_000;
/// What callgrind writes before the number of instructions.
const MARK: &str = "Collected : ";

/// Instructions for a pair of each kind.
pub(crate) fn measure(kinds: &[Kind], bar: &ProgressBar) -> anyhow::Result<Vec<f64>> {
    bar.set_message("counting instructions");
    kinds.iter().map(|&kind| count(kind, bar)).collect()
}

fn count(kind: Kind, bar: &ProgressBar) -> anyhow::Result<f64> {
    let once = instructions(kind, PAIRS)?;
    bar.inc(1);
    let twice = instructions(kind, 2 * PAIRS)?;
    bar.inc(1);
    let extra = twice.checked_sub(once).context("twice the pairs took fewer instructions")?;
    Ok(extra as f64 / PAIRS as f64)
}

fn instructions(kind: Kind, pairs: u64) -> anyhow::Result<u64> {
    let value = kind.to_possible_value().expect("every kind has a name");
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(env::current_exe()?)
        .args(["fastpath-loop", value.get_name(), &pairs.to_string()])
        .output()
        .context("valgrind does not run; is it installed?")?;
    let text = String::from_utf8_lossy(&run.stderr);
    ensure!(run.status.success(), "the loop failed under valgrind: {text}");
    let number = text.lines().find_map(|line| line.split_once(MARK)).context("callgrind printed no count")?.1;
    number.trim().parse().context("callgrind's count is no number")
}
