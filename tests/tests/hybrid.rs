//! Operations against the reference model in memory that is private until it is meshed, and private again around forks.

use meshheap::{Heap, Options};
use meshheap_linux::HybridPlatform;
use meshheap_tests::{Model, Op};
use quickcheck::{QuickCheck, TestResult};

fn heap(arena_bytes: usize, seed: u64) -> Heap<HybridPlatform> {
    let options = Options { arena_bytes, seed: Some(seed), ..Options::default() };
    Heap::with_options(HybridPlatform::new(), options).expect("Linux has room")
}

#[test]
fn any_operations_keep_every_object() {
    fn property(ops: Vec<Op>, seed: u64) -> TestResult {
        let heap = heap(8 << 20, seed);
        let mut model = Model::new(&heap);
        for &op in &ops {
            model.apply(op);
        }
        model.verify();
        heap.check_invariants();
        model.free_all();
        heap.check_invariants();
        TestResult::passed()
    }
    QuickCheck::new().tests(150).quickcheck(property as fn(Vec<Op>, u64) -> TestResult);
}
