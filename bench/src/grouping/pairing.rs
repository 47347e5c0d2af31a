//! Meshing by pairs, first fit, for comparison: each span is laid onto the first other one that it does not overlap; rounds
//! are repeated until no pair is left.

use crate::grouping::spans::Spans;

/// How many spans pairing leaves.
pub(crate) fn pair_spans(spans: &Spans) -> usize {
    match spans.words {
        1 => pair::<1>(&spans.bitmaps),
        2 => pair::<2>(&spans.bitmaps),
        3 => pair::<3>(&spans.bitmaps),
        4 => pair::<4>(&spans.bitmaps),
        words => unreachable!("no span has {words} words"),
    }
}

fn pair<const W: usize>(bitmaps: &[u64]) -> usize {
    let (spans, _) = bitmaps.as_chunks::<W>();
    let mut left = spans.to_vec();
    loop {
        let before = left.len();
        left = one_round(left);
        if left.len() == before {
            return before;
        }
    }
}

/// Lays each span onto its first partner, if it has one. A span is part of one pair at the most.
fn one_round<const W: usize>(mut spans: Vec<[u64; W]>) -> Vec<[u64; W]> {
    let mut meshed = Vec::with_capacity(spans.len());
    while let Some(span) = spans.pop() {
        let partner = spans.iter().position(|other| (0..W).fold(0, |overlap, i| overlap | (span[i] & other[i])) == 0);
        // The last span takes the partner's place: spans are in no order anyway.
        let partner = partner.map_or([0; W], |at| spans.swap_remove(at));
        meshed.push(core::array::from_fn(|i| span[i] | partner[i]));
    }
    meshed
}

#[cfg(test)]
mod tests {
    use super::pair_spans;
    use crate::grouping::spans::Spans;

    fn left(bitmaps: &[u64]) -> usize {
        pair_spans(&Spans { slots: 64, words: 1, bitmaps: bitmaps.to_vec() })
    }

    #[test]
    fn pairs_are_paired_again_until_all_overlap() {
        assert_eq!(left(&[1, 2, 4, 8]), 1);
        assert_eq!(left(&[1, 1, 1]), 3);
        assert_eq!(left(&[0b01, 0b10, 0b01]), 2);
        assert_eq!(left(&[]), 0);
    }

    #[test]
    fn no_way_of_grouping_beats_the_bound() {
        let spans = Spans::random(&mut fastrand::Rng::with_seed(1), 500, 200, 0.04);
        assert_eq!((spans.count(), spans.words), (500, 4));
        let (groups, _) = spans.group(1);
        assert!(spans.bound() <= groups && groups <= spans.count());
        assert!(spans.bound() <= pair_spans(&spans));
    }
}
