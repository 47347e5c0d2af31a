//! The figures as tables, and their limits.

use comfy_table::{Cell, Row};

use crate::measure::mib;
use crate::report::{Report, judged_cell, optional, table};
use crate::residue::metadata::{FULL_HEAP_LIMIT_PERCENT, FullHeap, IDLE_LIMIT_KIB, IdleLocalHeap};
use crate::residue::trace::Traced;
use crate::residue::trial::Trial;

/// Adds the residue of all scenarios.
pub(crate) fn add_trials(report: &mut Report, trials: &[Trial]) -> anyhow::Result<()> {
    let mut figures = table([
        "object",
        "left",
        "heap MiB",
        "live MiB",
        "before",
        "held/live",
        "Pss/live",
        "limit",
        "metadata",
        "passes",
        "CPU ms",
        "pages meshed",
        "mappings",
        "longest us",
        "its CPU us",
    ]);
    for trial in trials {
        figures.add_row(row(trial));
        if let Some(limit) = trial.limit {
            let name = format!("{} B, {} left", trial.object_size, trial.survivors);
            report.judge(format!("{name}: held / live"), trial.held_per_live, limit);
            report.judge(format!("{name}: Pss / live"), trial.pss_per_live, limit);
        }
    }
    report.add_rows("residue", &trials)?;
    report.add_table("Memory held after meshing, for each live byte (metadata included)", figures);
    add_notes(report, trials);
    Ok(())
}

fn row(trial: &Trial) -> Row {
    let live = trial.live_bytes as f64;
    Row::from(vec![
        Cell::new(format!("{} B", trial.object_size)),
        Cell::new(format!("{}{}", trial.survivors, if trial.slot_order == "shuffle" { ", shuffled" } else { "" })),
        Cell::new(format!("{:.0}", mib(trial.heap_bytes))),
        Cell::new(format!("{:.2}", mib(trial.live_bytes))),
        Cell::new(format!("{:.2}", trial.held_before_bytes as f64 / live)),
        judged_cell(trial.held_per_live, trial.limit),
        trial.pss_per_live.map_or_else(|| Cell::new("-"), |pss| judged_cell(pss, trial.limit)),
        Cell::new(optional(trial.limit, 2)),
        Cell::new(format!("{:.2}", trial.metadata_bytes as f64 / live)),
        Cell::new(trial.whole.passes),
        Cell::new(format!("{:.1}", trial.whole.cpu_ms)),
        Cell::new(trial.whole.pages_meshed),
        Cell::new(format!("{}{}", trial.mappings, if trial.whole.mappings_used_up { " (all)" } else { "" })),
        Cell::new(format!("{:.0}", trial.stepped.longest_step_us)),
        Cell::new(format!("{:.0}", trial.stepped.longest_step_cpu_us)),
    ])
}

fn add_notes(report: &mut Report, trials: &[Trial]) {
    let Some(first) = trials.first() else { return };
    report.add_note(format!(
        "All within the default mapping budget of {}. \"before\" and \"metadata\" are multiples of the live bytes, too. \
         \"longest\" is the longest of steps of 1 ms, of a second heap, by the wall clock and in CPU time.",
        first.mapping_budget
    ));
    if trials.iter().any(|trial| trial.pss_bytes.is_none()) {
        report.add_note("Pss could not be read: no /proc/self/smaps_rollup.");
    }
}

/// Adds the recorded program.
pub(crate) fn add_traced(report: &mut Report, traced: &[Traced]) -> anyhow::Result<()> {
    let mut figures = table([
        "states left",
        "slots",
        "live MiB",
        "before",
        "held/live",
        "passes",
        "pages meshed",
        "CPU ms",
        "replay CPU ms",
    ]);
    for row in traced {
        figures.add_row(vec![
            Cell::new(if row.one_in == 1 { "all".to_owned() } else { format!("1 in {}", row.one_in) }),
            Cell::new(if row.shuffled { "shuffled" } else { "rotated" }),
            Cell::new(format!("{:.2}", mib(row.live_bytes))),
            Cell::new(format!("{:.2}", row.held_before_per_live())),
            Cell::new(format!("{:.2}", row.held_per_live())),
            Cell::new(row.passes.passes),
            Cell::new(row.passes.pages_meshed),
            Cell::new(format!("{:.1}", row.passes.cpu_ms)),
            Cell::new(format!("{:.1}", row.replay_cpu_ms)),
        ]);
    }
    report.add_rows("trace", &traced)?;
    report.add_table("States of a recorded Lua program, side by side, before and after meshing", figures);
    Ok(())
}

/// Adds what the heap needs for itself.
pub(crate) fn add_metadata(report: &mut Report, full: &FullHeap, idle: &IdleLocalHeap) -> anyhow::Result<()> {
    let kib = |bytes: usize| bytes as f64 / 1024.0;
    let held = kib(idle.held_bytes.max(idle.most_held_bytes));
    let mut figures = table(["what", "figure", "limit", "by another count"]);
    figures.add_row(vec![
        Cell::new(format!("metadata of {:.0} MiB of {} B objects, %", mib(full.live_bytes), full.object_size)),
        judged_cell(full.metadata_percent, Some(FULL_HEAP_LIMIT_PERCENT)),
        Cell::new(FULL_HEAP_LIMIT_PERCENT),
        Cell::new(format!("Pss beyond the objects: {}", optional(full.pss_overhead_percent, 2))),
    ]);
    figures.add_row(vec![
        Cell::new("local heap after use of every class, at most, KiB"),
        judged_cell(held, Some(IDLE_LIMIT_KIB)),
        Cell::new(IDLE_LIMIT_KIB),
        Cell::new(format!("idle: {:.2}, of it in slots: {:.2}", kib(idle.held_bytes), kib(idle.slot_bytes))),
    ]);
    report.judge("metadata of a full heap, %", full.metadata_percent, FULL_HEAP_LIMIT_PERCENT);
    report.judge("local heap after use, KiB", held, IDLE_LIMIT_KIB);
    report.add_rows("full_heap", full)?;
    report.add_rows("idle_local_heap", idle)?;
    report.add_table("What the heap needs for itself", figures);
    Ok(())
}
