//! What was found, and the figures that follow from it.

use crate::compare::allocators::Allocator;
use crate::compare::failure::Failure;
use crate::compare::process::Run;
use crate::measure::{geometric_mean, median, mib};

/// The runs of one workload on one allocator.
pub(crate) type Measured = Result<Vec<Run>, Failure>;

/// One workload.
pub(crate) struct Row {
    pub(crate) workload: String,
    /// For each allocator.
    pub(crate) measured: Vec<Measured>,
}

/// Everything.
pub(crate) struct Table {
    pub(crate) allocators: Vec<Allocator>,
    /// The place of the allocator that ratios refer to.
    pub(crate) baseline: usize,
    pub(crate) rows: Vec<Row>,
}

/// One figure of a run.
#[derive(Clone, Copy)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) decimals: usize,
    pub(crate) of: fn(&Run) -> Option<f64>,
}

pub(crate) const CPU: Figure =
    Figure { name: "CPU time (user and system)", unit: "s", decimals: 3, of: |run| Some(run.cpu_s) };
pub(crate) const PEAK: Figure =
    Figure { name: "Peak memory", unit: "MiB", decimals: 1, of: |run| run.peak_bytes.map(mib) };
pub(crate) const FINAL: Figure =
    Figure { name: "Memory at the end (Pss)", unit: "MiB", decimals: 1, of: |run| run.final_pss_bytes.map(mib) };
pub(crate) const WALL: Figure = Figure { name: "Wall time", unit: "s", decimals: 3, of: |run| Some(run.wall_s) };
pub(crate) const MINOR_FAULTS: Figure =
    Figure { name: "Minor faults", unit: "", decimals: 0, of: |run| run.minor_faults.map(|count| count as f64) };
pub(crate) const MAJOR_FAULTS: Figure =
    Figure { name: "Major faults", unit: "", decimals: 0, of: |run| run.major_faults.map(|count| count as f64) };

/// The middle of several runs, and half of the range they lie in, as a share of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Middle {
    pub(crate) value: f64,
    pub(crate) spread: f64,
}

impl Middle {
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let least = values.iter().copied().reduce(f64::min)?;
        let most = values.iter().copied().reduce(f64::max)?;
        let value = median(values);
        Some(Self { value, spread: if value > 0.0 { (most - least) / 2.0 / value } else { 0.0 } })
    }
}

impl Row {
    /// One figure on one allocator.
    pub(crate) fn middle(&self, allocator: usize, figure: Figure) -> Option<Middle> {
        let runs = self.measured[allocator].as_ref().ok()?;
        Middle::of(&runs.iter().map(figure.of).collect::<Option<Vec<_>>>()?)
    }

    /// The same, as a multiple of another's.
    pub(crate) fn ratio(&self, allocator: usize, baseline: usize, figure: Figure) -> Option<f64> {
        let ratio = self.middle(allocator, figure)?.value / self.middle(baseline, figure)?.value;
        ratio.is_finite().then_some(ratio)
    }
}

impl Table {
    /// The geometric mean of one allocator's ratios to another, over the workloads that both have a figure of.
    pub(crate) fn mean(&self, allocator: usize, baseline: usize, figure: Figure) -> Option<f64> {
        let ratios: Vec<f64> = self.rows.iter().filter_map(|row| row.ratio(allocator, baseline, figure)).collect();
        geometric_mean(&ratios)
    }

    /// The place of an allocator.
    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.allocators.iter().position(|allocator| allocator.name == name)
    }

    /// Every cell without figures.
    pub(crate) fn failures(&self) -> impl Iterator<Item = (&Row, &Allocator, &Failure)> {
        self.rows.iter().flat_map(|row| {
            let cells = row.measured.iter().zip(&self.allocators);
            cells.filter_map(move |(measured, allocator)| Some((row, allocator, measured.as_ref().err()?)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Middle;

    #[test]
    fn the_spread_is_half_of_the_range() {
        assert_eq!(Middle::of(&[9.0, 10.0, 12.0]), Some(Middle { value: 10.0, spread: 0.15 }));
        assert_eq!(Middle::of(&[]), None);
    }
}
