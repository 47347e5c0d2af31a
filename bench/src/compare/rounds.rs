//! Who runs when.

use core::time::Duration;

use workloads::Workload;

use crate::compare::allocators::{Allocator, Program};
use crate::compare::cgroup::Cgroups;
use crate::compare::failure::Failure;
use crate::compare::figures::{Measured, Row, Table};
use crate::compare::process::{self, Run};
use crate::measure::progress;

/// How everything is run.
pub(crate) struct Plan<'a> {
    pub(crate) runs: u32,
    pub(crate) scale: f64,
    pub(crate) timeout: Duration,
    pub(crate) cgroups: Option<&'a Cgroups>,
}

/// Runs every workload on every allocator.
pub(crate) fn run_all(
    workloads: Vec<(String, Result<&'static Workload, Failure>)>,
    allocators: Vec<Allocator>,
    baseline: usize,
    plan: &Plan<'_>,
) -> Table {
    let bar = progress("compare", workloads.len() * allocators.len() * plan.runs as usize);
    let mut rows = Vec::new();
    for (name, workload) in workloads {
        let measured = match workload {
            Ok(workload) => interleaved(workload, &allocators, plan, &|allocator| {
                bar.set_message(format!("{name} on {}", allocator.name));
                bar.inc(1);
            }),
            Err(failure) => vec![Err(failure); allocators.len()],
        };
        rows.push(Row { workload: name, measured: compared(measured, baseline) });
    }
    bar.finish_and_clear();
    Table { allocators, baseline, rows }
}

/// Runs one workload on all allocators in turn.
fn interleaved(
    workload: &Workload,
    allocators: &[Allocator],
    plan: &Plan<'_>,
    tell: &dyn Fn(&Allocator),
) -> Vec<Measured> {
    let mut measured: Vec<Measured> = allocators
        .iter()
        .map(|allocator| allocator.program.as_ref().map(|_| Vec::new()).map_err(Clone::clone))
        .collect();
    for _ in 0..plan.runs {
        for (allocator, measured) in allocators.iter().zip(&mut measured) {
            tell(allocator);
            let (Ok(program), Ok(runs)) = (&allocator.program, &mut *measured) else { continue };
            match run_warm(program, workload, plan) {
                Ok(run) => runs.push(run),
                Err(failure) => *measured = Err(failure),
            }
        }
    }
    measured
}

/// Runs the program twice and counts the second run. A virtual machine gives free memory back to its host, and the first
/// touch after that costs several times as much: a quarter of a second for 100 MiB, more than some workloads take. Only the
/// same program's run just before warms what this one gets: the kernel has lists of their own for pages and huge pages.
fn run_warm(program: &Program, workload: &Workload, plan: &Plan<'_>) -> Result<Run, Failure> {
    process::run(program, workload, plan)?;
    process::run(program, workload, plan)
}

/// Compares the checksums with the baseline's, or with the first that there is.
fn compared(mut measured: Vec<Measured>, baseline: usize) -> Vec<Measured> {
    let first = |runs: &[Run]| runs.first().map(|run| run.checksum);
    let reference = measured[baseline].iter().chain(measured.iter().flatten()).find_map(|runs| first(runs));
    for measured in &mut measured {
        if measured.as_ref().is_ok_and(|runs| runs.iter().any(|run| Some(run.checksum) != reference)) {
            *measured = Err(Failure::WrongResult);
        }
    }
    measured
}
