//! `comeback`: memory that programs hold after their load has ended, and at most before, on meshheap and on other allocators.
//!
//! Each scenario runs as a process of its own, on each allocator with one thread and with a second one that sleeps: meshheap has
//! a thread of its own in programs that have several, and else works only when the program allocates. In its idle time a program
//! sleeps, but for a timer that allocates and frees a handful of small objects ten times a second.

mod table;
mod trial;

use core::time::Duration;
use std::path::PathBuf;

use anyhow::{bail, ensure};
use workloads::comeback::{ALL, Scenario};

use crate::compare::allocators::{self, Allocator};
use crate::compare::{build, positive, seconds};
use crate::measure::progress;
use crate::report::Report;

#[derive(clap::Args)]
#[command(after_help = known())]
pub(crate) struct Args {
    /// The scenarios; all of them by default
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<String>,
    /// The allocators that are linked in, by commas
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "meshheap-auto,system,mimalloc,jemalloc")]
    allocators: Vec<String>,
    /// Libraries to preload, besides
    #[arg(long, value_name = "NAME=LIBRARY", num_args = 1..)]
    preload: Vec<String>,
    /// How many seconds the programs are idle
    #[arg(long, default_value = "5", value_name = "SECONDS", value_parser = seconds)]
    idle: Duration,
    /// How much they allocate; the limits are for 1
    #[arg(long, default_value_t = 1.0, value_parser = positive)]
    scale: f64,
    /// How many seconds a run may take
    #[arg(long, default_value = "120", value_name = "SECONDS", value_parser = seconds)]
    timeout: Duration,
    /// Where the programs are. Without it they are built
    #[arg(long, value_name = "FOLDER")]
    binaries: Option<PathBuf>,
}

fn known() -> String {
    let lines = ALL.iter().map(|scenario| format!("  {:18} {}\n", scenario.name, scenario.what));
    format!("Scenarios:\n{}\nAllocators: {}", lines.collect::<String>(), allocators::names().join(", "))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Report> {
    let (scenarios, unknown) = wanted_scenarios(&args.scenarios);
    ensure!(!scenarios.is_empty(), "no known scenario is left\n{}", known());
    let names: Vec<_> = args.allocators.iter().chain(&args.preload).cloned().collect();
    let mut allocators = Allocator::parse_list(&names);
    build::prepare(&mut allocators, args.binaries.as_deref())?;
    if allocators.iter().all(|allocator| allocator.program.is_err()) {
        bail!("no allocator is left: {}", allocators::problems(&allocators));
    }
    let mut report = Report::new("comeback");
    for name in unknown {
        report.add_failure(format!("{name}: unknown scenario; known:\n{}", known()));
    }
    for allocator in &allocators {
        if let Err(failure) = &allocator.program {
            report.add_failure(format!("{}: {failure}", allocator.name));
        }
    }
    let trials = run_all(&scenarios, &allocators, args);
    table::add(&mut report, &scenarios, &trials, args.scale)?;
    Ok(report)
}

fn wanted_scenarios(names: &[String]) -> (Vec<&'static Scenario>, Vec<&String>) {
    if names.is_empty() {
        return (ALL.iter().collect(), Vec::new());
    }
    let (found, unknown): (Vec<_>, Vec<_>) = names.iter().partition(|name| Scenario::named(name).is_some());
    (found.into_iter().filter_map(|name| Scenario::named(name)).collect(), unknown)
}

fn run_all(scenarios: &[&'static Scenario], allocators: &[Allocator], args: &Args) -> Vec<trial::Trial> {
    let usable: Vec<_> = allocators.iter().filter(|allocator| allocator.program.is_ok()).collect();
    let bar = progress("comeback", scenarios.len() * usable.len() * trial::THREADS.len());
    let mut trials = Vec::new();
    for scenario in scenarios {
        for threads in trial::THREADS {
            for allocator in &usable {
                bar.set_message(format!("{} on {}", scenario.name, allocator.name));
                trials.push(trial::run(scenario, allocator, threads, args));
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    trial::compare_checksums(&mut trials);
    trials
}
