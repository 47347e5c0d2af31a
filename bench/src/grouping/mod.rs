//! `grouping`: the search for groups of spans that fit together, alone: what it leaves, what it costs, how it grows.

mod growth;
mod pairing;
mod spans;
mod yields;

use crate::measure::progress;
use crate::report::Report;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The seed of the spans
    #[arg(long, default_value_t = 2019)]
    seed: u64,
    /// Runs of which the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Report> {
    let bar = progress("grouping", yields::CASES + growth::CASES);
    let mut rng = fastrand::Rng::with_seed(args.seed);
    let yields = yields::measure(&mut rng, args.runs, &bar);
    let series = growth::measure(&mut rng, args.runs, &bar);
    bar.finish_and_clear();

    let mut report = Report::new("grouping");
    yields::add(&mut report, &yields)?;
    growth::add(&mut report, &series)?;
    Ok(report)
}
