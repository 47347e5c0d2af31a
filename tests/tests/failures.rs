//! Every call of the platform fails once, at every moment at which it is made: the heap keeps every object, stays whole,
//! and works again afterwards.

use core::alloc::Layout;

use meshheap::{AllocError, Heap, MeshBudget, Operation, Options, SimulatedPlatform, StepEnd};
use meshheap_tests::Model;
use meshheap_tests::op::{Op, Size};
use meshheap_tests::sparse::{assert_untouched, sparse_objects};
use quickcheck::{QuickCheck, TestResult};

const OPERATIONS: [Operation; 5] =
    [Operation::Reserve, Operation::Commit, Operation::Purge, Operation::Alias, Operation::Unalias];

/// The same and more, of a platform whose pages are private until they are shared.
const PRIVATE_OPERATIONS: [Operation; 7] = [
    Operation::Reserve,
    Operation::Commit,
    Operation::Purge,
    Operation::Share,
    Operation::Alias,
    Operation::Unalias,
    Operation::Freeze,
];

fn platform(is_private: bool) -> SimulatedPlatform {
    let platform = SimulatedPlatform::new(4096);
    if is_private { platform.private_until_shared() } else { platform }
}

fn options() -> Options {
    Options { arena_bytes: 4 << 20, seed: Some(3), ..Options::default() }
}

/// Fills, fragments, meshes twice (so that keepers with aliases are meshed again), frees and purges.
fn script() -> Vec<Op> {
    let small = |bytes| Size { bytes, align_bits: 0 };
    let mut ops = Vec::new();
    for round in 0..3 {
        ops.push(Op::Fragment(small(64), 255, 11 + round));
        ops.push(Op::Fragment(small(1200), 100, 17 + round));
        ops.push(Op::Alloc(small(100_000)));
        ops.push(Op::Flush);
        ops.push(Op::MeshAll);
        ops.push(Op::Fork);
        ops.extend((0..40).map(|index| Op::Dealloc(index * 7)));
        ops.push(Op::Realloc(3, small(150_000)));
        ops.push(Op::Flush);
        ops.push(Op::MeshAll);
        ops.push(Op::Purge);
    }
    ops
}

/// Runs the script with call number `n` of `operation` failing. Returns whether there was such a call.
fn run_with_failure((is_private, mappings): (bool, Option<usize>), operation: Operation, n: usize) -> bool {
    let platform = platform(is_private);
    platform.fail_nth(operation, n);
    let made = {
        let options = Options { mapping_budget: mappings, ..options() };
        let Ok(heap) = Heap::with_options(&platform, options) else {
            assert_eq!(operation, Operation::Reserve, "only a refused reservation ends in no heap");
            assert_eq!(platform.reserved_bytes(), 0, "I9: what was reserved before was given back");
            return true;
        };
        let mut model = Model::new(&heap);
        for op in script() {
            model.apply(op);
            heap.check_invariants();
        }
        let made = platform.calls(operation) >= n;
        platform.heal();
        // SAFETY: no other thread runs.
        while unsafe { heap.mesh_at_safepoint(MeshBudget::UNLIMITED) }.end == StepEnd::Budget {}
        model.verify();
        model.free_all();
        heap.purge().expect("nothing fails any more");
        heap.check_invariants();
        let statistics = heap.statistics();
        assert_eq!((statistics.taken_bytes, statistics.aliased_bytes, statistics.dirty_bytes), (0, 0, 0));
        assert_eq!(
            (statistics.mappings, platform.mappings()),
            (0, 0),
            "{is_private} {mappings:?} {operation:?} {n}: all mappings came back"
        );
        made
    };
    assert_eq!(platform.reserved_bytes(), 0, "I9");
    made
}

#[test]
fn each_call_of_the_platform_may_fail_at_any_time() {
    let operations = OPERATIONS.map(|operation| (false, operation));
    for (is_private, operation) in operations.into_iter().chain(PRIVATE_OPERATIONS.map(|operation| (true, operation))) {
        // With few mappings, rows of spans are meshed.
        for mappings in [None, Some(5)] {
            let calls = (1..).take_while(|&n| run_with_failure((is_private, mappings), operation, n)).count();
            assert!(calls > 0, "the script never made the platform {operation:?}");
        }
    }
}

