//! A seed and a list of operations give every placement and every mesh again, wherever the arena lies: on the simulated
//! platform and on Linux, with failures and without.

use meshheap::{Failing, Heap, Operation, Options, PageIndex, Platform, SimulatedPlatform, SlotOrder, Statistics};
use meshheap_linux::LinuxPlatform;
use meshheap_tests::op::Size;
use meshheap_tests::recorded::{Call, Recorded};
use meshheap_tests::{Model, Op};
use quickcheck::{QuickCheck, TestResult};

/// What can be seen of a heap's life: offsets and sizes of its objects after each operation, what it asked of the platform, and
/// its figures at the end.
#[derive(PartialEq, Debug)]
struct Life {
    objects: Vec<Vec<(usize, usize)>>,
    calls: Vec<Call>,
    statistics: Statistics,
    failed: usize,
}

/// What decides over a life.
#[derive(Clone, Copy, Debug)]
struct Seeds {
    placement: u64,
    order: SlotOrder,
    /// One call in so many fails.
    failures: Option<(u64, u32)>,
}

fn live<P: Platform>(platform: P, ops: &[Op], seeds: Seeds) -> Life {
    let platform = Recorded::new(Failing::new(platform));
    let failing = platform.inside();
    // Time passes, so that dirty pages grow old, but as fast each time.
    failing.set_clock_step(3_000_000);
    let seed = Some(seeds.placement);
    let options = Options { arena_bytes: 8 << 20, seed, slot_order: seeds.order, ..Options::default() };
    let heap = Heap::with_options(&platform, options).expect("nothing fails yet");
    if let Some((seed, one_in)) = seeds.failures {
        failing.fail_by_chance(seed, one_in);
    }
    let base = heap.page_address(PageIndex::new(0)).addr().get();
    let mut model = Model::new(&heap);
    let mut objects = Vec::new();
    for &op in ops {
        model.apply(op);
        objects.push(heap.objects().map(|object| (object.start.addr().get() - base, object.size)).collect());
    }
    drop(model);
    Life { objects, calls: platform.calls(), statistics: heap.statistics(), failed: failing.failed() }
}

fn simulated(ops: &[Op], seeds: Seeds) -> Life {
    live(SimulatedPlatform::new(4096), ops, seeds)
}

fn linux(ops: &[Op], seeds: Seeds) -> Life {
    live(LinuxPlatform::new(), ops, seeds)
}

fn meshes(life: &Life) -> usize {
    life.calls.iter().filter(|call| call.operation == Operation::Alias && call.is_done).count()
}

#[test]
fn any_life_is_the_same_again() {
    fn property(ops: Vec<Op>, seed: u64, shuffle: bool, failures: Option<u64>) -> TestResult {
        let order = if shuffle { SlotOrder::FullShuffle } else { SlotOrder::RandomRotation };
        let seeds = Seeds { placement: seed, order, failures: failures.map(|seed| (seed, 5)) };
        assert_eq!(simulated(&ops, seeds), simulated(&ops, seeds));
        assert_eq!(linux(&ops, seeds), linux(&ops, seeds));
        TestResult::passed()
    }
    QuickCheck::new().tests(40).quickcheck(property as fn(Vec<Op>, u64, bool, Option<u64>) -> TestResult);
}

/// A life in which much is meshed.
fn script() -> Vec<Op> {
    let small = |bytes| Size { bytes, align_bits: 0 };
    let round = |round: u64| {
        [
            Op::Fragment(small(64), 255, 11 + round),
            Op::Fragment(small(900), 255, 5 + round),
            Op::Flush,
            Op::Mesh(40, 40),
            Op::HandOver(3, 20, small(300)),
            Op::MeshAll,
            Op::Alloc(small(100_000)),
            Op::Dealloc(5),
            Op::Purge,
        ]
    };
    (0..4).flat_map(round).collect()
}

#[test]
fn meshes_are_the_same_again_and_another_seed_gives_others() {
    let seeds = |placement| Seeds { placement, order: SlotOrder::RandomRotation, failures: None };
    for live in [simulated, linux] {
        let [first, again, other] = [1, 1, 2].map(|placement| live(&script(), seeds(placement)));
        assert!(meshes(&first) > 20, "{}", meshes(&first));
        assert_eq!(first, again);
        assert_ne!(first.objects, other.objects);
        assert_ne!(first.calls, other.calls);
    }
}

#[test]
fn failures_by_chance_are_the_same_again_and_another_seed_gives_others() {
    let seeds = |failures| Seeds { placement: 1, order: SlotOrder::RandomRotation, failures: Some((failures, 4)) };
    let [first, again, other] = [1, 1, 2].map(|failures| simulated(&script(), seeds(failures)));
    assert!(first.failed > 10 && first.failed < first.calls.len() / 2, "{} of {}", first.failed, first.calls.len());
    assert_eq!(first, again);
    assert_ne!(first.calls, other.calls);
}

#[test]
fn a_call_that_shall_fail_does_on_any_platform_and_the_others_do_not() {
    fn check<P: Platform>(platform: P) {
        let platform = Failing::new(platform);
        let options = Options { arena_bytes: 1 << 20, ..Options::default() };
        platform.fail_nth(Operation::Reserve, 1);
        let heap = Heap::with_options(&platform, options).expect("a smaller arena is tried");
        assert_eq!((platform.failed(), heap.statistics().arena_bytes), (1, 512 << 10));
        let layout = core::alloc::Layout::new::<[u64; 5000]>();
        platform.fail_nth(Operation::Commit, 2);
        heap.alloc(layout).expect("the first commit is not to fail");
        let refused = heap.alloc(layout).expect_err("the second is");
        assert_eq!(refused.to_string(), "the platform refused to Commit (code -1)");
        heap.alloc(layout).expect("the third is not");
        platform.fail_all(Operation::Purge);
        let object = heap.alloc(layout).expect("a commit does not fail");
        // SAFETY: the object is live and is not used afterwards.
        unsafe { heap.dealloc(object, layout) };
        heap.purge().expect_err("every purge fails");
        platform.heal();
        heap.purge().expect("nothing fails any more");
        assert_eq!(platform.calls(Operation::Commit), 4);
        assert!(platform.failed() >= 3);
    }
    check(SimulatedPlatform::new(4096));
    check(LinuxPlatform::new());
}
