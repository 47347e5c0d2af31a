//! Rows: neighbouring spans are meshed as one where mappings are scarce, and part again one by one.

use core::ptr::NonNull;

use meshheap::{Heap, MeshBudget, MeshStep, Options, Platform, SimulatedPlatform, StepEnd};
use meshheap_tests::scene::{LAYOUT, PAGE, free, small_heap, spans};
use meshheap_tests::sparse::{assert_untouched, sparse_objects};
use quickcheck::quickcheck;

fn pass<P: Platform>(heap: &Heap<P>) -> MeshStep {
    // SAFETY: no other thread writes to objects.
    unsafe { heap.mesh_at_safepoint(MeshBudget::UNLIMITED) }
}

/// Eight neighbouring spans, the first four of which fit onto the last four. There are as many mappings as that takes.
fn two_rows(heap: &Heap<&SimulatedPlatform>) -> Vec<Vec<NonNull<u8>>> {
    let taken: [&[usize]; 8] = [&[0], &[1], &[2], &[3], &[4], &[0, 5], &[6], &[7]];
    let objects = spans(heap, &taken);
    heap.set_mapping_budget(3);
    objects
}

/// Platforms on which pages can always be aliased, and only once they are shared.
fn platforms() -> [SimulatedPlatform; 2] {
    [SimulatedPlatform::new(PAGE), SimulatedPlatform::new(PAGE).private_until_shared()]
}

fn assert_counted(heap: &Heap<&SimulatedPlatform>, platform: &SimulatedPlatform) {
    heap.check_invariants();
    let statistics = heap.statistics();
    assert!(statistics.mappings >= platform.mappings(), "I7: {statistics:?}, in truth {}", platform.mappings());
}

#[test]
fn a_row_takes_the_mapping_of_a_single_span() {
    for platform in platforms() {
        let heap = small_heap(&platform, 64);
        let objects = two_rows(&heap).concat();
        let step = pass(&heap);
        assert_eq!(step.pages_freed, 4, "{step:?}");
        assert_counted(&heap, &platform);
        assert_untouched(&objects);
        objects.into_iter().for_each(|object| free(&heap, object));
        assert_counted(&heap, &platform);
        assert_eq!((heap.statistics().mappings, platform.mappings()), (0, 0), "all of it came back");
    }
}

#[test]
fn spans_of_a_row_die_one_by_one() {
    for platform in platforms() {
        let heap = small_heap(&platform, 64);
        let mut rows = two_rows(&heap);
        assert_eq!(pass(&heap).pages_freed, 4);
        heap.set_mapping_budget(64);
        // From the middle: what is left of the row are two mappings.
        for span in [1, 2, 6, 0, 5, 3, 4, 7] {
            rows[span].drain(..).for_each(|object| free(&heap, object));
            assert_counted(&heap, &platform);
            assert_untouched(&rows.concat());
        }
        assert_eq!((heap.statistics().mappings, platform.mappings()), (0, 0));
    }
}

#[test]
fn a_span_that_dies_in_a_row_waits_while_its_rests_have_no_mappings() {
    for platform in platforms() {
        let heap = small_heap(&platform, 64);
        let mut rows = two_rows(&heap);
        assert_eq!(pass(&heap).pages_freed, 4);
        heap.set_mapping_budget(heap.statistics().mappings);
        // Each is in the middle of a row, and one of them is an alias.
        for span in [1, 5] {
            rows[span].drain(..).for_each(|object| free(&heap, object));
        }
        let waiting = heap.statistics();
        assert!(waiting.parted_bytes >= PAGE, "{waiting:?}");
        assert!(waiting.mappings <= waiting.mapping_budget, "I7: {waiting:?}");
        assert_counted(&heap, &platform);
        heap.set_mapping_budget(64);
        heap.purge().expect("nothing fails");
        assert_eq!(heap.statistics().parted_bytes, 0, "there are mappings for them");
        assert_counted(&heap, &platform);
        assert_untouched(&rows.concat());
    }
}

