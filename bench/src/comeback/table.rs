//! The figures as tables, and the project's limits for meshheap.

use comfy_table::{Cell, Color, Row, Table};
use serde::Serialize;
use workloads::comeback::Scenario;

use crate::comeback::trial::{Figures, Trial};
use crate::measure::{mib, ratio};
use crate::report::{Report, judged_cell, table};

/// The allocator that has to keep the limits.
const OURS: &str = "meshheap-auto";

/// The most that a scenario may come to.
#[derive(Default)]
struct Limits {
    peak_per_most_live: Option<f64>,
    held_per_live: Option<f64>,
    held_mib: Option<f64>,
}

fn limits_of(scenario: &str) -> Limits {
    match scenario {
        "power-law" => Limits { held_per_live: Some(1.8), ..Limits::default() },
        "doubling" | "doubling-nonstop" => {
            Limits { peak_per_most_live: Some(1.3), held_per_live: Some(1.5), ..Limits::default() }
        }
        "all-freed" => Limits { held_mib: Some(8.0), ..Limits::default() },
        _ => Limits::default(),
    }
}

/// One trial for machines.
#[derive(Serialize)]
struct Found<'a> {
    scenario: &'a str,
    allocator: &'a str,
    threads: usize,
    failure: Option<String>,
    live_mib: Option<f64>,
    most_live_mib: Option<f64>,
    peak_mib: Option<f64>,
    peak_per_most_live: Option<f64>,
    loaded_mib: Option<f64>,
    held_mib: Option<f64>,
    /// None if nothing is live.
    held_per_live: Option<f64>,
    cpu_s: Option<f64>,
}

/// Adds a table for each scenario. Limits are for scale 1.
pub(super) fn add(report: &mut Report, scenarios: &[&Scenario], trials: &[Trial], scale: f64) -> anyhow::Result<()> {
    let found: Vec<Found<'_>> = trials.iter().map(found).collect();
    for scenario in scenarios {
        let of_this = || found.iter().filter(|found| found.scenario == scenario.name);
        let limits = if scale == 1.0 { limits_of(scenario.name) } else { Limits::default() };
        report.add_table(format!("{}: {}", scenario.name, scenario.what), figures(of_this(), &limits));
        of_this().filter(|found| found.allocator == OURS).for_each(|found| judge(report, found, &limits));
    }
    add_failures(report, trials);
    report.add_note(
        "MiB of Pss, without what the program had at its start; \"loaded\" is the end of the load, \"held\" the end of the idle \
         time. Of two threads, one only sleeps.",
    );
    report.add_rows("scale", &scale)?;
    report.add_rows("rows", &found)
}

fn found(trial: &Trial) -> Found<'_> {
    let figures = trial.outcome.as_ref().ok();
    let bytes = |of: fn(&Figures) -> Option<usize>| figures.and_then(of);
    let live = bytes(|figures| Some(figures.seen.live_bytes));
    let most_live = bytes(|figures| Some(figures.seen.most_live_bytes));
    let peak = bytes(|figures| figures.seen.peak_pss_bytes);
    let held = bytes(|figures| figures.seen.held_pss_bytes);
    let per = |part: Option<usize>, whole: Option<usize>| Some(ratio(part?, whole.filter(|&whole| whole > 0)?));
    Found {
        scenario: trial.scenario,
        allocator: &trial.allocator,
        threads: trial.threads,
        failure: trial.outcome.as_ref().err().map(ToString::to_string),
        live_mib: live.map(mib),
        most_live_mib: most_live.map(mib),
        peak_mib: peak.map(mib),
        peak_per_most_live: per(peak, most_live),
        loaded_mib: bytes(|figures| figures.seen.loaded_pss_bytes).map(mib),
        held_mib: held.map(mib),
        held_per_live: per(held, live),
        cpu_s: figures.map(|figures| figures.cpu_s),
    }
}

fn figures<'a>(all: impl Iterator<Item = &'a Found<'a>>, limits: &Limits) -> Table {
    let mut lines = table([
        "allocator",
        "threads",
        "most live",
        "peak",
        "peak/live",
        "live",
        "loaded",
        "held",
        "held/live",
        "CPU s",
    ]);
    lines.add_rows(all.map(|found| row(found, limits)));
    lines
}

fn row(found: &Found<'_>, limits: &Limits) -> Row {
    let heads = [Cell::new(found.allocator), Cell::new(found.threads)];
    if let Some(failure) = &found.failure {
        return Row::from(heads.into_iter().chain([Cell::new(failure).fg(Color::Red)]).collect::<Vec<_>>());
    }
    let cell = |value: Option<f64>, limit| value.map_or_else(|| Cell::new("-"), |value| judged_cell(value, limit));
    let figures = [
        cell(found.most_live_mib, None),
        cell(found.peak_mib, None),
        cell(found.peak_per_most_live, limits.peak_per_most_live),
        cell(found.live_mib, None),
        cell(found.loaded_mib, None),
        cell(found.held_mib, limits.held_mib),
        cell(found.held_per_live, limits.held_per_live),
        cell(found.cpu_s, None),
    ];
    Row::from(heads.into_iter().chain(figures).collect::<Vec<_>>())
}

fn judge(report: &mut Report, found: &Found<'_>, limits: &Limits) {
    let mut judge = |what: &str, value, limit: Option<f64>| {
        if let Some(limit) = limit {
            report.judge(format!("{}, threads: {}: {what}", found.scenario, found.threads), value, limit);
        }
    };
    judge("peak / most live", found.peak_per_most_live, limits.peak_per_most_live);
    judge("held / live", found.held_per_live, limits.held_per_live);
    judge("held MiB", found.held_mib, limits.held_mib);
}

fn add_failures(report: &mut Report, trials: &[Trial]) {
    for trial in trials {
        if let Err(failure) = &trial.outcome {
            let Trial { scenario, allocator, threads, .. } = trial;
            report.add_failure(format!("{scenario} on {allocator}, threads: {threads}: {failure}"));
        }
    }
}
