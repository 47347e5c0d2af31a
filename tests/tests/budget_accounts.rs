//! Budgets as accounts: what nodes say is what heaps have (I8), at every moment and whatever fails.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;

use meshheap::{
    AllocError, Budget, BudgetOptions, BudgetRef, CountedLocal, Heap, HeapRef, Limits, Operation, Options, Platform,
    Resource, SimulatedPlatform,
};
use meshheap_linux::LinuxPlatform;
use meshheap_tests::op::Size;
use meshheap_tests::scene::{PAGE, free, whole_pages};
use meshheap_tests::{Model, Op};
use quickcheck::{QuickCheck, TestResult};

static UNLIMITED: Budget = Budget::new(BudgetOptions::new(1));

fn used(budget: &Budget, resource: Resource) -> usize {
    budget.usage(resource).used
}

/// What `heaps` hold together, as a node should say it: address space, and memory.
fn held<P: Platform>(heaps: &[&Heap<P>]) -> (usize, usize) {
    let statistics: Vec<_> = heaps.iter().map(|heap| heap.statistics()).collect();
    let spans = statistics.iter().map(|heap| heap.span_bytes).sum();
    (spans, statistics.iter().map(|heap| heap.held_bytes - heap.metadata_bytes).sum())
}

fn charged(budget: &Budget) -> (usize, usize) {
    (used(budget, Resource::Virtual), used(budget, Resource::Physical))
}

fn options() -> Options {
    Options { arena_bytes: 4 << 20, seed: Some(3), ..Options::default() }
}

fn new_heap(platform: SimulatedPlatform, budget: impl Into<BudgetRef>) -> Heap<SimulatedPlatform> {
    Heap::with_budget(platform, options(), budget).expect("the platform has room")
}

#[test]
fn any_operations_of_two_heaps_are_charged_to_their_node_and_stay_below_its_limits() {
    fn property(ops: Vec<(bool, Op)>, virtual_pages: u16, physical_pages: u16, private: bool) -> TestResult {
        let pages = |count: u16| Limits::hard(usize::from(count % 1024) * PAGE);
        let process = Arc::new(Budget::new(BudgetOptions::new(0)));
        let limits = BudgetOptions::new(1).virtual_bytes(pages(virtual_pages)).physical_bytes(pages(physical_pages));
        let tenant = Arc::new(Budget::child(&process, limits).expect("it has no floor"));
        let platform = || {
            let platform = SimulatedPlatform::new(PAGE);
            if private { platform.private_until_shared() } else { platform }
        };
        let heaps = [(); 2].map(|()| new_heap(platform(), &tenant));
        let mut models = [Model::new(&heaps[0]), Model::new(&heaps[1])];
        for (second, op) in ops {
            models[usize::from(second)].apply(op);
            let expected = held(&[&heaps[0], &heaps[1]]);
            assert_eq!((charged(&tenant), charged(&process)), (expected, expected), "I8: after {op:?}");
            let (spans, memory) = (tenant.usage(Resource::Virtual), tenant.usage(Resource::Physical));
            assert!(spans.peak <= spans.hard && memory.peak <= memory.hard, "{spans:?}, {memory:?}");
            if !private {
                // SAFETY: no other thread runs.
                let real: usize = heaps.iter().map(|heap| unsafe { heap.platform().pages_with_data() }).sum();
                assert!(
                    real * PAGE <= memory.used,
                    "{real} pages hold data, but only {} bytes are charged",
                    memory.used
                );
            }
        }
        models.iter().for_each(Model::verify);
        heaps.iter().for_each(Heap::check_invariants);
        drop(models);
        drop(heaps);
        assert_eq!(charged(&process), (0, 0));
        TestResult::passed()
    }
    QuickCheck::new().tests(60).quickcheck(property as fn(Vec<(bool, Op)>, u16, u16, bool) -> TestResult);
}

/// Fills, fragments, meshes twice, makes spans hollow, frees and purges, at a limit that refuses some of it.
fn script() -> Vec<Op> {
    let small = |bytes| Size { bytes, align_bits: 0 };
    let round = |seed| {
        let frees = (0..40).map(|index| Op::Dealloc(index * 7));
        let fill =
            [Op::Fragment(small(64), 255, seed), Op::Fragment(small(1200), 100, seed), Op::Alloc(small(100_000))];
        let tail = [Op::Realloc(3, small(150_000)), Op::AllocZeroed(small(300_000)), Op::Flush, Op::MeshAll, Op::Purge];
        fill.into_iter().chain([Op::Flush, Op::MeshAll]).chain(frees).chain(tail)
    };
    (11..14).flat_map(round).collect()
}

