//! What a fork leaves of what was meshed, and how it is laid together again. The simulated platform freezes as Linux does; both
//! sides of a real fork are looked at in `platform-linux`.

use meshheap::{Heap, MeshBudget, MeshStep, Operation, PageIndex, PageRun, Platform, SimulatedPlatform, StepEnd};
use meshheap_tests::scene::{LAYOUT, PAGE, free, small_heap, spans};
use meshheap_tests::sparse::{assert_untouched, sparse_objects};

fn pass<P: Platform>(heap: &Heap<P>) -> MeshStep {
    // SAFETY: no other thread writes to objects.
    unsafe { heap.mesh_at_safepoint(MeshBudget::UNLIMITED) }
}

fn fork<P: Platform>(heap: &Heap<P>) {
    heap.fork_prepare().expect("nothing fails");
    // SAFETY: this thread called `fork_prepare` just now.
    unsafe { heap.fork_done() };
}

fn platform() -> SimulatedPlatform {
    SimulatedPlatform::new(PAGE).private_until_shared()
}

fn is_shared(platform: &SimulatedPlatform, page: u32) -> bool {
    !platform.is_private(PageRun { start: PageIndex::new(page), count: 1 })
}

#[test]
fn what_a_fork_took_apart_is_laid_together_by_the_next_pass_that_can() {
    for operation in [Operation::Share, Operation::Alias] {
        let platform = platform();
        let heap = small_heap(&platform, 64);
        let objects = spans(&heap, &[&[0], &[1], &[0, 2], &[1, 3]]).concat();
        pass(&heap);
        assert!(!heap.has_to_thaw());
        fork(&heap);
        assert!(heap.has_to_thaw());
        assert!((0..4).all(|page| !is_shared(&platform, page)), "each process has its own");
        platform.fail_all(operation);
        assert!(matches!(pass(&heap).end, StepEnd::Refused(_)), "{operation:?} was refused");
        assert!(heap.has_to_thaw(), "a pass that was refused leaves it to the next");
        platform.heal();
        assert_eq!(pass(&heap).end, StepEnd::PassDone, "the rest of the pass that was refused");
        assert_eq!(pass(&heap).end, StepEnd::PassDone);
        assert!(!heap.has_to_thaw());
        assert!((0..4).all(|page| is_shared(&platform, page)), "all are together again");
        heap.check_invariants();
        assert_untouched(&objects);
    }
}

#[test]
fn a_keeper_whose_aliases_died_does_not_stay_with_the_memory_of_before_the_fork() {
    let platform = platform();
    let heap = small_heap(&platform, 64);
    let [keeper, alias]: [_; 2] = spans(&heap, &[&[0, 2], &[1]]).try_into().expect("two spans");
    assert_eq!(pass(&heap).pages_freed, 1);
    alias.into_iter().for_each(|object| free(&heap, object));
    fork(&heap);
    assert_eq!(pass(&heap).end, StepEnd::PassDone);
    assert!(is_shared(&platform, 0), "its page lies in new memory");
    assert!(!heap.has_to_thaw());
    assert_untouched(&keeper);
}

#[test]
fn a_step_without_mappings_to_spend_thaws_nothing_and_the_next_goes_on() {
    let platform = platform();
    let heap = small_heap(&platform, 64);
    let objects = spans(&heap, &[&[0], &[1], &[2], &[3]]).concat();
    heap.set_mapping_budget(4);
    pass(&heap);
    let aliased = heap.statistics().aliased_bytes;
    assert!(aliased > 0);
    fork(&heap);
    heap.set_mapping_budget(0);
    pass(&heap);
    heap.set_mapping_budget(16);
    pass(&heap);
    assert!(!heap.has_to_thaw());
    heap.check_invariants();
    assert_untouched(&objects);
}

#[test]
fn empty_pages_of_what_a_fork_took_apart_are_given_back_once_it_is_together_again() {
    let platform = platform();
    let heap = small_heap(&platform, 1024);
    let layout = core::alloc::Layout::from_size_align(2000, 16).expect("valid");
    // Long spans, most pages of which hold no object.
    let objects = sparse_objects(&heap, layout, 32 * 40, 20);
    pass(&heap);
    assert!(heap.statistics().mappings > 0);
    fork(&heap);
    heap.purge().expect("nothing fails");
    assert!(heap.statistics().mappings >= platform.mappings(), "I7: no mapping was cut that is not counted");
    pass(&heap);
    heap.purge().expect("nothing fails");
    assert!(heap.statistics().mappings >= platform.mappings(), "I7");
    heap.check_invariants();
    assert_untouched(&objects);
}

#[test]
fn what_is_pinned_when_a_pass_comes_by_is_left_to_the_next() {
    let platform = platform();
    let heap = small_heap(&platform, 64);
    let [keeper, _alias]: [_; 2] = spans(&heap, &[&[0], &[1]]).try_into().expect("two spans");
    pass(&heap);
    fork(&heap);
    heap.pin(keeper[0]).expect("a live object");
    pass(&heap);
    assert!(heap.has_to_thaw() && !is_shared(&platform, 0), "its pages stay");
    heap.unpin(keeper[0]).expect("it is pinned");
    pass(&heap);
    assert!(!heap.has_to_thaw() && is_shared(&platform, 0) && is_shared(&platform, 1));
}

#[test]
fn rows_are_laid_together_again_where_mappings_are_used_up() {
    let platform = platform();
    let heap = small_heap(&platform, 4096);
    let objects = sparse_objects(&heap, LAYOUT, 64 * 1024, 10);
    heap.set_mapping_budget(300);
    assert_eq!(pass(&heap).end, StepEnd::MappingsUsedUp);
    fork(&heap);
    pass(&heap);
    assert!(!heap.has_to_thaw(), "{:?}", heap.statistics());
    assert!(heap.statistics().mappings <= 300);
    heap.check_invariants();
    assert_untouched(&objects);
}
