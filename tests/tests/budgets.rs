//! Budgets at their limits: what a heap does before an allocation fails, what the error tells, and what everybody else
//! notices of it.

use core::alloc::Layout;
use core::panic::AssertUnwindSafe;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::panic::catch_unwind;
use std::sync::{Arc, OnceLock};

use meshheap::{
    AllocError, Budget, BudgetOptions, Heap, LimitBelowUse, Limits, Options, Platform, Refusal, Resource,
    SimulatedPlatform,
};
use meshheap_tests::scene::{LAYOUT, PAGE, SLOTS, free, spans, whole_pages};
use meshheap_tests::sparse::{assert_untouched, mesh_all, sparse_objects};

/// A node with this limit of pages that hold memory.
fn physical(id: u32, pages: usize) -> BudgetOptions {
    BudgetOptions::new(id).physical_bytes(Limits::hard(pages * PAGE))
}

fn pages(budget: &Budget, resource: Resource) -> usize {
    budget.usage(resource).used / PAGE
}

fn options() -> Options {
    Options { arena_bytes: 256 * PAGE, seed: Some(1), ..Options::default() }
}

fn heap(budget: &Arc<Budget>) -> Heap<SimulatedPlatform> {
    Heap::with_budget(SimulatedPlatform::new(PAGE), options(), budget).expect("the platform has room")
}

/// The node that refused, as the error names it.
fn refuser<T: core::fmt::Debug>(outcome: Result<T, AllocError>) -> (u32, u8, Resource) {
    let AllocError::OverBudget(error) = outcome.expect_err("the budget has no room") else {
        panic!("another error");
    };
    (error.node(), error.level(), error.resource())
}

/// Allocates objects of `layout` until the budget refuses one.
fn fill<P: Platform>(heap: &Heap<P>, layout: Layout) -> Vec<NonNull<u8>> {
    core::iter::from_fn(|| heap.alloc(layout).ok()).collect()
}

#[test]
fn a_tenant_at_its_limit_recovers_and_its_neighbour_notices_nothing() {
    let process = Arc::new(Budget::new(physical(0, 100)));
    let tenant = |id, pages| Arc::new(Budget::child(&process, physical(id, pages)).expect("there is room"));
    let (greedy, calm) = (tenant(1, 10), tenant(2, 10));
    let (first, second) = (heap(&greedy), heap(&calm));
    let objects = fill(&first, LAYOUT);
    assert_eq!(objects.len(), 10 * SLOTS, "the limit is used to the last page");
    assert_eq!(refuser(first.alloc(LAYOUT)), (1, 0, Resource::Physical));
    assert_eq!(refuser(first.alloc_zeroed(whole_pages(9))), (1, 0, Resource::Physical));
    assert_eq!(refuser(first.local().alloc(LAYOUT)), (1, 0, Resource::Physical));
    second.alloc(LAYOUT).expect("the neighbour has its own");
    assert_eq!((pages(&greedy, Resource::Physical), pages(&process, Resource::Physical)), (10, 11));
    objects.into_iter().for_each(|object| free(&first, object));
    first.alloc(whole_pages(9)).expect("there is room again");
    first.check_invariants();
}

#[test]
fn the_error_names_the_node_that_has_no_room() {
    let process = Arc::new(Budget::new(physical(7, 10)));
    let tenant = Arc::new(Budget::child(&process, BudgetOptions::new(8)).expect("there is room"));
    let isolate = Arc::new(Budget::child(&tenant, physical(9, 20)).expect("there is room"));
    let heap = heap(&isolate);
    assert_eq!(refuser(heap.alloc(whole_pages(11))), (7, 2, Resource::Physical));
    assert_eq!(refuser(heap.alloc(whole_pages(21))), (9, 0, Resource::Physical));
    assert_eq!(heap.alloc(whole_pages(300)), Err(AllocError::TooLarge));
    for budget in [&process, &tenant, &isolate] {
        assert_eq!(
            (pages(budget, Resource::Physical), pages(budget, Resource::Virtual)),
            (0, 0),
            "nothing stays charged"
        );
    }
    assert_eq!(size_of::<AllocError>(), 8, "the name costs allocations no register");
}

#[test]
fn free_pages_with_old_content_are_used_or_given_back_first() {
    let budget = Arc::new(Budget::new(physical(0, 20)));
    let heap = heap(&budget);
    let large = heap.alloc(whole_pages(18)).expect("there is room");
    free(&heap, large);
    assert_eq!(heap.statistics().dirty_bytes, 18 * PAGE, "they wait for reuse, charged");
    heap.alloc(whole_pages(18)).expect("the same pages serve again");
    assert_eq!(budget.usage(Resource::Physical).refusals, 0);
    heap.purge().expect("nothing fails");
    let small = fill(&heap, LAYOUT);
    small.into_iter().for_each(|object| free(&heap, object));
    heap.alloc(whole_pages(2)).expect("two pages are free");
}

