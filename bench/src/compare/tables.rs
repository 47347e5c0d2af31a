//! The tables for people.

use comfy_table::{Cell, Color};

use crate::compare::allocators;
use crate::compare::failure::Failure;
use crate::compare::figures::{CPU, FINAL, Figure, Middle, PEAK, Row, Table};
use crate::compare::process::Run;
use crate::compare::rounds::Plan;
use crate::compare::rows;
use crate::report::{Report, table_of};

/// Adds everything.
pub(crate) fn add(report: &mut Report, table: &Table, plan: &Plan<'_>) -> anyhow::Result<()> {
    for figure in [CPU, PEAK, FINAL] {
        add_figure(report, table, figure);
    }
    report.add_note(format!(
        "Medians of {} runs at scale {}, as multiples of {}; in brackets half of the range, as a share. Less is better.",
        plan.runs,
        plan.scale,
        table.allocators[table.baseline].name
    ));
    add_failures(report, table);
    add_missing(report, table);
    report.add_rows("scale", &plan.scale)?;
    report.add_rows("peak_by_cgroup", &plan.cgroups.is_some())?;
    report.add_rows("baseline", &table.allocators[table.baseline].name)?;
    report.add_rows("rows", &rows::all(table))?;
    report.add_rows("means", &rows::means(table))?;
    report.add_rows("runs", &rows::runs(table))
}

/// One figure of everything, the baseline's own first.
fn add_figure(report: &mut Report, table: &Table, figure: Figure) {
    let baseline = &table.allocators[table.baseline].name;
    let mut heads = vec!["workload".to_owned(), format!("{baseline}, {}", figure.unit)];
    let others = || (0..table.allocators.len()).filter(|&place| place != table.baseline);
    heads.extend(others().map(|place| table.allocators[place].name.clone()));
    let mut lines = table_of(heads);
    for row in &table.rows {
        let mut cells = vec![Cell::new(&row.workload), absolute(row, table.baseline, figure)];
        cells.extend(others().map(|place| relative(row, place, table.baseline, figure)));
        lines.add_row(cells);
    }
    let mut means = vec![Cell::new("geometric mean"), Cell::new("1.00")];
    means.extend(others().map(|place| coloured(table.mean(place, table.baseline, figure), None)));
    lines.add_row(means);
    report.add_table(figure.name, lines);
}

fn absolute(row: &Row, place: usize, figure: Figure) -> Cell {
    let middle = row.middle(place, figure);
    let text = |Middle { value, spread }| format!("{value:.*} ({:.0} %)", figure.decimals, spread * 100.0);
    middle.map_or_else(|| failed(row, place), |middle| Cell::new(text(middle)))
}

fn relative(row: &Row, place: usize, baseline: usize, figure: Figure) -> Cell {
    match (row.ratio(place, baseline, figure), row.middle(place, figure)) {
        (Some(ratio), Some(middle)) => coloured(Some(ratio), Some(middle.spread)),
        // No baseline to refer to: the figure itself.
        (None, Some(_)) => absolute(row, place, figure),
        _ => failed(row, place),
    }
}

/// Green from a tenth below the baseline, red from a tenth above.
fn coloured(ratio: Option<f64>, spread: Option<f64>) -> Cell {
    let Some(ratio) = ratio else { return Cell::new("-") };
    let spread = spread.map_or_else(String::new, |spread| format!(" ({:.0} %)", spread * 100.0));
    let cell = Cell::new(format!("{ratio:.2}{spread}"));
    match ratio {
        ..=0.9 => cell.fg(Color::Green),
        1.1.. => cell.fg(Color::Red),
        _ => cell,
    }
}

fn failed(row: &Row, place: usize) -> Cell {
    let label = row.measured[place].as_ref().err().map_or("-", Failure::label);
    Cell::new(label).fg(Color::Red)
}

/// What failed, each with its reason. An allocator that cannot run at all is named once.
fn add_failures(report: &mut Report, table: &Table) {
    for allocator in &table.allocators {
        if let Err(failure) = &allocator.program {
            report.add_failure(format!("{}: {failure}", allocator.name));
        }
    }
    let mut unknown = table.allocators.iter().any(|allocator| allocator.program == Err(Failure::UnknownAllocator));
    for row in &table.rows {
        if row.measured.iter().any(|measured| measured.as_ref().err() == Some(&Failure::UnknownWorkload)) {
            report.add_failure(format!("{}: unknown workload", row.workload));
            unknown = true;
        }
    }
    for (row, allocator, failure) in table.failures() {
        if allocator.program.is_ok() && *failure != Failure::UnknownWorkload {
            report.add_failure(format!("{} on {}: {failure}", row.workload, allocator.name));
        }
    }
    if unknown {
        let names: Vec<_> = workloads::ALL.iter().map(|workload| workload.name).collect();
        report.add_note(format!("Workloads: {}.", names.join(", ")));
        report.add_note(format!("Allocators: {}, and NAME=/path/to/lib.so.", allocators::names().join(", ")));
    }
}

/// Says once what no run could measure.
fn add_missing(report: &mut Report, table: &Table) {
    let runs: Vec<&Run> = table.rows.iter().flat_map(|row| row.measured.iter().flatten().flatten()).collect();
    let missing = |what: &str, is: &dyn Fn(&Run) -> bool| runs.iter().any(|run| is(run)).then(|| what.to_owned());
    let missing: Vec<String> = [
        missing("peak memory", &|run| run.peak_bytes.is_none()),
        missing("memory at the end", &|run| run.final_pss_bytes.is_none()),
        missing("page faults", &|run| run.minor_faults.is_none()),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !missing.is_empty() {
        report.add_note(format!("Not measured, or not in all runs: {}.", missing.join(", ")));
    }
}
