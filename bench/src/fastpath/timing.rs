//! CPU time of a pair.

use indicatif::ProgressBar;

use crate::fastpath::Kind;
use crate::fastpath::loops::Loops;
use crate::measure::{cpu_time, median};

/// Pairs of one measurement: some milliseconds.
const PAIRS: u64 = 1_000_000;

/// Nanoseconds for a pair of each kind: the median over `rounds` rounds, in each of which all kinds take turns.
pub(crate) fn measure(kinds: &[Kind], rounds: u32, bar: &ProgressBar) -> anyhow::Result<Vec<f64>> {
    bar.set_message("timing");
    Loops::with(|loops| {
        let mut figures = vec![Vec::new(); kinds.len()];
        for _ in 0..rounds {
            for (&kind, figures) in kinds.iter().zip(&mut figures) {
                let ((), time) = cpu_time(|| loops.run(kind, PAIRS));
                figures.push(time.as_secs_f64() * 1e9 / PAIRS as f64);
            }
            bar.inc(1);
        }
        figures.iter().map(|figures| median(figures)).collect()
    })
}
