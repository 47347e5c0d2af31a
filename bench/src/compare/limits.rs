//! The project's own limits, where meshheap and all that it is compared with were measured.

use crate::compare::figures::{CPU, PEAK, Row, Table};
use crate::report::Report;

/// Geometric means, to mimalloc and to the system's malloc.
const CPU_TO_MIMALLOC: f64 = 0.95;
const PEAK_TO_MIMALLOC: f64 = 0.6;
const PEAK_TO_SYSTEM: f64 = 1.05;
/// CPU time of any workload, to that of the best peer.
const CPU_TO_BEST_PEER: f64 = 1.25;
/// Means over fewer workloads say nothing.
const WORKLOADS: usize = 10;

pub(crate) fn judge(report: &mut Report, table: &Table) {
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

fn means(report: &mut Report, table: &Table, ours: usize) {
    if let Some(mimalloc) = table.place("mimalloc") {
        report.judge("CPU time to mimalloc's, mean", table.mean(ours, mimalloc, CPU), CPU_TO_MIMALLOC);
        report.judge("peak memory to mimalloc's, mean", table.mean(ours, mimalloc, PEAK), PEAK_TO_MIMALLOC);
    }
    if let Some(system) = table.place("system") {
        report.judge("peak memory to the system's, mean", table.mean(ours, system, PEAK), PEAK_TO_SYSTEM);
    }
    // mimalloc has a stricter limit, above.
    let others = |place: &usize| *place != ours && Some(*place) != table.place("mimalloc");
    for peer in (0..table.allocators.len()).filter(others).filter(|&peer| table.allocators[peer].program.is_ok()) {
        let name = &table.allocators[peer].name;
        report.judge(format!("CPU time to {name}'s, mean"), table.mean(ours, peer, CPU), 1.0);
    }
}

/// Our CPU time as a multiple of the least that a peer needed. None if there is no peer with a figure, or none of ours.
fn to_best_peer(table: &Table, row: &Row, ours: usize) -> Option<f64> {
    let peers = (0..table.allocators.len()).filter(|&place| place != ours);
    peers.filter_map(|peer| row.ratio(ours, peer, CPU)).reduce(f64::max)
}
