//! Measures what meshheap costs and what it saves. Each subcommand prints a table for people, writes the same figures as JSON
//! for machines, and compares them with the project's limits.
//!
//! | subcommand | measures |
//! |---|---|
//! | `residue` | memory that a fragmented heap still holds after meshing, and metadata |
//! | `grouping` | the search for groups alone: yield, time, growth |
//! | `runs` | what a large heap gives back when mappings are scarce |
//! | `fastpath` | `LocalHeap::alloc` and `dealloc`, hot, against a bare array |
//! | `faults` | page faults a second with budgets and without, and what counting every byte costs |
//! | `comeback` | memory that programs still hold after their load has ended, on meshheap and on other allocators |
//! | `compare` | programs on meshheap as the global allocator, and on other allocators |
//!
//! Exit code: 0, but 1 if `--check` was given and a limit was missed or its figure could not be measured (no valgrind), or if
//! `compare` or `comeback` had runs that failed, and 2 if the benchmark itself failed, be it that a surviving object's bytes were not its
//! own.

mod comeback;
mod compare;
mod fastpath;
mod faults;
mod grouping;
mod machine;
mod measure;
mod report;
mod residue;
mod runs;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::report::{Output, Report};

#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    output: Output,
}

#[derive(Subcommand)]
enum Command {
    /// Memory that a fragmented heap holds after meshing, as a multiple of its live bytes
    Residue(residue::Args),
    /// The search for groups of spans that fit together, alone
    Grouping(grouping::Args),
    /// What a large heap of mixed sizes gives back when mappings are scarce (takes 5 GiB of memory)
    Runs(runs::Args),
    /// One hot allocation and free, against a bare array push and pop
    Fastpath(fastpath::Args),
    /// Page faults a second of CPU time with budgets and without, and pairs that count every byte
    Faults(faults::Args),
    /// Memory that comes back after a load has ended, on meshheap and on other allocators
    Comeback(comeback::Args),
    /// Programs on meshheap and on other allocators: CPU time, memory, page faults
    Compare(compare::Args),
    /// What `fastpath` runs under callgrind
    #[command(hide = true)]
    FastpathLoop(fastpath::LoopArgs),
    /// One measurement of `faults`, without a budget
    #[command(hide = true)]
    FaultsTouch(faults::TouchArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli.command)
        .and_then(|report| report.map_or(Ok(ExitCode::SUCCESS), |report| report.publish(&cli.output)))
    {
        Ok(code) => code,
        Err(error) => {
            eprintln!("meshheap-bench: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(command: &Command) -> anyhow::Result<Option<Report>> {
    match command {
        Command::Residue(args) => residue::run(args).map(Some),
        Command::Grouping(args) => grouping::run(args).map(Some),
        Command::Runs(args) => runs::run(args).map(Some),
        Command::Fastpath(args) => fastpath::run(args).map(Some),
        Command::Faults(args) => faults::run(args).map(Some),
        Command::Comeback(args) => comeback::run(args).map(Some),
        Command::Compare(args) => compare::run(args).map(Some),
        Command::FastpathLoop(args) => fastpath::run_loop(args).map(|()| None),
        Command::FaultsTouch(args) => faults::run_touch(args).map(|()| None),
    }
}
