//! Many objects at once, and whether one more would fit.

use core::alloc::Layout;
use core::ptr::NonNull;
use std::collections::BTreeSet;

use meshheap::{AllocError, Heap, SimulatedPlatform};
use meshheap_tests::scene::{LAYOUT, PAGE, small_heap, whole_pages};

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 16).expect("valid")
}

/// Each object by itself, as many as were asked for.
fn assert_apart(heap: &Heap<&SimulatedPlatform>, objects: &[NonNull<u8>], size: usize) {
    let starts: BTreeSet<_> = objects.iter().map(|object| object.addr().get()).collect();
    assert_eq!(starts.len(), objects.len(), "no object was handed out twice");
    for &object in objects {
        assert!(heap.usable_size(object).is_ok_and(|usable| usable >= size));
    }
}

#[test]
fn a_bulk_is_as_many_objects_as_were_asked_for() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 4096);
    let mut local = heap.local();
    for size in [16, 64, 1000, 5000, 8192, 100_000] {
        for count in [0, 1, 7, 40] {
            // What the handle has at hand before is used as well, and is not all that there is.
            let before = local.alloc(layout(size)).expect("room");
            let mut objects = vec![NonNull::dangling(); count];
            local.alloc_many(layout(size), &mut objects).expect("room");
            objects.push(before);
            assert_apart(&heap, &objects, size);
            // SAFETY: the objects are live and are not used afterwards.
            unsafe { local.dealloc_many(&objects, layout(size)) };
        }
    }
    drop(local);
    heap.purge().expect("nothing fails");
    assert_eq!(heap.statistics().taken_bytes, 0);
    heap.check_invariants();
}

#[test]
fn a_bulk_that_does_not_fit_is_told_how_far_it_came() {
    for size in [64, 1000, 100_000] {
        let platform = SimulatedPlatform::new(PAGE);
        let heap = small_heap(&platform, 256);
        let mut local = heap.local();
        let mut objects = vec![NonNull::dangling(); 256 * PAGE / size + 1];
        let partial = local.alloc_many(layout(size), &mut objects).expect_err("more than the arena holds");
        assert_eq!(partial.error, AllocError::OutOfMemory);
        let made = &objects[..partial.made];
        assert!(partial.made * size > 240 * PAGE * 9 / 10, "{partial:?}");
        assert_apart(&heap, made, size);
        assert!(objects[partial.made..].iter().all(|&object| object == NonNull::dangling()), "the rest is as it was");
        // SAFETY: the objects are live and are not used afterwards.
        unsafe { local.dealloc_many(made, layout(size)) };
        local.alloc(whole_pages(250)).expect("all of it serves another size");
    }
}

#[test]
fn what_would_fit_can_be_allocated_and_the_arena_ends_where_it_says() {
    for size in [16, 64, 1000, 4096, 5000, 20_000, 40_000, 300_000] {
        let platform = SimulatedPlatform::new(PAGE);
        let heap = small_heap(&platform, 256);
        let mut objects = Vec::new();
        while heap.would_fit(layout(size)) {
            let before = heap.statistics();
            assert!(heap.would_fit(layout(size)) && heap.statistics() == before, "asking changes nothing");
            objects.push(heap.alloc(layout(size)).expect("it fits"));
        }
        assert!(objects.len() * size > 256 * PAGE / 3, "{} of {size}", objects.len());
        assert_eq!(heap.alloc(layout(size)), Err(AllocError::OutOfMemory));
        // SAFETY: the object is live and is not used afterwards.
        unsafe { heap.dealloc(objects[objects.len() / 2], layout(size)) };
        assert!(heap.would_fit(layout(size)), "a free makes room");
    }
}

#[test]
fn what_no_arena_of_this_size_can_hold_does_not_fit() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 256);
    assert!(heap.would_fit(whole_pages(256)));
    assert!(!heap.would_fit(whole_pages(257)));
    assert!(!heap.would_fit(Layout::from_size_align(1, 1 << 40).expect("valid")));
    let object = heap.alloc(LAYOUT).expect("room");
    assert!(heap.would_fit(whole_pages(255)) && !heap.would_fit(whole_pages(256)));
    // SAFETY: the object is live and is not used afterwards.
    unsafe { heap.dealloc(object, LAYOUT) };
    // The page is dirty, its neighbours are fresh: they have to be joined first.
    assert!(!heap.would_fit(whole_pages(256)));
    heap.alloc(whole_pages(256)).expect("an allocation joins them");
}