#[test]
fn what_other_handles_do_not_keep_makes_room_for_address_space() {
    let limit = Limits::hard(10 * PAGE);
    let budget = Arc::new(Budget::new(BudgetOptions::new(0).virtual_bytes(limit)));
    let heap = heap(&budget);
    let mut local = heap.local();
    let objects: Vec<_> = core::iter::from_fn(|| local.alloc(LAYOUT).ok()).collect();
    assert_eq!(objects.len(), 10 * SLOTS);
    // SAFETY: each object is live and is not used afterwards.
    objects.into_iter().for_each(|object| unsafe { local.dealloc(object, LAYOUT) });
    assert_eq!(pages(&budget, Resource::Virtual), 10, "the slots wait in the handle and in the depot");
    let large = local.alloc(whole_pages(10)).expect("all of it is free");
    assert_eq!(refuser(local.alloc(LAYOUT)), (0, 0, Resource::Virtual));
    free(&heap, large);
    local.alloc(LAYOUT).expect("there is room again");
}

/// A heap at its limit whose spans mesh.
fn fragmented<P: Platform>(platform: P, options: Options, budget: &Arc<Budget>) -> (Heap<P>, Vec<NonNull<u8>>) {
    let heap = Heap::with_budget(platform, options, budget).expect("the platform has room");
    let kept = spans(&heap, &[&[0], &[1], &[2], &[3], &[4], &[5], &[6], &[7], &[8], &[9]]).concat();
    heap.purge().expect("nothing fails");
    assert_eq!(pages(budget, Resource::Physical), 10);
    (heap, kept)
}

#[test]
fn meshing_makes_room_for_memory() {
    let budget = Arc::new(Budget::new(physical(0, 10)));
    let (heap, kept) = fragmented(SimulatedPlatform::new(PAGE), options(), &budget);
    assert_eq!(refuser(heap.alloc(whole_pages(9))), (0, 0, Resource::Physical));
    mesh_all(&heap);
    assert_eq!((pages(&budget, Resource::Physical), pages(&budget, Resource::Virtual)), (1, 10));
    heap.alloc(whole_pages(9)).expect("meshing made room");
    heap.check_invariants();
    assert_untouched(&kept);
}

#[test]
fn an_allocation_meshes_by_itself_if_it_may() {
    let budget = Arc::new(Budget::new(physical(0, 10)));
    // SAFETY: no other thread runs.
    let platform = unsafe { SimulatedPlatform::new(PAGE).with_write_barrier() };
    let (heap, kept) = fragmented(platform, Options { mesh_at_limit: true, ..options() }, &budget);
    heap.alloc(whole_pages(9)).expect("meshing made room");
    heap.check_invariants();
    assert_untouched(&kept);
    assert_eq!(refuser(heap.alloc(whole_pages(9))), (0, 0, Resource::Physical));

    let budget = Arc::new(Budget::new(physical(0, 10)));
    // SAFETY: as above.
    let platform = unsafe { SimulatedPlatform::new(PAGE).with_write_barrier() };
    let (heap, _kept) = fragmented(platform, options(), &budget);
    assert_eq!(refuser(heap.alloc(whole_pages(9))), (0, 0, Resource::Physical));
    assert_eq!(heap.statistics().mesh_steps, 0, "it may not");
}

#[test]
fn empty_pages_of_spans_are_charged_again_when_they_are_used() {
    let budget = Arc::new(Budget::new(physical(0, 64)));
    let heap = heap(&budget);
    let kilobyte = Layout::new::<[u64; 128]>();
    let kept = sparse_objects(&heap, kilobyte, 256, 32);
    heap.purge().expect("nothing fails");
    let hollow = pages(&budget, Resource::Virtual) - pages(&budget, Resource::Physical);
    assert!(hollow >= 16, "most pages of the spans are empty: {hollow}");
    let room = 64 - pages(&budget, Resource::Physical);
    let large = heap.alloc(whole_pages(room)).expect("the empty pages make room");
    let (held, used) = (pages(&budget, Resource::Physical), heap.statistics().span_bytes);
    assert_eq!(held, 64);
    assert_eq!(refuser(heap.alloc(Layout::new::<[u64; 129]>())), (0, 0, Resource::Physical));
    assert_eq!(heap.statistics().span_bytes, used, "a refused allocation keeps nothing");
    free(&heap, large);
    let again = fill(&heap, kilobyte);
    assert!(again.len() >= 256 - 8 - 32, "slots on the empty pages serve again: {}", again.len());
    heap.check_invariants();
    assert_untouched(&kept);
}

/// A node whose hook does something to its heap, and counts its calls.
struct Hooked {
    heap: OnceLock<Heap<SimulatedPlatform>>,
    calls: AtomicUsize,
}

