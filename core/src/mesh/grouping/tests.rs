use super::{Grouping, NONE, Progress, disjoint, lists_len, pool_len, slots, span};
use core::mem::replace;
use std::vec;
use std::vec::Vec;

/// SplitMix64: the tests need repeatable input, not good randomness.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// `n` spans of `slots` slots, each slot taken with a chance of `permille`.
fn random(n: usize, slots: usize, permille: u64, words: usize, seed: u64) -> Vec<u64> {
    let mut rng = Rng(seed);
    let mut spans = vec![0; n * words];
    for span in spans.chunks_mut(words) {
        for slot in 0..slots {
            span[slot / 64] |= ((rng.next() % 1000 < permille) as u64) << (slot % 64);
        }
    }
    spans
}

fn group<const W: usize>(spans: &[u64], work: usize) -> Vec<Vec<u32>> {
    let n = spans.len() / W;
    // Dirty memory, as the search must not rely on its contents.
    let (mut next, mut lists) = (vec![7; n], vec![7; lists_len(n)]);
    let mut pool = vec![7; pool_len(n, W)];
    let mut grouping = Grouping::<W>::new(spans, &mut next, &mut lists, &mut pool);
    while grouping.advance(work) == Progress::Pending {}
    assert_eq!(grouping.advance(work), Progress::Done);
    let (heads, next) = grouping.groups();
    let follow = |&id: &u32| Some(next[id as usize]).filter(|&id| id != NONE);
    heads.iter().map(|&head| core::iter::successors(Some(head), follow).collect()).collect()
}

/// Every span in exactly one group, and no slot taken twice in a group.
fn check<const W: usize>(spans: &[u64], groups: &[Vec<u32>]) {
    let mut seen = vec![false; spans.len() / W];
    for members in groups {
        let mut taken = [0; W];
        assert!(!members.is_empty());
        for &id in members {
            assert!(!replace(&mut seen[id as usize], true), "{id} is in two groups");
            let span = span::<W>(spans, id);
            assert!(disjoint(&taken, span), "{id} overlaps its group");
            (0..W).for_each(|i| taken[i] |= span[i]);
        }
    }
    assert!(seen.into_iter().all(|seen| seen));
}

/// Groups left if each span, fullest first, joins the first group with fewer
/// than `most` members that it fits: 2 is pairing, more is first fit.
fn first_fit<const W: usize>(spans: &[u64], most: usize) -> usize {
    let mut order: Vec<u32> = (0..(spans.len() / W) as u32).collect();
    order.sort_by_key(|&id| core::cmp::Reverse(slots::<W>(span(spans, id))));
    let mut groups: Vec<([u64; W], usize)> = vec![];
    for id in order {
        let span = span::<W>(spans, id);
        match groups.iter_mut().find(|group| group.1 < most && disjoint(&group.0, span)) {
            Some(group) => {
                (0..W).for_each(|i| group.0[i] |= span[i]);
                group.1 += 1;
            }
            None => groups.push((*span, 1)),
        }
    }
    groups.len()
}

fn random_cases<const W: usize>(cases: u64) {
    for seed in 0..cases {
        let mut rng = Rng(seed ^ 0x5EED);
        let n = (rng.next() % 700) as usize;
        let slots = ((W - 1) * 64 + 1 + (rng.next() % 64) as usize).max(2);
        let permille = [0, 3, 20, 50, 100, 200, 300, 600, 1000][(rng.next() % 9) as usize];
        let spans = random(n, slots, permille, W, seed);
        let groups = group::<W>(&spans, 1000);
        check::<W>(&spans, &groups);
        let pairs = first_fit::<W>(&spans, 2);
        // Where hardly any three spans fit together, either may win by a hair.
        assert!(groups.len() <= pairs + pairs / 100, "{} > {pairs}: seed {seed}", groups.len());
        // The size of the steps makes no difference.
        assert_eq!(groups, group::<W>(&spans, 1));
        assert_eq!(groups, group::<W>(&spans, usize::MAX));
    }
}

#[test]
fn every_span_is_in_exactly_one_group_of_disjoint_spans() {
    random_cases::<1>(200);
    random_cases::<2>(100);
    random_cases::<3>(100);
    random_cases::<4>(100);
}

#[test]
fn empty_full_and_single_spans_are_grouped() {
    assert!(group::<1>(&[], 1).is_empty());
    assert_eq!(group::<1>(&[0; 1000], 9).len(), 1);
    assert_eq!(group::<4>(&[u64::MAX; 40], 9).len(), 10);
    assert_eq!(group::<1>(&[0, u64::MAX, 0, 5, 0], 9).len(), 2);
    let single: Vec<u64> = (0..640).map(|i| 1 << (i % 64)).collect();
    assert_eq!(group::<1>(&single, 9).len(), 10);
}

#[test]
fn several_windows_group_as_well_as_one() {
    for (n, slots, permille) in [(16_384, 8, 200), (16_383, 64, 300), (30_000, 64, 60), (20_000, 64, 5)] {
        let spans = random(n, slots, permille, 1, 3);
        let groups = group::<1>(&spans, 5000);
        check::<1>(&spans, &groups);
        let pairs = first_fit::<1>(&spans, 2);
        assert!(groups.len() <= pairs + pairs / 100, "{} > {pairs}", groups.len());
    }
}

#[test]
fn sparse_spans_of_many_slots_group_better_than_by_first_fit() {
    let spans = random(8192, 256, 50, 4, 1);
    let groups = group::<4>(&spans, 5000);
    check::<4>(&spans, &groups);
    assert!(groups.len() * 100 < first_fit::<4>(&spans, usize::MAX) * 93);
    assert!(groups.len() * 1000 <= 8192 * 88);
}

#[test]
fn rotations_of_a_regular_pattern_fit_together() {
    let mut rng = Rng(1);
    let spans: Vec<u64> = (0..8192).map(|_| 0x0101_0101_0101_0101 << (rng.next() % 8)).collect();
    let mut phases = [0; 8];
    spans.iter().for_each(|span| phases[span.trailing_zeros() as usize] += 1);
    let groups = group::<1>(&spans, 5000);
    check::<1>(&spans, &groups);
    // As few as the most frequent rotation allows.
    assert_eq!(groups.len(), *phases.iter().max().unwrap());
}
