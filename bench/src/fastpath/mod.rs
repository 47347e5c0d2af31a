//! `fastpath`: one hot `LocalHeap::alloc` and `dealloc` of a 64-byte object, against a bare array's pop and push of the same
//! pointer: in instructions, exactly, by callgrind, and in CPU time.
//!
//! The array is one that can be empty and full, and says so: a heap must know as much. What a program pays that never
//! looks is shown, too, as a floor.

mod array;
mod barrier;
mod callgrind;
mod loops;
mod table;
mod timing;

use clap::ValueEnum;

use crate::measure::progress;
use crate::report::Report;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Rounds of timing, all loops in each; the medians count
    #[arg(long, default_value_t = 101, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// What callgrind runs.
#[derive(clap::Args)]
pub(crate) struct LoopArgs {
    kind: Kind,
    pairs: u64,
}

/// The loops. In each the compiler has to assume that everything it works on changes between any two operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Kind {
    /// Nothing but the loop.
    Empty,
    /// Pop and push of an array, without a look at its bounds.
    UncheckedArray,
    /// Pop and push of an array that can be empty and full.
    Array,
    /// `alloc` and `dealloc` with a layout that the compiler knows.
    Known,
    /// `alloc` and `dealloc` with a layout that the compiler does not know.
    Unknown,
}

/// What was found of one loop, for one pair.
pub(crate) struct Found {
    pub(crate) kind: Kind,
    /// Without the loop's own.
    pub(crate) instructions: Option<f64>,
    /// With the loop's own: the processor does both at once.
    pub(crate) nanoseconds: f64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Report> {
    let kinds = Kind::value_variants();
    let bar = progress("fastpath", args.rounds as usize + 2 * kinds.len());
    let times = timing::measure(kinds, args.rounds, &bar)?;
    let counted = callgrind::measure(kinds, &bar);
    bar.finish_and_clear();
    let loop_alone = kinds.iter().position(|&kind| kind == Kind::Empty).expect("the loop alone is measured, too");
    let found = kinds.iter().enumerate().map(|(at, &kind)| Found {
        kind,
        instructions: counted.as_ref().ok().map(|counted| counted[at] - counted[loop_alone]),
        nanoseconds: times[at],
    });
    let mut report = Report::new("fastpath");
    table::add(&mut report, &found.collect::<Vec<_>>())?;
    if let Err(error) = counted {
        report.add_note(format!("Instructions were not counted: {error:#}"));
    }
    Ok(report)
}

pub(crate) fn run_loop(args: &LoopArgs) -> anyhow::Result<()> {
    loops::Loops::with(|loops| loops.run(args.kind, args.pairs))
}