#[test]
fn a_span_that_waits_for_mappings_keeps_no_other_waiting() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 64);
    let full: Vec<_> = (8..32).collect();
    let taken: [&[usize]; 8] = [&[0], &[1], &[2], &[3], &[4], &[0, 5], &[6], &[7]];
    // Two pairs of rows, and between them a span that fits none.
    let mut rows = spans(&heap, &[&taken[..], &[&full[..]], &taken[..], &[&full[..]]].concat());
    heap.set_mapping_budget(7);
    pass(&heap);
    heap.set_mapping_budget(heap.statistics().mappings);
    assert!(heap.statistics().aliased_bytes >= 8 * PAGE);
    let mut free_spans = |spans: &[usize]| {
        spans.iter().for_each(|&span| rows[span].drain(..).for_each(|object| free(&heap, object)));
    };
    // The second pair's spans die, those in the middle first; then one in the middle of the first pair's, which are alive.
    free_spans(&[10, 11, 14, 15, 9, 12, 13, 16, 1, 5]);
    heap.purge().expect("nothing fails");
    let waiting = heap.statistics().parted_bytes / PAGE;
    assert!(waiting <= 1, "{waiting} wait, and what the others gave back was enough for all but one");
    assert_counted(&heap, &platform);
}

#[test]
fn where_mappings_are_scarce_a_pass_frees_more_pages_for_each() {
    let platform = SimulatedPlatform::new(PAGE).private_until_shared();
    let heap = small_heap(&platform, 4096);
    let kept = sparse_objects(&heap, LAYOUT, 64 * 1024, 10);
    let spans = heap.statistics().span_bytes / PAGE;
    heap.set_mapping_budget(spans / 3);
    let step = pass(&heap);
    assert!(step.pages_freed > spans / 2, "{} of {spans} pages with {} mappings", step.pages_freed, spans / 3);
    assert!(2 * step.pages_freed > 3 * step.mappings, "single spans free less than one each: {step:?}");
    assert_counted(&heap, &platform);
    assert_untouched(&kept);
}

#[test]
fn new_spans_come_with_neighbours_that_go_when_they_are_not_needed() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 256);
    let per_span = PAGE / LAYOUT.size();
    let objects: Vec<_> = (0..100 * per_span + 1).map(|_| heap.alloc(LAYOUT).expect("the arena has room")).collect();
    let with_neighbours = heap.statistics().span_bytes / PAGE;
    assert!((101..=105).contains(&with_neighbours), "{with_neighbours}");
    heap.purge().expect("nothing fails");
    heap.check_invariants();
    assert_eq!(heap.statistics().span_bytes / PAGE, 101, "a purge gives up what holds no object");
    let more: Vec<_> = (0..per_span).map(|_| heap.alloc(LAYOUT).expect("the arena has room")).collect();
    assert!(heap.statistics().span_bytes / PAGE > 102, "the last of them is in a new span");
    objects.into_iter().chain(more).for_each(|object| free(&heap, object));
    assert_eq!(heap.statistics().span_bytes, 0, "a class that shrinks keeps none");
}

quickcheck! {
    /// Whatever lives and dies and however few mappings there are: bytes stay, and the count is never below the truth.
    fn rows_come_and_go(kept: Vec<u8>, budgets: Vec<u8>, is_private: bool) -> bool {
        let platform = SimulatedPlatform::new(PAGE);
        let platform = if is_private { platform.private_until_shared() } else { platform };
        let options = Options { arena_bytes: 256 * PAGE, seed: Some(1), ..Options::default() };
        let heap = Heap::with_options(&platform, options).expect("the platform has room");
        let mut objects = sparse_objects(&heap, LAYOUT, 64 * 48, 8);
        let mut kept = kept.into_iter().cycle();
        for budget in budgets.into_iter().take(12) {
            heap.set_mapping_budget(usize::from(budget % 64));
            let step = pass(&heap);
            assert!(!matches!(step.end, StepEnd::Refused(_)), "{step:?}");
            assert_counted(&heap, &platform);
            assert_untouched(&objects);
            objects.retain(|&object| {
                let stays = !kept.next().unwrap_or(7).is_multiple_of(4);
                if !stays {
                    free(&heap, object);
                }
                stays
            });
            objects.extend(sparse_objects(&heap, LAYOUT, 64 * 4, 4));
            assert_counted(&heap, &platform);
        }
        objects.into_iter().for_each(|object| free(&heap, object));
        heap.set_mapping_budget(256);
        heap.purge().expect("nothing fails");
        assert_counted(&heap, &platform);
        heap.statistics().mappings == 0 && platform.mappings() == 0
    }
}
