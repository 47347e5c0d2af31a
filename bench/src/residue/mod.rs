//! `residue`: how much memory a fragmented heap still holds after meshing, as a multiple of its live bytes.
//!
//! For each scenario a heap is filled through one local heap, most objects are freed, the local heap is flushed, and meshing
//! runs until it has nothing more to do; then every surviving byte is verified. A second heap of the same kind is meshed in
//! steps of 1 ms, to see the longest pause. A recorded program's states, most of which end, are the scenario that nobody made up.

mod heap;
mod metadata;
mod passes;
mod population;
mod scenario;
mod table;
mod trace;
mod trial;

use anyhow::ensure;

use crate::measure::progress;
use crate::report::Report;
use crate::residue::scenario::Scenario;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Add heaps of 256 MiB and 1 GiB (takes 2 GiB of memory and a minute)
    #[arg(long)]
    large: bool,
    /// The seed of all placement and of the choice of survivors
    #[arg(long, default_value_t = 2019)]
    seed: u64,
    /// Only scenarios with objects of this many bytes
    #[arg(long, value_name = "BYTES")]
    size: Option<usize>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Report> {
    let mut scenarios = Scenario::standard();
    if args.large {
        scenarios.extend(Scenario::large());
    }
    scenarios.retain(|scenario| args.size.is_none_or(|size| scenario.size == size));
    ensure!(!scenarios.is_empty(), "no scenario has objects of that size");
    let bar = progress("residue", scenarios.len() + 3);
    // What the program itself touches for the first time must not count for the first scenario.
    trial::run(Scenario::rehearsal(), args.seed)?;
    let mut trials = Vec::new();
    for scenario in scenarios {
        bar.set_message(scenario.to_string());
        trials.push(trial::run(scenario, args.seed)?);
        bar.inc(1);
    }
    bar.set_message("a recorded program");
    let traced = trace::run_all(args.seed)?;
    bar.inc(1);
    bar.set_message("metadata of a full heap");
    let full = metadata::of_a_full_heap(args.seed)?;
    bar.inc(1);
    bar.set_message("idle local heap");
    let idle = metadata::of_an_idle_local_heap(args.seed)?;
    bar.finish_and_clear();

    let mut report = Report::new("residue");
    table::add_trials(&mut report, &trials)?;
    table::add_traced(&mut report, &traced)?;
    table::add_metadata(&mut report, &full, &idle)?;
    Ok(report)
}