impl Hooked {
    fn new(limit: usize, act: impl Fn(&Heap<SimulatedPlatform>, &Refusal<'_>) + Send + Sync + 'static) -> Arc<Self> {
        let this = Arc::new(Self { heap: OnceLock::new(), calls: AtomicUsize::new(0) });
        let weak = Arc::downgrade(&this);
        let hook = move |refusal: &Refusal<'_>| {
            let this = weak.upgrade().expect("the test holds it");
            this.calls.fetch_add(1, Ordering::Relaxed);
            act(this.heap(), refusal);
        };
        let budget = Arc::new(Budget::new(physical(5, limit).on_limit(Arc::new(hook))));
        this.heap.set(heap(&budget)).expect("it is set once");
        this
    }

    fn heap(&self) -> &Heap<SimulatedPlatform> {
        self.heap.get().expect("it was set")
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

#[test]
fn a_hook_may_raise_the_limit() {
    let hooked = Hooked::new(10, |_, refusal| {
        assert_eq!((refusal.node.id(), refusal.resource, refusal.wanted), (5, Resource::Physical, 12 * PAGE));
        refusal.node.set_hard(Resource::Physical, 12 * PAGE).expect("it is raised");
    });
    hooked.heap().alloc(whole_pages(12)).expect("the hook raised the limit");
    assert_eq!(hooked.calls(), 1);
}

#[test]
fn a_hook_may_free() {
    static CACHE: AtomicUsize = AtomicUsize::new(0);
    let hooked = Hooked::new(20, |heap, _| {
        let cached = NonNull::new(core::ptr::with_exposed_provenance_mut(CACHE.swap(0, Ordering::Relaxed)));
        free(heap, cached.expect("it is called once"));
        heap.purge().expect("nothing fails");
    });
    let cached = hooked.heap().alloc(whole_pages(15)).expect("there is room");
    CACHE.store(cached.as_ptr().expose_provenance(), Ordering::Relaxed);
    hooked.heap().local().alloc_zeroed(whole_pages(20)).expect("the hook emptied the cache");
    assert_eq!(hooked.calls(), 1);
}

#[test]
fn a_hook_that_does_nothing_is_called_once_for_each_failure() {
    let hooked = Hooked::new(10, |_, _| {});
    for call in 1..4 {
        assert_eq!(refuser(hooked.heap().alloc(whole_pages(11))), (5, 0, Resource::Physical));
        assert_eq!(hooked.calls(), call);
    }
    assert_eq!(refuser(hooked.heap().local().alloc(whole_pages(11))), (5, 0, Resource::Physical));
    assert_eq!(hooked.calls(), 4);
}

#[test]
fn the_hook_of_the_node_whose_limit_was_met_is_called_and_no_other() {
    let counting = |calls: &Arc<AtomicUsize>, raise: usize| {
        let calls = Arc::clone(calls);
        move |refusal: &Refusal<'_>| {
            calls.fetch_add(1, Ordering::Relaxed);
            if raise > 0 {
                refusal.node.set_hard(refusal.resource, raise * PAGE).expect("it is raised");
            }
        }
    };
    let calls: [_; 3] = core::array::from_fn(|_| Arc::new(AtomicUsize::new(0)));
    let so_far = || calls.each_ref().map(|calls| calls.load(Ordering::Relaxed));
    let process = Arc::new(Budget::new(physical(0, 10).on_limit(Arc::new(counting(&calls[0], 30)))));
    let group = Budget::child(&process, BudgetOptions::new(1).on_limit(Arc::new(counting(&calls[1], 0))));
    let group = Arc::new(group.expect("there is room"));
    let isolate = Budget::child(&group, physical(2, 20).on_limit(Arc::new(counting(&calls[2], 0))));
    let isolate = Arc::new(isolate.expect("there is room"));
    let heap = heap(&isolate);
    let first = heap.alloc(whole_pages(12)).expect("the hook of the process raised its limit");
    assert_eq!(so_far(), [1, 0, 0]);
    assert_eq!(refuser(heap.alloc(whole_pages(9))), (2, 0, Resource::Physical));
    assert_eq!(so_far(), [1, 0, 1], "the isolate's own limit is the isolate's matter");
    free(&heap, first);
    assert_eq!(isolate.set_hard(Resource::Physical, 100 * PAGE), Ok(()));
    assert_eq!(refuser(heap.alloc(whole_pages(40))), (0, 2, Resource::Physical));
    assert_eq!(so_far(), [2, 0, 1], "the group has no limit");
    heap.check_invariants();
}

#[test]
fn an_allocation_calls_one_hook_at_the_most() {
    let process = Arc::new(Budget::new(physical(0, 10).on_limit(&|_: &Refusal<'_>| panic!("it is the second"))));
    let raise = |refusal: &Refusal<'_>| {
        refusal.node.set_hard(refusal.resource, 100 * PAGE).expect("it is raised");
    };
    let tenant = Budget::child(&process, physical(1, 5).on_limit(Arc::new(raise)));
    let heap = heap(&Arc::new(tenant.expect("there is room")));
    assert_eq!(refuser(heap.alloc(whole_pages(20))), (0, 1, Resource::Physical));
    heap.check_invariants();
}

#[test]
fn an_allocation_within_the_hook_fails_at_the_same_limit_and_works_below() {
    let hooked = Hooked::new(10, |heap, _| {
        assert_eq!(refuser(heap.alloc(whole_pages(11))), (5, 0, Resource::Physical));
        let small = heap.alloc(LAYOUT).expect("there is room for it");
        free(heap, small);
    });
    assert_eq!(refuser(hooked.heap().alloc(whole_pages(11))), (5, 0, Resource::Physical));
    assert_eq!(hooked.calls(), 1, "not for the one within");
    hooked.heap().check_invariants();
}

#[test]
fn a_panic_of_the_hook_comes_through_and_leaves_the_heap_whole() {
    let hooked = Hooked::new(10, |_, _| panic!("the hook panics"));
    let mut local = hooked.heap().local();
    let objects: Vec<_> = (0..9 * SLOTS).map(|_| local.alloc(LAYOUT).expect("there is room")).collect();
    for calls in 1..3 {
        let outcome = catch_unwind(AssertUnwindSafe(|| local.alloc(whole_pages(9))));
        assert!(outcome.is_err(), "the panic comes through");
        assert_eq!(hooked.calls(), calls, "the hook can be called again");
        hooked.heap().check_invariants();
    }
    // SAFETY: each object is live and is not used afterwards.
    objects.into_iter().for_each(|object| unsafe { local.dealloc(object, LAYOUT) });
    local.alloc(whole_pages(9)).expect("handle and heap work on");
}

#[test]
fn a_limit_below_what_is_used_refuses_until_enough_came_back() {
    let budget = Arc::new(Budget::new(physical(0, 100)));
    let heap = heap(&budget);
    let [first, second] = [(); 2].map(|()| heap.alloc(whole_pages(30)).expect("there is room"));
    assert_eq!(budget.set_hard(Resource::Physical, 40 * PAGE), Err(LimitBelowUse { used: 60 * PAGE }));
    assert_eq!(refuser(heap.alloc(LAYOUT)), (0, 0, Resource::Physical));
    free(&heap, first);
    heap.alloc(LAYOUT).expect("free pages with old content are charged already");
    assert_eq!(pages(&budget, Resource::Physical), 60);
    assert_eq!(refuser(heap.alloc(whole_pages(30))), (0, 0, Resource::Physical));
    assert_eq!(pages(&budget, Resource::Physical), 31, "what it held without need went back before it failed");
    free(&heap, second);
    heap.alloc(whole_pages(39)).expect("there is room again");
    heap.check_invariants();
}

#[test]
fn a_teardown_may_use_the_reserve() {
    let limits = Limits::hard(10 * PAGE).with_reserve(4 * PAGE);
    let budget = Arc::new(Budget::new(BudgetOptions::new(0).physical_bytes(limits)));
    let heap = heap(&budget);
    let _full = fill(&heap, LAYOUT);
    let finaliser = {
        let _teardown = budget.begin_teardown();
        let objects: Vec<_> = fill(&heap, LAYOUT);
        assert_eq!(objects.len(), 4 * SLOTS, "the reserve, and no more");
        objects
    };
    assert_eq!(refuser(heap.alloc(LAYOUT)), (0, 0, Resource::Physical));
    finaliser.into_iter().for_each(|object| free(&heap, object));
    assert_eq!(pages(&budget, Resource::Physical), 10 + 4);
    heap.purge().expect("nothing fails");
    assert_eq!(pages(&budget, Resource::Physical), 10);
}

#[test]
fn above_the_soft_limit_free_pages_go_back_at_once() {
    let budget = Arc::new(Budget::new(BudgetOptions::new(0).physical_bytes(Limits::UNLIMITED.with_soft(20 * PAGE))));
    let heap = heap(&budget);
    let [first, second] = [(); 2].map(|()| heap.alloc(whole_pages(15)).expect("there is room"));
    assert!(budget.is_over_soft(Resource::Physical));
    free(&heap, first);
    assert_eq!((pages(&budget, Resource::Physical), heap.statistics().dirty_bytes), (15, 0));
    assert!(!budget.is_over_soft(Resource::Physical));
    free(&heap, second);
    assert_eq!(heap.statistics().dirty_bytes, 15 * PAGE, "below it they wait for reuse");
}
