//! Clocks and averages.

use core::hint::black_box;
use core::time::Duration;

use cpu_time::ThreadTime;
use indicatif::{ProgressBar, ProgressStyle};

/// Runs `work` and says how much CPU time this thread spent on it, in the kernel too. Other programs' load does not count.
pub(crate) fn cpu_time<R>(work: impl FnOnce() -> R) -> (R, Duration) {
    let start = ThreadTime::now();
    let result = work();
    (result, start.elapsed())
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

pub(crate) fn mib(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

pub(crate) fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

/// The middle one of some figures, or the mean of the middle two.
pub(crate) fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2])
}

/// The geometric mean of some ratios; none if there are none.
pub(crate) fn geometric_mean(ratios: &[f64]) -> Option<f64> {
    let logarithms: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    (!ratios.is_empty()).then(|| (logarithms / ratios.len() as f64).exp())
}

/// Touches and frees `bytes` bytes: a virtual machine that gives free memory back to its host pays several times as much for
/// the first touch after a while, and that would be measured instead of the heap.
pub(crate) fn warm(bytes: usize) {
    black_box(vec![1_u8; bytes]);
}

/// A progress bar on the standard error, if that is a terminal.
pub(crate) fn progress(name: &'static str, length: usize) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{prefix:>9} [{bar:32}] {pos}/{len} {msg}").expect("the template is well-formed");
    ProgressBar::new(length as u64).with_style(style.progress_chars("=> ")).with_prefix(name)
}

#[cfg(test)]
mod tests {
    use super::{geometric_mean, median};

    #[test]
    fn the_median_lies_in_the_middle() {
        assert_eq!(median(&[3.0]), 3.0);
        assert_eq!(median(&[9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), 3.0);
    }

    #[test]
    fn a_doubling_and_a_halving_cancel_out() {
        assert!(geometric_mean(&[2.0, 0.5, 1.0]).is_some_and(|mean| (mean - 1.0).abs() < 1e-12));
        assert_eq!(geometric_mean(&[]), None);
    }
}
