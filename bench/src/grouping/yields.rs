//! What the search leaves of 8,000 spans, and its time.

use comfy_table::Cell;
use indicatif::ProgressBar;
use serde::Serialize;

use crate::grouping::pairing::pair_spans;
use crate::grouping::spans::Spans;
use crate::measure::{cpu_time, milliseconds, ratio};
use crate::report::{Report, judged_cell, table};

const SPANS: usize = 8000;
const SLOTS: [usize; 6] = [8, 16, 32, 64, 128, 256];
const SHARES: [f64; 5] = [0.05, 0.1, 0.15, 0.2, 0.3];
/// CPU time that one search may take, in milliseconds.
const LIMIT_MS: f64 = 60.0;

/// How many cases there are.
pub(crate) const CASES: usize = SLOTS.len() * SHARES.len();

/// One kind of spans, searched.
#[derive(Serialize)]
pub(crate) struct Yield {
    slots: usize,
    live_share: f64,
    spans: usize,
    groups: usize,
    cpu_ms: f64,
    /// What first-fit pairing leaves, and its time.
    pairing: usize,
    pairing_cpu_ms: f64,
    /// No search could leave fewer.
    bound: usize,
}

pub(crate) fn measure(rng: &mut fastrand::Rng, runs: u32, bar: &ProgressBar) -> Vec<Yield> {
    let cases = SLOTS.into_iter().flat_map(|slots| SHARES.map(|share| (slots, share)));
    let measured = cases.map(|(slots, live_share)| {
        bar.set_message(format!("{slots} slots, {:.0} % live", live_share * 100.0));
        let spans = Spans::random(rng, SPANS, slots, live_share);
        let (groups, cpu_ms) = spans.group(runs);
        let (pairing, time) = cpu_time(|| pair_spans(&spans));
        let pairing_cpu_ms = milliseconds(time);
        bar.inc(1);
        Yield { slots, live_share, spans: spans.count(), groups, cpu_ms, pairing, pairing_cpu_ms, bound: spans.bound() }
    });
    measured.collect()
}

pub(crate) fn add(report: &mut Report, yields: &[Yield]) -> anyhow::Result<()> {
    let heads = ["slots", "live %", "groups %", "pairing %", "bound %", "CPU ms", "limit", "pairing ms"];
    let mut figures = table(heads);
    for case in yields {
        let percent = |left| Cell::new(format!("{:.1}", 100.0 * ratio(left, case.spans)));
        figures.add_row(vec![
            Cell::new(case.slots),
            Cell::new(format!("{:.0}", case.live_share * 100.0)),
            percent(case.groups),
            percent(case.pairing),
            percent(case.bound),
            judged_cell(case.cpu_ms, Some(LIMIT_MS)),
            Cell::new(LIMIT_MS),
            Cell::new(format!("{:.1}", case.pairing_cpu_ms)),
        ]);
        let name = format!("grouping {SPANS} spans of {} slots at {:.0} %, ms", case.slots, case.live_share * 100.0);
        report.judge(name, case.cpu_ms, LIMIT_MS);
    }
    report.add_rows("yield", &yields)?;
    report.add_table(format!("What is left of {SPANS} random spans, none of them empty"), figures);
    report.add_note("pairing: first fit, repeated until no pair is left. bound: what the taken slots alone need.");
    Ok(())
}
