//! One scenario on one allocator.

use workloads::comeback::{Scenario, Seen};

use crate::comeback::Args;
use crate::compare::allocators::Allocator;
use crate::compare::failure::Failure;
use crate::compare::process;

/// The program's own threads: alone, and with one that sleeps.
pub(super) const THREADS: [usize; 2] = [1, 2];

/// How it went.
pub(super) struct Trial {
    pub(super) scenario: &'static str,
    pub(super) allocator: String,
    pub(super) threads: usize,
    pub(super) outcome: Result<Figures, Failure>,
}

pub(super) struct Figures {
    pub(super) seen: Seen,
    /// Of the whole process, in user and kernel mode. The looks at its memory are part of it.
    pub(super) cpu_s: f64,
}

pub(super) fn run(scenario: &Scenario, allocator: &Allocator, threads: usize, args: &Args) -> Trial {
    Trial {
        scenario: scenario.name,
        allocator: allocator.name.clone(),
        threads,
        outcome: figures(scenario, allocator, threads, args),
    }
}

fn figures(scenario: &Scenario, allocator: &Allocator, threads: usize, args: &Args) -> Result<Figures, Failure> {
    let program = allocator.program.as_ref().map_err(Clone::clone)?;
    let numbers = [threads.to_string(), args.idle.as_secs_f64().to_string(), args.scale.to_string()];
    let arguments = ["comeback", scenario.name, &numbers[0], &numbers[1], &numbers[2]];
    let child = process::command(program, &arguments, None).spawn();
    let child = child.map_err(|error| Failure::Crashed(format!("cannot start: {error}")))?;
    let ended = process::watch(child, args.timeout, false)?;
    let usage = ended.usage.rusage;
    Ok(Figures { seen: process::outcome(&ended)?, cpu_s: (usage.utime + usage.stime).as_secs_f64() })
}

/// The objects that are left are the same on every allocator: a run whose checksum differs from that of the scenario's first is
/// a failure.
pub(super) fn compare_checksums(trials: &mut [Trial]) {
    let mut first: Option<(&str, u64)> = None;
    for trial in trials {
        let Ok(figures) = &trial.outcome else { continue };
        match first {
            Some((scenario, checksum)) if scenario == trial.scenario => {
                if checksum != figures.seen.checksum {
                    trial.outcome = Err(Failure::WrongResult);
                }
            }
            _ => first = Some((trial.scenario, figures.seen.checksum)),
        }
    }
}
