//! The project's own limits, where meshheap and all that it is compared with were measured.

use crate::compare::figures::{CPU, FINAL, PEAK, Row, Table};
use crate::report::{Report, optional};

/// Geometric means, to mimalloc and to the system's malloc.
const CPU_TO_MIMALLOC: f64 = 0.95;
const PEAK_TO_MIMALLOC: f64 = 0.6;
const PEAK_TO_SYSTEM: f64 = 1.05;
/// CPU time of any workload, to that of the best peer.
const CPU_TO_BEST_PEER: f64 = 1.25;
/// Mean CPU time with meshing that nobody asks for, to that without any.
const CPU_OF_MESHING: f64 = 1.03;
/// Means over fewer workloads say nothing.
const WORKLOADS: usize = 10;

pub(crate) fn judge(report: &mut Report, table: &Table) {
    judge_meshing(report, table);
    let Some(ours) = table.place("meshheap") else { return };
    if table.rows.len() >= WORKLOADS {
        means(report, table, ours);
    }
    for row in &table.rows {
        if let Some(ratio) = to_best_peer(table, row, ours) {
            report.judge(format!("{}: CPU time to that of the best peer", row.workload), ratio, CPU_TO_BEST_PEER);
        }
    }
}

/// What meshing costs, and what it saves.
fn judge_meshing(report: &mut Report, table: &Table) {
    let (Some(auto), Some(off)) = (table.place("meshheap-auto"), table.place("meshheap-off")) else { return };
    let mean = |figure| table.mean(auto, off, figure);
    report.add_note(format!(
        "Meshing without being asked, to none at all, means: CPU time {}, peak memory {}, memory at the end {}.",
        optional(mean(CPU), 3),
        optional(mean(PEAK), 3),
        optional(mean(FINAL), 3)
    ));
    if table.rows.len() >= WORKLOADS {
        report.judge("CPU time with meshing to that without, mean", mean(CPU), CPU_OF_MESHING);
    }
}

fn means(report: &mut Report, table: &Table, ours: usize) {
    if let Some(mimalloc) = table.place("mimalloc") {
        report.judge("CPU time to mimalloc's, mean", table.mean(ours, mimalloc, CPU), CPU_TO_MIMALLOC);
        report.judge("peak memory to mimalloc's, mean", table.mean(ours, mimalloc, PEAK), PEAK_TO_MIMALLOC);
    }
    if let Some(system) = table.place("system") {
        report.judge("peak memory to the system's, mean", table.mean(ours, system, PEAK), PEAK_TO_SYSTEM);
    }
    // mimalloc has a stricter limit, above.
    let others = |place: &usize| is_peer(table, *place) && Some(*place) != table.place("mimalloc");
    for peer in (0..table.allocators.len()).filter(others).filter(|&peer| table.allocators[peer].program.is_ok()) {
        let name = &table.allocators[peer].name;
        report.judge(format!("CPU time to {name}'s, mean"), table.mean(ours, peer, CPU), 1.0);
    }
}

fn is_peer(table: &Table, place: usize) -> bool {
    !table.allocators[place].is_ours()
}

/// Our CPU time as a multiple of the least that a peer needed. None if there is no peer with a figure, or none of ours.
fn to_best_peer(table: &Table, row: &Row, ours: usize) -> Option<f64> {
    let peers = (0..table.allocators.len()).filter(|&place| is_peer(table, place));
    peers.filter_map(|peer| row.ratio(ours, peer, CPU)).reduce(f64::max)
}