/// Runs the script with call number `n` of `operation` failing. Returns whether there was such a call.
fn run_with_failure(operation: Operation, n: usize) -> bool {
    let budget = Arc::new(Budget::new(BudgetOptions::new(0).physical_bytes(Limits::hard(150 * PAGE))));
    let platform = SimulatedPlatform::new(PAGE);
    platform.fail_nth(operation, n);
    let Ok(heap) = Heap::with_budget(platform, options(), &budget) else {
        assert_eq!(charged(&budget), (0, 0), "no heap, no charge");
        return true;
    };
    let mut model = Model::new(&heap);
    for op in script() {
        model.apply(op);
        heap.check_invariants();
        assert_eq!(charged(&budget), held(&[&heap]), "I8: after {op:?}");
    }
    let made = heap.platform().calls(operation) >= n;
    heap.platform().heal();
    model.free_all();
    drop(model);
    heap.purge().expect("nothing fails any more");
    assert_eq!(charged(&budget), (0, 0), "everything came back");
    assert!(budget.usage(Resource::Physical).refusals > 0, "the limit was met");
    made
}

#[test]
fn whatever_fails_charges_are_what_the_heap_holds() {
    for operation in [Operation::Reserve, Operation::Commit, Operation::Purge, Operation::Alias, Operation::Unalias] {
        let failures = (1..).take_while(|&n| run_with_failure(operation, n)).count();
        assert!(failures > 0, "{operation:?} is called");
    }
}

#[test]
fn a_heap_keeps_a_node_whose_owner_is_gone() {
    let process = Arc::new(Budget::new(BudgetOptions::new(0)));
    let limits = BudgetOptions::new(1).physical_bytes(Limits::hard(10 * PAGE).with_floor(4 * PAGE));
    let tenant = Arc::new(Budget::child(&process, limits).expect("the floor fits"));
    let heap = new_heap(SimulatedPlatform::new(PAGE), tenant);
    assert_eq!(used(&process, Resource::Physical), 4 * PAGE, "the floor");
    let large = heap.alloc(whole_pages(9)).expect("the limit is there");
    assert!(matches!(heap.alloc(whole_pages(9)), Err(AllocError::OverBudget(error)) if error.node() == 1));
    free(&heap, large);
    heap.purge().expect("nothing fails");
    assert_eq!(heap.budget().map(Budget::id), Some(1));
    assert_eq!(used(&process, Resource::Physical), 4 * PAGE);
    drop(heap);
    assert_eq!(used(&process, Resource::Physical), 0, "the node went with its last heap");
}

#[test]
fn a_static_node_serves_heaps_and_a_leaked_heap_stays_charged() {
    let heap = new_heap(SimulatedPlatform::new(PAGE), &UNLIMITED);
    let other = new_heap(SimulatedPlatform::new(PAGE), &UNLIMITED);
    for heap in [&heap, &other] {
        heap.alloc(whole_pages(10)).expect("no limit");
    }
    assert_eq!(charged(&UNLIMITED), (20 * PAGE, 20 * PAGE));
    drop(heap);
    let leaked = Box::leak(Box::new(other));
    assert_eq!(charged(&UNLIMITED), held(&[leaked]));
}

const SMALL: Layout = Layout::new::<[u64; 8]>();

fn objects(bytes: usize) -> (Arc<Budget>, Heap<SimulatedPlatform>) {
    let budget = Arc::new(Budget::new(BudgetOptions::new(3).object_bytes(Limits::hard(bytes))));
    let heap = new_heap(SimulatedPlatform::new(PAGE), &budget);
    (budget, heap)
}

fn free_counted<H: HeapRef>(local: &mut CountedLocal<H>, object: NonNull<u8>, layout: Layout) {
    // SAFETY: the tests free each object once, with its layout.
    unsafe { local.dealloc(object, layout) };
}

