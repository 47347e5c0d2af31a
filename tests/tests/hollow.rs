//! Long spans: pages of theirs that hold no object give their memory back while the span stays.

use core::alloc::Layout;
use core::ptr::NonNull;

use meshheap::{Heap, Operation, SimulatedPlatform};
use meshheap_tests::scene::{PAGE, free, small_heap};
use meshheap_tests::sparse::{assert_untouched, sparse_objects};

/// Spans of eight pages with four slots a page.
const KILOBYTE: Layout = Layout::new::<[u64; 128]>();

/// A heap with `spans` long spans of which every eighth page holds one object, which holds its own address.
fn sparse_heap(platform: &SimulatedPlatform, spans: usize) -> (Heap<&SimulatedPlatform>, Vec<NonNull<u8>>) {
    let heap = small_heap(platform, 16 * spans);
    let objects: Vec<_> = (0..spans * 32).map(|_| heap.alloc(KILOBYTE).expect("the arena has room")).collect();
    assert_eq!(heap.statistics().span_bytes, spans * 8 * PAGE, "each span is eight pages");
    let mut kept = Vec::new();
    for (index, &object) in objects.iter().enumerate() {
        if index % 32 == 5 {
            // SAFETY: the object is ours and holds a word.
            unsafe { object.cast::<usize>().write(object.addr().get()) };
            kept.push(object);
        } else {
            free(&heap, object);
        }
    }
    (heap, kept)
}

#[test]
fn a_purge_gives_back_the_empty_pages_of_spans() {
    let platform = SimulatedPlatform::new(PAGE);
    let (heap, kept) = sparse_heap(&platform, 10);
    let before = heap.statistics();
    assert_eq!(heap.purge(), Ok(10 * 7 * PAGE));
    let after = heap.statistics();
    assert_eq!(before.held_bytes - after.held_bytes, 10 * 7 * PAGE);
    assert_eq!(platform.committed_pages(), 10, "a page for each object");
    heap.check_invariants();
    assert_untouched(&kept);
    assert_eq!(heap.purge(), Ok(0), "once is enough");
}

#[test]
fn the_slots_on_empty_pages_serve_again() {
    let platform = SimulatedPlatform::new(PAGE);
    let (heap, kept) = sparse_heap(&platform, 4);
    heap.purge().expect("nothing fails");
    let again: Vec<_> = (0..4 * 31).map(|_| heap.alloc_zeroed(KILOBYTE).expect("the spans have room")).collect();
    assert_eq!(heap.statistics().span_bytes, 4 * 8 * PAGE, "no further span");
    heap.check_invariants();
    for &object in &again {
        // SAFETY: the object is ours and holds so many bytes.
        let bytes = unsafe { NonNull::slice_from_raw_parts(object, KILOBYTE.size()).as_ref() };
        assert!(bytes.iter().all(|&byte| byte == 0));
    }
    assert_untouched(&kept);
    again.into_iter().chain(kept).for_each(|object| free(&heap, object));
    heap.check_invariants();
    assert_eq!(heap.statistics().taken_bytes, 0);
}

#[test]
fn a_page_under_an_object_that_reaches_into_it_stays() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 64);
    let layout = Layout::from_size_align(3000, 8).expect("valid");
    let objects: Vec<_> = (0..12).map(|_| heap.alloc(layout).expect("the arena has room")).collect();
    // Slots of 3,072 bytes: the second begins on the first page and ends on the second.
    for (index, &object) in objects.iter().enumerate() {
        // SAFETY: the object is ours and holds so many bytes.
        unsafe { object.write_bytes(7, 3000) };
        if index != 1 {
            free(&heap, object);
        }
    }
    assert!(heap.purge().is_ok_and(|bytes| bytes > 0));
    // SAFETY: the object is live.
    let bytes = unsafe { NonNull::slice_from_raw_parts(objects[1], 3000).as_ref() };
    assert!(bytes.iter().all(|&byte| byte == 7));
    heap.check_invariants();
}

#[test]
fn a_refused_purge_leaves_the_span_as_it_was() {
    for n in 1..=3 {
        let platform = SimulatedPlatform::new(PAGE);
        let (heap, kept) = sparse_heap(&platform, 4);
        platform.fail_nth(Operation::Purge, n);
        assert_eq!(heap.purge().map_err(|error| error.operation), Err(Operation::Purge));
        heap.check_invariants();
        assert_untouched(&kept);
        platform.heal();
        heap.purge().expect("nothing fails any more");
        assert_eq!(platform.committed_pages(), 4);
        heap.check_invariants();
    }
}

#[test]
fn meshing_beyond_the_mapping_budget_still_gives_empty_pages_back() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 4096);
    let kept = sparse_objects(&heap, KILOBYTE, 8000, 10);
    heap.set_mapping_budget(0);
    let before = heap.statistics();
    // SAFETY: this thread writes to no object meanwhile.
    let step = unsafe { heap.mesh_at_safepoint(meshheap::MeshBudget::UNLIMITED) };
    assert_eq!(step.end, meshheap::StepEnd::MappingsUsedUp);
    let after = heap.statistics();
    assert!(after.held_bytes * 2 < before.held_bytes, "most pages hold no object: {before:?} {after:?}");
    assert_untouched(&kept);
    heap.check_invariants();
}