#[test]
fn a_platform_that_refuses_everything_keeps_every_object() {
    fn property(ops: Vec<Op>, after: Vec<Op>, operation: usize, is_private: bool) -> TestResult {
        let platform = platform(is_private);
        let operations: &[Operation] = if is_private { &PRIVATE_OPERATIONS } else { &OPERATIONS };
        let heap = Heap::with_options(&platform, options()).expect("nothing fails yet");
        let mut model = Model::new(&heap);
        for (round, &op) in ops.iter().chain(&after).enumerate() {
            if round == ops.len() {
                platform.fail_all(operations[operation % operations.len()]);
            }
            model.apply(op);
            heap.check_invariants();
        }
        platform.heal();
        model.verify();
        model.free_all();
        heap.purge().expect("nothing fails any more");
        heap.check_invariants();
        assert_eq!(heap.statistics().aliased_bytes, 0);
        TestResult::passed()
    }
    QuickCheck::new().tests(100).quickcheck(property as fn(Vec<Op>, Vec<Op>, usize, bool) -> TestResult);
}

#[test]
fn a_full_arena_is_an_error_and_works_again_after_a_free() {
    let platform = SimulatedPlatform::new(4096);
    let heap = Heap::with_options(&platform, options()).expect("the platform has room");
    let mut local = heap.local();
    let layout = Layout::new::<[u8; 1000]>();
    let mut objects = Vec::new();
    let error = loop {
        match local.alloc(layout) {
            Ok(object) => objects.push(object),
            Err(error) => break error,
        }
    };
    assert_eq!(error, AllocError::OutOfMemory);
    assert!(objects.len() * 1024 > (4 << 20) * 9 / 10, "nearly all of the arena was handed out");
    heap.check_invariants();
    for object in objects.drain(..) {
        // SAFETY: the object is live and is not used afterwards.
        unsafe { local.dealloc(object, layout) };
    }
    // All of it serves another class and a large object now.
    let large = Layout::from_size_align(3 << 20, 4096).expect("valid");
    let object = local.alloc(large).expect("free pages serve every size");
    // SAFETY: the object is live and is not used afterwards.
    unsafe { local.dealloc(object, large) };
    heap.check_invariants();
}

#[test]
fn without_aliasing_the_heap_works_and_says_that_it_cannot_mesh() {
    let platform = SimulatedPlatform::new(4096).without_alias();
    let heap = Heap::with_options(&platform, options()).expect("the platform has room");
    let mut model = Model::new(&heap);
    model.apply(Op::Fragment(Size { bytes: 64, align_bits: 0 }, 255, 5));
    // SAFETY: no other thread runs.
    let step = unsafe { heap.mesh_at_safepoint(MeshBudget::UNLIMITED) };
    assert_eq!(step.end, StepEnd::Unsupported);
    model.verify();
}

#[test]
fn meshing_stops_at_the_mapping_budget_and_goes_on_when_it_grows() {
    let platform = SimulatedPlatform::new(4096);
    let options = Options { mapping_budget: Some(10), ..options() };
    let heap = Heap::with_options(&platform, options).expect("the platform has room");
    let kept = sparse_objects(&heap, Layout::new::<[u64; 8]>(), 10_000, 10);
    // SAFETY: no other thread runs.
    let mesh = || unsafe { heap.mesh_at_safepoint(MeshBudget::UNLIMITED) };
    assert_eq!(mesh().end, StepEnd::MappingsUsedUp);
    let used = heap.statistics();
    assert!(used.mappings <= 10 && used.mappings >= 8, "{used:?}");
    assert_eq!(platform.mappings(), used.mappings, "the heap counts as the platform does");
    heap.set_mapping_budget(1000);
    let more = mesh();
    assert_eq!(more.end, StepEnd::PassDone);
    assert!(more.pages_freed > 0);
    assert_untouched(&kept);
    heap.check_invariants();
}
