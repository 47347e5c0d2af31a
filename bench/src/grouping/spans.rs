//! Spans to search: bitmaps of slots that are taken at random.

use core::time::Duration;

use meshheap::bench_internals::group_spans;

use crate::measure::{cpu_time, median, milliseconds};

/// Spans of one class, as their bitmaps.
pub(crate) struct Spans {
    /// Slots of a span.
    pub(crate) slots: usize,
    /// Words of a bitmap.
    pub(crate) words: usize,
    /// One bitmap after another.
    pub(crate) bitmaps: Vec<u64>,
}

impl Spans {
    /// Each slot is taken with probability `share`. Empty spans are left out: a heap frees them without meshing.
    pub(crate) fn random(rng: &mut fastrand::Rng, count: usize, slots: usize, share: f64) -> Self {
        let words = slots.div_ceil(64);
        let mut bitmaps = Vec::with_capacity(count * words);
        while bitmaps.len() < count * words {
            let start = bitmaps.len();
            bitmaps.resize(start + words, 0);
            for slot in 0..slots {
                bitmaps[start + slot / 64] |= u64::from(rng.f64() < share) << (slot % 64);
            }
            if bitmaps[start..].iter().all(|&word| word == 0) {
                bitmaps.truncate(start);
            }
        }
        Self { slots, words, bitmaps }
    }

    pub(crate) fn count(&self) -> usize {
        self.bitmaps.len() / self.words
    }

    /// No way of grouping leaves fewer spans: that many are needed for the taken slots alone.
    pub(crate) fn bound(&self) -> usize {
        let taken: usize = self.bitmaps.iter().map(|word| word.count_ones() as usize).sum();
        taken.div_ceil(self.slots)
    }

    /// How many groups the heap's search finds, and the median of its CPU time in milliseconds over `runs` runs.
    pub(crate) fn group(&self, runs: u32) -> (usize, f64) {
        let search = || cpu_time(|| group_spans(&self.bitmaps, self.words));
        let results: Vec<(usize, Duration)> = (0..runs).map(|_| search()).collect();
        let times: Vec<f64> = results.iter().map(|&(_, time)| milliseconds(time)).collect();
        (results[0].0, median(&times))
    }
}
