//! Parts of the heap that are benchmarked by themselves. Not part of the API: anything here may change at any time.

use alloc::vec;

use crate::mesh::grouping::{Grouping, Progress, lists_len, pool_len};

/// How many groups the search leaves of spans whose bitmaps of `words` words each (1 to 4) lie one after another in
/// `bitmaps`.
///
/// # Panics
/// `words` is out of range or does not divide the length of `bitmaps`.
#[must_use]
pub fn group_spans(bitmaps: &[u64], words: usize) -> usize {
    match words {
        1 => group::<1>(bitmaps),
        2 => group::<2>(bitmaps),
        3 => group::<3>(bitmaps),
        4 => group::<4>(bitmaps),
        _ => panic!("a bitmap has 1 to 4 words"),
    }
}

fn group<const W: usize>(bitmaps: &[u64]) -> usize {
    let spans = bitmaps.len() / W;
    let (mut next, mut lists) = (vec![0; spans], vec![0; lists_len(spans)]);
    let mut pool = vec![0; pool_len(spans, W)];
    let mut grouping = Grouping::<W>::new(bitmaps, &mut next, &mut lists, &mut pool);
    while grouping.advance(usize::MAX) == Progress::Pending {}
    grouping.groups().0.len()
}
