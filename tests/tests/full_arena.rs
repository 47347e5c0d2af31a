//! Before an allocation fails, whatever the heap keeps for speed is made free memory; and a failed one costs nothing.

use core::alloc::Layout;
use core::ptr::NonNull;

use meshheap::{AllocError, Heap, Operation, SimulatedPlatform};
use meshheap_tests::scene::{LAYOUT, PAGE, free, small_heap, spans, whole_pages};

/// Fills the arena with small objects through a local heap, and frees them through it: they wait in the depot.
fn fill_the_depot(heap: &Heap<&SimulatedPlatform>) {
    let mut local = heap.local();
    let mut objects = Vec::new();
    while let Ok(object) = local.alloc(LAYOUT) {
        objects.push(object);
    }
    assert!(objects.len() * LAYOUT.size() >= heap.statistics().arena_bytes * 9 / 10);
    for object in objects {
        // SAFETY: the object is live and is not used afterwards.
        unsafe { local.dealloc(object, LAYOUT) };
    }
}

type Request = fn(&Heap<&SimulatedPlatform>) -> Result<NonNull<u8>, AllocError>;

#[test]
fn slots_that_wait_in_a_depot_become_pages_for_others() {
    let requests: [Request; 3] = [
        |heap| heap.alloc(whole_pages(32)),
        |heap| heap.alloc(whole_pages(1)),
        |heap| heap.local().alloc(Layout::new::<[u64; 32]>()),
    ];
    for request in requests {
        let platform = SimulatedPlatform::new(PAGE);
        let heap = small_heap(&platform, 32);
        fill_the_depot(&heap);
        assert_eq!(heap.statistics().span_bytes, 32 * PAGE, "the depot holds on to all pages");
        request(&heap).expect("free slots are free memory");
        heap.check_invariants();
    }
}

#[test]
fn a_large_object_gets_clean_and_used_pages_that_lie_side_by_side() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 64);
    let [first, second] = [(); 2].map(|()| heap.alloc(whole_pages(32)).expect("the arena has room"));
    free(&heap, first);
    heap.purge().expect("nothing fails");
    free(&heap, second);
    heap.alloc(whole_pages(64)).expect("all pages are free");
}

#[test]
fn an_alias_that_could_not_be_given_back_is_tried_again() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 64);
    let objects = spans(&heap, &[&[0], &[1]]).concat();
    meshheap_tests::sparse::mesh_all(&heap);
    platform.fail_all(Operation::Unalias);
    for object in objects {
        free(&heap, object);
    }
    assert_eq!(heap.alloc(whole_pages(64)), Err(AllocError::OutOfMemory));
    platform.heal();
    heap.alloc(whole_pages(64)).expect("all pages are free");
    heap.check_invariants();
}

#[test]
fn the_one_run_that_is_long_enough_is_found_among_many() {
    const SHORT: usize = 70;
    const LONG: usize = 120;
    const GAP: usize = 9;
    let platform = SimulatedPlatform::new(PAGE).without_purge();
    let heap = small_heap(&platform, 40 * (SHORT + GAP) + LONG);
    let alloc = |pages| heap.alloc(whole_pages(pages)).expect("the arena has room");
    let long = alloc(LONG);
    let holes: Vec<_> = (0..40).map(|_| (alloc(GAP), alloc(SHORT)).1).collect();
    free(&heap, long);
    for hole in holes {
        free(&heap, hole);
    }
    assert_eq!(heap.alloc(whole_pages(LONG)), Ok(long));
    assert_eq!(heap.alloc(whole_pages(LONG)), Err(AllocError::OutOfMemory));
}

#[test]
fn a_failed_allocation_keeps_no_memory() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 64);
    let mut local = heap.local();
    heap.alloc(whole_pages(64)).expect("the arena has room");
    let held = |local: &meshheap::LocalHeap<_>| (local.held_bytes(), heap.statistics().metadata_bytes);
    assert_eq!(local.alloc(LAYOUT), Err(AllocError::OutOfMemory));
    let before = held(&local);
    for _ in 0..1000 {
        assert_eq!(local.alloc(LAYOUT), Err(AllocError::OutOfMemory));
    }
    assert_eq!(held(&local), before);
    heap.check_invariants();
}

#[test]
fn without_metadata_for_vectors_the_heap_goes_on() {
    let layout = Layout::new::<[u64; 2]>();
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 2048);
    let mut locals: Vec<_> = (0..2000).map(|_| Box::new(heap.local())).collect();
    let objects: Vec<_> = locals.iter_mut().map(|local| local.alloc(layout).expect("the arena has room")).collect();
    let without = locals.iter().filter(|local| local.held_bytes() == heap.local().held_bytes()).count();
    assert!(without > 0, "some found no storage for a vector");
    heap.check_invariants();
    for (local, object) in locals.iter_mut().zip(objects) {
        // SAFETY: the object is live and is not used afterwards.
        unsafe { local.dealloc(object, layout) };
    }
    drop(locals);
    heap.purge().expect("nothing fails");
    assert_eq!(heap.statistics().taken_bytes, 0);
    heap.check_invariants();
}
