//! The figures for machines: a flat row for each workload and allocator, the means, and every run.

use std::path::Path;

use serde::Serialize;

use crate::compare::figures::{CPU, FINAL, Figure, MAJOR_FAULTS, MINOR_FAULTS, PEAK, Row, Table, WALL};
use crate::compare::process::Run;

/// One workload on one allocator. Ratios are to the baseline; spreads are half of the range, as a share of the median.
#[derive(Serialize)]
pub(crate) struct Found<'a> {
    workload: &'a str,
    allocator: &'a str,
    failure: Option<String>,
    runs: usize,
    cpu_s: Option<f64>,
    cpu_spread: Option<f64>,
    cpu_ratio: Option<f64>,
    wall_s: Option<f64>,
    wall_spread: Option<f64>,
    wall_ratio: Option<f64>,
    peak_mib: Option<f64>,
    peak_spread: Option<f64>,
    peak_ratio: Option<f64>,
    final_pss_mib: Option<f64>,
    final_pss_ratio: Option<f64>,
    minor_faults: Option<f64>,
    major_faults: Option<f64>,
}

/// The geometric means of one allocator's ratios to the baseline.
#[derive(Serialize)]
pub(crate) struct Means<'a> {
    allocator: &'a str,
    cpu_ratio: Option<f64>,
    wall_ratio: Option<f64>,
    peak_ratio: Option<f64>,
    final_pss_ratio: Option<f64>,
}

/// One run.
#[derive(Serialize)]
pub(crate) struct Single<'a> {
    workload: &'a str,
    allocator: &'a str,
    #[serde(flatten)]
    run: &'a Run,
}

pub(crate) fn all(table: &Table) -> Vec<Found<'_>> {
    table.rows.iter().flat_map(|row| (0..table.allocators.len()).map(|place| found(table, row, place))).collect()
}

fn found<'a>(table: &'a Table, row: &'a Row, place: usize) -> Found<'a> {
    let value = |figure: Figure| row.middle(place, figure).map(|middle| middle.value);
    let spread = |figure: Figure| row.middle(place, figure).map(|middle| middle.spread);
    let ratio = |figure: Figure| row.ratio(place, table.baseline, figure);
    let measured = &row.measured[place];
    Found {
        workload: &row.workload,
        allocator: &table.allocators[place].name,
        failure: measured.as_ref().err().map(ToString::to_string),
        runs: measured.as_ref().map_or(0, Vec::len),
        cpu_s: value(CPU),
        cpu_spread: spread(CPU),
        cpu_ratio: ratio(CPU),
        wall_s: value(WALL),
        wall_spread: spread(WALL),
        wall_ratio: ratio(WALL),
        peak_mib: value(PEAK),
        peak_spread: spread(PEAK),
        peak_ratio: ratio(PEAK),
        final_pss_mib: value(FINAL),
        final_pss_ratio: ratio(FINAL),
        minor_faults: value(MINOR_FAULTS),
        major_faults: value(MAJOR_FAULTS),
    }
}

pub(crate) fn means(table: &Table) -> Vec<Means<'_>> {
    let means = table.allocators.iter().enumerate().map(|(place, allocator)| {
        let mean = |figure| table.mean(place, table.baseline, figure);
        Means {
            allocator: &allocator.name,
            cpu_ratio: mean(CPU),
            wall_ratio: mean(WALL),
            peak_ratio: mean(PEAK),
            final_pss_ratio: mean(FINAL),
        }
    });
    means.collect()
}

pub(crate) fn runs(table: &Table) -> Vec<Single<'_>> {
    let mut runs = Vec::new();
    for row in &table.rows {
        for (measured, allocator) in row.measured.iter().zip(&table.allocators) {
            let single = |run| Single { workload: &row.workload, allocator: &allocator.name, run };
            runs.extend(measured.iter().flatten().map(single));
        }
    }
    runs
}

/// Writes the rows as lines of comma-separated values.
pub(crate) fn write_csv(file: &Path, table: &Table) -> anyhow::Result<()> {
    let mut writer = csv::Writer::from_path(file)?;
    for row in all(table) {
        writer.serialize(row)?;
    }
    Ok(writer.flush()?)
}
