//! `faults`: what budgets cost where memory is touched for the first time, in the style of *pft*: page faults for each second of
//! CPU time, by several threads at once, without a budget, with one that has no limits, with one that has some, and at the
//! lowest of four nodes. Each thread has a heap of its own, and all heaps are charged below one process, as the isolates of a
//! program are.
//!
//! Objects are a page each, so that every fault is charged by itself, twice: the worst there is. With objects of 64 bytes a charge
//! serves a span.
//!
//! With `--compiled-out`, also against the same program without any code for budgets: both as processes of their own, in turns, with
//! the spread of each.
//!
//! And what a pair of `alloc` and `dealloc` costs that counts every byte.

mod compiled_out;
mod pairs;
mod touch;

use clap::ValueEnum;
use comfy_table::Cell;
use serde::Serialize;

use crate::measure::{median, progress};
use crate::report::{Report, judged_cell, table};
pub(crate) use compiled_out::{TouchArgs, run_touch};
use touch::touch;

/// The most that counting every byte may add to a pair, in nanoseconds.
const MOST_PAIR_NS: f64 = 3.0;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Rounds, all variants in each; the medians count
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Bytes that each thread touches in a round, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 32)]
    mib: usize,
    /// Compares heaps without a budget with a build that has no code for budgets, too; the first time, it is built
    #[arg(long)]
    compiled_out: bool,
}

/// What the heaps are charged to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
enum Nodes {
    /// Nothing.
    Absent,
    /// One node without limits.
    Present,
    /// One node with limits that are not met.
    Limited,
    /// A node for each heap below two others below the process, all with limits that are not met.
    FourDeep,
}

/// Sizes of the objects that are touched.
const SIZES: [usize; 2] = [4096, 64];

#[derive(Serialize)]
struct Row {
    object_bytes: usize,
    threads: usize,
    nodes: Nodes,
    /// Page faults a second of CPU time.
    faults_per_second: f64,
    /// The same as a part of what it is without a budget.
    of_absent: f64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Report> {
    let mut report = Report::new("faults");
    add_faults(&mut report, args)?;
    if args.compiled_out {
        compiled_out::add(&mut report, args)?;
    }
    add_pairs(&mut report, args)?;
    Ok(report)
}

fn add_faults(report: &mut Report, args: &Args) -> anyhow::Result<()> {
    let kinds = Nodes::value_variants();
    let cases: Vec<_> = SIZES.into_iter().flat_map(|size| (1..=4).map(move |threads| (size, threads))).collect();
    let bar = progress("faults", cases.len() * args.rounds as usize);
    let mut rows = Vec::new();
    let mut figures = table(["bytes", "threads", "absent", "present", "limited", "four deep"]);
    for (size, threads) in cases {
        let mut found = vec![Vec::new(); kinds.len()];
        for round in 0..args.rounds as usize {
            // In turns, and each round begins with another.
            for turn in 0..kinds.len() {
                let kind = (round + turn) % kinds.len();
                found[kind].push(touch(kinds[kind], threads, size, args.mib << 20)?);
            }
            bar.inc(1);
        }
        let medians: Vec<_> = found.iter().map(|found| median(found)).collect();
        let mut cells = vec![Cell::new(size), Cell::new(threads), Cell::new(format!("{:.0}", medians[0]))];
        cells.extend(medians[1..].iter().map(|rate| Cell::new(format!("{:+.1} %", 100.0 * (rate / medians[0] - 1.0)))));
        figures.add_row(cells);
        rows.extend(kinds.iter().zip(&medians).map(|(&nodes, &rate)| Row {
            object_bytes: size,
            threads,
            nodes,
            faults_per_second: rate,
            of_absent: rate / medians[0],
        }));
    }
    bar.finish_and_clear();
    report.add_table("Page faults a second of CPU time, and the difference that budgets make", figures);
    report.add_rows("faults", &rows)
}

fn add_pairs(report: &mut Report, args: &Args) -> anyhow::Result<()> {
    let found = pairs::measure(11 * args.rounds)?;
    let mut figures = table(["64 bytes", "ns a pair", "added"]);
    for pair in &found {
        // A stock of nothing is there for comparison.
        let limit = (pair.stock_bytes > 0).then_some(MOST_PAIR_NS);
        if let Some(limit) = limit {
            report.judge(format!("nanoseconds that counting adds: {}", pair.what), pair.added_ns, limit);
        }
        figures.add_row(vec![
            Cell::new(pair.what),
            Cell::new(format!("{:.2}", pair.nanoseconds)),
            judged_cell(pair.added_ns, limit),
        ]);
    }
    report.add_table("A pair of alloc and dealloc, CPU time", figures);
    report.add_rows("pairs", &found)
}
