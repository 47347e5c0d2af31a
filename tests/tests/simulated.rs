//! Operations against the reference model on the simulated platform, with the heap's invariants checked after each.

use meshheap::{Heap, Options, SimulatedPlatform};
use meshheap_tests::{Model, Op};
use quickcheck::{QuickCheck, TestResult};

const ARENA_BYTES: usize = 8 << 20;

fn run(platform: SimulatedPlatform, seed: u64, ops: &[Op]) {
    {
        let options = Options { arena_bytes: ARENA_BYTES, seed: Some(seed), ..Options::default() };
        let heap = Heap::with_options(&platform, options).expect("the platform has room");
        let mut model = Model::new(&heap);
        for &op in ops {
            model.apply(op);
            heap.check_invariants();
        }
        model.verify();
        model.free_all();
        heap.check_invariants();
        heap.purge().expect("nothing fails");
        let statistics = heap.statistics();
        assert_eq!(statistics.taken_bytes, 0, "everything was freed");
        assert_eq!(statistics.dirty_bytes + statistics.aliased_bytes, 0, "everything was given back");
        assert_eq!(statistics.misuses, 0);
    }
    assert_eq!(platform.reserved_bytes(), 0, "I9: the platform holds nothing of a dropped heap");
}

#[test]
fn any_operations_keep_every_object_and_every_invariant() {
    fn property(ops: Vec<Op>, seed: u64, large_pages: bool, private: bool) -> TestResult {
        let platform = SimulatedPlatform::new(if large_pages { 16 << 10 } else { 4 << 10 });
        run(if private { platform.private_until_shared() } else { platform }, seed, &ops);
        TestResult::passed()
    }
    QuickCheck::new().tests(300).quickcheck(property as fn(Vec<Op>, u64, bool, bool) -> TestResult);
}
