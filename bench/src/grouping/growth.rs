//! How the search's time grows with the number of spans.

use comfy_table::Cell;
use indicatif::ProgressBar;
use serde::Serialize;

use crate::grouping::spans::Spans;
use crate::measure::ratio;
use crate::report::{Report, judged_cell, table};

/// Slots of a span and their live share.
const KINDS: [(usize, f64); 2] = [(64, 0.1), (256, 0.05)];
/// 1k to 256k spans.
const COUNTS: [usize; 9] = [1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16, 1 << 17, 1 << 18];
/// The time for small numbers of spans is the median of more runs: this many spans in all.
const SPANS_PER_MEDIAN: usize = 1 << 17;

/// How many cases there are.
pub(crate) const CASES: usize = KINDS.len() * COUNTS.len();

/// One number of spans, searched.
#[derive(Serialize)]
pub(crate) struct Point {
    slots: usize,
    live_share: f64,
    spans: usize,
    groups: usize,
    cpu_ms: f64,
    ns_per_span: f64,
    /// The time as a multiple of that for the fewest spans, by which n log n would have grown.
    growth_per_n_log_n: f64,
}

pub(crate) fn measure(rng: &mut fastrand::Rng, runs: u32, bar: &ProgressBar) -> Vec<Vec<Point>> {
    KINDS.map(|(slots, live_share)| series(rng, runs, bar, slots, live_share)).into()
}

fn series(rng: &mut fastrand::Rng, runs: u32, bar: &ProgressBar, slots: usize, live_share: f64) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    for count in COUNTS {
        bar.set_message(format!("{count} spans of {slots} slots"));
        let spans = Spans::random(rng, count, slots, live_share);
        let runs = runs.max(u32::try_from(SPANS_PER_MEDIAN / count).unwrap_or(u32::MAX));
        let (groups, cpu_ms) = spans.group(runs);
        let unit = cpu_ms / n_log_n(count);
        let first = points.first().map_or(unit, |first| first.cpu_ms / n_log_n(first.spans));
        let ns_per_span = cpu_ms * 1e6 / count as f64;
        points.push(Point {
            slots,
            live_share,
            spans: count,
            groups,
            cpu_ms,
            ns_per_span,
            growth_per_n_log_n: unit / first,
        });
        bar.inc(1);
    }
    points
}

fn n_log_n(n: usize) -> f64 {
    n as f64 * (n as f64).log2()
}

pub(crate) fn add(report: &mut Report, series: &[Vec<Point>]) -> anyhow::Result<()> {
    for points in series {
        let mut figures = table(["spans", "groups %", "CPU ms", "ns a span", "growth / n log n"]);
        for point in points {
            figures.add_row(vec![
                Cell::new(point.spans),
                Cell::new(format!("{:.2}", 100.0 * ratio(point.groups, point.spans))),
                Cell::new(format!("{:.2}", point.cpu_ms)),
                Cell::new(format!("{:.0}", point.ns_per_span)),
                judged_cell(point.growth_per_n_log_n, Some(1.0)),
            ]);
        }
        let (Some(first), Some(last)) = (points.first(), points.last()) else { continue };
        let kind = format!("{} slots at {:.0} %", first.slots, first.live_share * 100.0);
        report.judge(
            format!("growth from {} to {} spans of {kind}, by n log n", first.spans, last.spans),
            last.growth_per_n_log_n,
            1.0,
        );
        report.add_table(format!("Growth with the number of spans, {kind}"), figures);
    }
    report.add_rows("growth", &series)
}
