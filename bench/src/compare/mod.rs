//! `compare`: the workloads on meshheap and on other allocators: CPU time, time, memory, page faults.
//!
//! Each allocator is linked into a program of its own (`src/bin/workload_*.rs`), as the global allocator; a library given by
//! path is preloaded into the one that uses the system's malloc. Each run is a process. The allocators take turns (A B C A B
//! C); each program runs twice in a row, and the second run counts, on memory that the first one warmed. What fails
//! (unknown, not built, not loaded, crashed, timed out, a wrong checksum) is named in the tables, the rest goes on, and the
//! exit code is 1.

pub(crate) mod allocators;
pub(crate) mod build;
mod cgroup;
mod chart;
pub(crate) mod failure;
mod figures;
mod limits;
pub(crate) mod process;
mod rounds;
mod rows;
mod sampling;
mod tables;

use core::time::Duration;
use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use workloads::Workload;

use crate::compare::allocators::Allocator;
use crate::compare::cgroup::Cgroups;
use crate::compare::failure::Failure;
use crate::compare::rounds::Plan;
use crate::report::Report;

#[derive(clap::Args)]
#[command(after_help = known())]
pub(crate) struct Args {
    /// The workloads; all of them by default
    #[arg(value_name = "WORKLOAD")]
    workloads: Vec<String>,
    /// The allocators, by commas: known names, and NAME=/path/to/lib.so for a library that is preloaded
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = allocators::DEFAULT)]
    allocators: Vec<String>,
    /// How often each workload runs on each allocator; the medians count
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// The allocator that all ratios refer to; mimalloc, or else the first, by default
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,
    /// How much each workload does; 1 takes a second or so
    #[arg(long, default_value_t = 1.0, value_parser = positive)]
    scale: f64,
    /// One run each of a tenth of the work: whether everything works, not how well
    #[arg(long)]
    quick: bool,
    /// Write a line for each workload and allocator to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw the ratios as bars to this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// How many seconds a run may take
    #[arg(long, default_value = "120", value_name = "SECONDS", value_parser = seconds)]
    timeout: Duration,
    /// Where the workload programs are. Without it they are built
    #[arg(long, value_name = "FOLDER")]
    binaries: Option<PathBuf>,
}

fn known() -> String {
    let lines = workloads::ALL.iter().map(|workload| format!("  {:18} {}\n", workload.name, workload.what));
    format!("Workloads:\n{}\nAllocators: {}", lines.collect::<String>(), allocators::names().join(", "))
}

pub(crate) fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if number > 0.0 && number.is_finite() { Ok(number) } else { Err("must be positive".to_owned()) }
}

pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    Duration::try_from_secs_f64(positive(text)?).map_err(|error| format!("{error}"))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Report> {
    let workloads = wanted_workloads(&args.workloads);
    ensure!(workloads.iter().any(|(_, known)| known.is_ok()), "no known workload is left\n{}", known());
    let mut allocators = Allocator::parse_list(&args.allocators);
    let baseline = allocators::baseline(&mut allocators, args.baseline.as_deref())?;
    build::prepare(&mut allocators, args.binaries.as_deref())?;
    if allocators.iter().all(|allocator| allocator.program.is_err()) {
        bail!("no allocator is left: {}", allocators::problems(&allocators));
    }
    let (cgroups, no_cgroup) = match Cgroups::new() {
        Ok(cgroups) => (Some(cgroups), None),
        Err(error) => (None, Some(error)),
    };
    let plan = Plan {
        runs: if args.quick { 1 } else { args.runs },
        scale: if args.quick { args.scale / 10.0 } else { args.scale },
        timeout: args.timeout,
        cgroups: cgroups.as_ref(),
    };
    let table = rounds::run_all(workloads, allocators, baseline, &plan);

    let mut report = Report::new("compare");
    tables::add(&mut report, &table, &plan)?;
    if let Some(error) = no_cgroup {
        report.add_note(format!("No memory cgroup ({error:#}): peaks are of Pss, looked at every few milliseconds."));
    }
    if !args.quick {
        limits::judge(&mut report, &table);
    }
    if let Some(file) = &args.csv {
        rows::write_csv(file, &table).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if let Some(file) = &args.svg {
        chart::draw(file, &table).with_context(|| format!("cannot draw {}", file.display()))?;
    }
    Ok(report)
}

/// The workloads by name, unknown ones too.
fn wanted_workloads(names: &[String]) -> Vec<(String, Result<&'static Workload, Failure>)> {
    if names.is_empty() {
        return workloads::ALL.iter().map(|workload| (workload.name.to_owned(), Ok(workload))).collect();
    }
    let found = |name: &String| (name.clone(), Workload::named(name).ok_or(Failure::UnknownWorkload));
    names.iter().map(found).collect()
}