#[test]
fn a_counted_handle_reaches_the_limit_to_the_byte() {
    for stock in [0, 100, 1 << 10, 64 << 10] {
        let (budget, heap) = objects(100 * 64 + 2 * PAGE * 9);
        let mut local = CountedLocal::new(heap.local(), stock);
        let large = [(); 2].map(|()| local.alloc(whole_pages(9)).expect("there is room"));
        let small: Vec<_> = (0..100).map(|_| local.alloc_zeroed(SMALL).expect("there is room")).collect();
        let refused = local.alloc(SMALL).expect_err("there is no room");
        assert!(
            matches!(refused, AllocError::OverBudget(error) if error.node() == 3 && error.resource() == Resource::Objects)
        );
        assert_eq!((local.stock(), used(&budget, Resource::Objects)), (0, 100 * 64 + 2 * PAGE * 9));
        free_counted(&mut local, large[0], whole_pages(9));
        assert!(local.stock() <= stock, "no more than a stock is kept");
        for object in small {
            // SAFETY: the object is live and is not used afterwards.
            unsafe { local.free(object) }.expect("it is live");
            assert!(local.stock() <= stock, "no more than a stock is kept");
        }
        local.flush();
        assert_eq!(used(&budget, Resource::Objects), 9 * PAGE, "the other large object");
        // SAFETY: the object is live and has this layout.
        let shrunk = unsafe { local.realloc(large[1], whole_pages(9), 64) }.expect("it becomes smaller");
        local.flush();
        assert_eq!(used(&budget, Resource::Objects), 64);
        // SAFETY: as above.
        let refused = unsafe { local.realloc(shrunk, Layout::from_size_align(64, 16).expect("valid"), 1 << 20) };
        assert!(matches!(refused, Err(AllocError::OverBudget(_))), "it is as it was");
        drop(local);
        assert_eq!(used(&budget, Resource::Objects), 64, "a handle takes its stock along");
        drop(heap);
        assert_eq!(used(&budget, Resource::Objects), 0, "objects go with their heap");
    }
}

#[test]
fn objects_that_a_reset_frees_are_uncharged() {
    let (budget, mut heap) = objects(1 << 20);
    let mut local = CountedLocal::new(heap.local(), 1 << 10);
    let _objects: Vec<_> = (0..100).map(|_| local.alloc(SMALL).expect("there is room")).collect();
    drop(local);
    assert_eq!(used(&budget, Resource::Objects), 100 * 64);
    heap.reset();
    assert_eq!(used(&budget, Resource::Objects), 0);
    heap.check_invariants();
}

#[test]
fn a_counted_allocation_that_fails_for_another_reason_charges_nothing() {
    let (budget, heap) = objects(usize::MAX);
    let mut local = CountedLocal::new(heap.local(), 0);
    assert_eq!(local.alloc(whole_pages(2000)), Err(AllocError::TooLarge));
    let _most = local.alloc(whole_pages(1000)).expect("there is room");
    assert_eq!(local.alloc(whole_pages(1000)), Err(AllocError::OutOfMemory));
    assert_eq!(used(&budget, Resource::Objects), 1000 * PAGE);
    // Without a budget nothing is counted, but everything works.
    let plain = Heap::with_options(SimulatedPlatform::new(PAGE), options()).expect("the platform has room");
    let mut local = CountedLocal::new(plain.local(), 1 << 10);
    let object = local.alloc(SMALL).expect("there is room");
    free_counted(&mut local, object, SMALL);
    assert!(plain.budget().is_none());
}

#[test]
fn threads_that_share_a_node_stay_below_its_limit() {
    const LIMIT: usize = 64 * PAGE;
    let limits = BudgetOptions::new(0).physical_bytes(Limits::hard(LIMIT)).object_bytes(Limits::hard(LIMIT / 2));
    let budget = Arc::new(Budget::new(limits));
    let options = Options { arena_bytes: 64 << 20, ..Options::default() };
    let heaps = [(); 2].map(|()| Heap::with_budget(LinuxPlatform::new(), options, &budget).expect("Linux has room"));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let work = |heap| {
            let mut local = CountedLocal::new(Heap::local(heap), 1 << 10);
            let mut refusals = 0;
            for size in (0..200).map(|round| 64 << (round % 6)) {
                let layout = Layout::from_size_align(size, 16).expect("valid");
                let objects: Vec<_> = (0..100).map_while(|_| local.alloc(layout).ok()).collect();
                refusals += usize::from(objects.len() < 100);
                objects.into_iter().for_each(|object| free_counted(&mut local, object, layout));
            }
            refusals
        };
        let workers: Vec<_> = heaps.iter().chain(&heaps).map(|heap| scope.spawn(move || work(heap))).collect();
        let watcher = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                assert!(used(&budget, Resource::Physical) <= LIMIT);
                assert!(used(&budget, Resource::Objects) <= LIMIT / 2);
                thread::yield_now();
            }
        });
        let outcomes: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        let refusals: usize = outcomes.into_iter().map(|outcome| outcome.expect("no worker panics")).sum();
        watcher.join().expect("the limits hold at every moment");
        assert!(refusals > 0, "the limits were met");
    });
    heaps.iter().for_each(Heap::check_invariants);
    assert_eq!(charged(&budget), held(&[&heaps[0], &heaps[1]]));
    assert_eq!(used(&budget, Resource::Objects), 0);
}
