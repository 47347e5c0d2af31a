//! What a heap tells of the memory that it holds, and that it holds no more than it says.

use core::alloc::Layout;

use meshheap::{Heap, MeshBudget, Operation, Options, SimulatedPlatform, StepEnd};
use meshheap_tests::scene::{LAYOUT, PAGE, free, small_heap, spans, whole_pages};
use meshheap_tests::sparse::{mesh_all, sparse_objects};

/// What dirty pages a heap may keep at the least before it gives some back.
const DIRTY_BYTES: usize = 1024 * PAGE;

#[test]
fn held_bytes_are_objects_pages_used_free_pages_and_metadata() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 100);
    let pages_held = || (heap.statistics().held_bytes - heap.statistics().metadata_bytes) / PAGE;
    assert_eq!(pages_held(), 0);
    assert!(heap.statistics().held_bytes > 0, "tables are memory");
    let large = heap.alloc(whole_pages(10)).expect("the arena has room");
    let small = heap.alloc(LAYOUT).expect("the arena has room");
    assert_eq!(pages_held(), 11);
    assert_eq!(heap.statistics().taken_bytes, 10 * PAGE + LAYOUT.size(), "large objects are taken, too");
    free(&heap, large);
    assert_eq!(
        (pages_held(), heap.statistics().dirty_bytes),
        (11, 10 * PAGE),
        "a free page is held until it is purged"
    );
    assert_eq!(heap.purge(), Ok(10 * PAGE));
    assert_eq!((pages_held(), heap.statistics().dirty_bytes), (1, 0));
    free(&heap, small);
    assert_eq!(heap.purge(), Ok(PAGE));
    let statistics = heap.statistics();
    assert_eq!((pages_held(), statistics.taken_bytes, statistics.span_bytes), (0, 0, 0));
    assert_eq!(statistics.span_bytes_peak, 11 * PAGE);
}

#[test]
fn pages_that_could_not_be_given_back_are_told_as_held_and_are_not_zero() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 64);
    let objects = spans(&heap, &[&[0, 2], &[1]]);
    let pages_held = || (heap.statistics().held_bytes - heap.statistics().metadata_bytes) / PAGE;
    assert_eq!(pages_held(), 2);
    platform.fail_all(Operation::Purge);
    // SAFETY: no other thread runs.
    let step = unsafe { heap.mesh_at_safepoint(MeshBudget::UNLIMITED) };
    assert!(matches!(step.end, StepEnd::Refused(error) if error.operation == Operation::Purge), "{step:?}");
    assert_eq!((heap.statistics().aliased_bytes, pages_held()), (PAGE, 2), "the alias's own page holds memory still");
    platform.heal();
    free(&heap, objects[1][0]);
    let statistics = heap.statistics();
    assert_eq!((statistics.aliased_bytes, statistics.dirty_bytes, pages_held()), (0, PAGE, 2), "it is a used page now");
    heap.check_invariants();
    objects[0].iter().for_each(|&object| free(&heap, object));
    heap.purge().expect("nothing fails any more");
    assert_eq!(pages_held(), 0);
}

#[test]
fn an_alias_that_dies_leaves_clean_pages() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 64);
    let objects = spans(&heap, &[&[0, 2], &[1]]);
    mesh_all(&heap);
    free(&heap, objects[1][0]);
    let statistics = heap.statistics();
    assert_eq!((statistics.aliased_bytes, statistics.dirty_bytes, statistics.mappings), (0, 0, 0));
    assert_eq!(heap.purge(), Ok(0), "its memory went back when it was meshed");
}

#[test]
fn aliases_that_could_not_be_unaliased_go_back_with_the_next_purge_or_pass() {
    for by_pass in [false, true] {
        let platform = SimulatedPlatform::new(PAGE);
        let heap = small_heap(&platform, 64);
        let objects = spans(&heap, &[&[0, 2], &[1], &[3]]);
        mesh_all(&heap);
        platform.fail_all(Operation::Unalias);
        free(&heap, objects[1][0]);
        free(&heap, objects[2][0]);
        heap.check_invariants();
        assert_eq!((heap.statistics().parted_bytes, platform.mappings()), (2 * PAGE, heap.statistics().mappings));
        platform.heal();
        if by_pass {
            mesh_all(&heap);
        } else {
            heap.purge().expect("nothing fails any more");
        }
        heap.check_invariants();
        let statistics = heap.statistics();
        assert_eq!((statistics.parted_bytes, statistics.mappings, platform.mappings()), (0, 0, 0));
    }
}

#[test]
fn free_pages_with_old_content_are_bounded_and_some_are_kept() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 16 << 10);
    let large: Vec<_> = (0..4).map(|_| heap.alloc(whole_pages(2000)).expect("the arena has room")).collect();
    for object in large {
        free(&heap, object);
        assert!(heap.statistics().dirty_bytes <= DIRTY_BYTES, "{:?}", heap.statistics());
    }
    assert!(heap.statistics().dirty_bytes > 0, "some are kept for the next objects");
    heap.purge().expect("nothing fails");
    let small: Vec<_> = (0..8000 * 64).map(|_| heap.alloc(LAYOUT).expect("the arena has room")).collect();
    for object in small {
        free(&heap, object);
        assert!(heap.statistics().dirty_bytes <= DIRTY_BYTES.max(heap.statistics().span_bytes / 8));
    }
    assert!(heap.statistics().dirty_bytes > 0);
}

#[test]
fn objects_that_wait_in_depots_are_bounded() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 4096);
    drop(sparse_objects(&heap, LAYOUT, 100_000, u64::MAX));
    let statistics = heap.statistics();
    assert!(statistics.taken_bytes <= 128 << 10, "{statistics:?}");
}

#[test]
fn empty_spans_that_wait_for_the_next_object_are_bounded_and_go_with_a_purge() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 4096);
    let objects: Vec<_> = (0..500).map(|_| heap.alloc(whole_pages(2)).expect("the arena has room")).collect();
    assert_eq!(heap.statistics().span_bytes, 1000 * PAGE);
    objects.into_iter().for_each(|object| free(&heap, object));
    assert!(heap.statistics().span_bytes <= 256 << 10, "{:?}", heap.statistics());
    heap.purge().expect("nothing fails");
    assert_eq!(heap.statistics().span_bytes, 0);
    heap.check_invariants();
}

#[test]
fn where_memory_is_held_from_the_start_all_of_it_is_told() {
    let platform = SimulatedPlatform::new(PAGE).without_lazy_commit();
    let heap = small_heap(&platform, 64);
    assert_eq!(heap.statistics().held_bytes, platform.reserved_bytes());
    heap.alloc(LAYOUT).expect("the arena has room");
    assert_eq!(heap.statistics().held_bytes, platform.reserved_bytes());
}

#[test]
fn metadata_counts_the_pool_and_what_tables_once_took() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 4096);
    let metadata = || heap.statistics().metadata_bytes;
    let small = heap.alloc(LAYOUT).expect("the arena has room");
    let before = metadata();
    let mut local = heap.local();
    let other = local.alloc(LAYOUT).expect("the arena has room");
    assert!(metadata() > before, "vectors are metadata");
    // SAFETY: the object is live and is not used afterwards.
    unsafe { local.dealloc(other, LAYOUT) };
    drop(local);
    let large = heap.alloc(whole_pages(4000)).expect("the arena has room");
    let most = metadata();
    free(&heap, large);
    free(&heap, small);
    heap.purge().expect("nothing fails");
    heap.alloc(LAYOUT).expect("the arena has room");
    assert_eq!(metadata(), most, "tables that were touched stay");
}

#[test]
fn a_pass_under_way_is_counted_as_metadata_and_given_back_with_the_heap() {
    let platform = SimulatedPlatform::new(PAGE);
    {
        let heap = small_heap(&platform, 4096);
        sparse_objects(&heap, LAYOUT, 20_000, 10);
        let (before, reserved) = (heap.statistics(), platform.reserved_bytes());
        // SAFETY: no other thread runs.
        let step = unsafe { heap.mesh_at_safepoint(MeshBudget::UNLIMITED.with_pages(1)) };
        assert_eq!(step.end, StepEnd::Budget);
        let scratch = platform.reserved_bytes() - reserved;
        assert!(scratch > 0);
        assert_eq!(heap.statistics().metadata_bytes, before.metadata_bytes + scratch);
    }
    assert_eq!(platform.reserved_bytes(), 0, "I9");
}

#[test]
fn metadata_does_not_grow_with_time() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 4096);
    let layouts = [16, 64, 200, 640, 2000].map(|size| Layout::from_size_align(size, 16).expect("valid"));
    // Tables are as long as the arena was ever used: further than by what follows, wherever that lies.
    let smallest =
        (0..1500 * PAGE / 16).map(|_| heap.alloc(layouts[0]).expect("the arena has room")).collect::<Vec<_>>();
    smallest.into_iter().for_each(|object| free(&heap, object));
    let mut lasting: Vec<_> = (0..4).map(|_| heap.local()).collect();
    let mut metadata = Vec::new();
    for _ in 0..100 {
        for layout in layouts {
            // Handles that come and go leave full and empty vectors; those that last take full ones in exchange for empty ones.
            let mut passing: Vec<_> = (0..8).map(|_| heap.local()).collect();
            let mut objects: Vec<_> =
                (0..1600).map(|n| lasting[n % 4].alloc(layout).expect("the arena has room")).collect();
            for round in [1600, 800] {
                for (n, object) in objects.drain(..round).enumerate() {
                    // SAFETY: the object is live and is not used afterwards.
                    unsafe { passing[n % 8].dealloc(object, layout) };
                }
                objects.extend((0..round / 2).map(|n| passing[n % 8].alloc(layout).expect("the arena has room")));
            }
            for object in objects {
                // SAFETY: as above.
                unsafe { lasting[0].dealloc(object, layout) };
            }
        }
        metadata.push(heap.statistics().metadata_bytes);
    }
    // How many vectors are in use at a time is chance, so the pool may still take a step or two. What is lost in each round shows.
    assert!(metadata[99] <= metadata[10] + 2 * PAGE, "{metadata:?}");
    drop(lasting);
    heap.check_invariants();
}

#[test]
fn the_default_mapping_budget_is_a_quarter_of_the_platforms_limit() {
    let platform = SimulatedPlatform::new(PAGE).with_mapping_limit(400);
    let heap = small_heap(&platform, 64);
    assert_eq!(heap.statistics().mapping_budget, 100);
}

#[test]
fn a_heap_takes_the_arena_that_the_platform_has_room_for() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = Heap::new(&platform).expect("64 GiB are too much for the platform, less is not");
    assert!(heap.statistics().arena_bytes >= 64 << 20, "{:?}", heap.statistics());
    let options = Options { arena_bytes: usize::MAX, ..Options::default() };
    let other = SimulatedPlatform::new(PAGE);
    Heap::with_options(&other, options).expect("nor is all of the address space");
}
