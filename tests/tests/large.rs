//! Large objects: grown and shrunk in place where their neighbours allow, zeroed only where pages are not known to be zero.

use core::ptr::NonNull;

use meshheap::{AllocError, Heap, MisuseKind, Operation, Platform, SimulatedPlatform};
use meshheap_tests::scene::{PAGE, free, small_heap, whole_pages};

fn alloc<P: Platform>(heap: &Heap<P>, pages: usize) -> NonNull<u8> {
    heap.alloc(whole_pages(pages)).expect("the arena has room")
}

fn realloc<P: Platform>(
    heap: &Heap<P>,
    object: NonNull<u8>,
    from: usize,
    to: usize,
) -> Result<NonNull<u8>, AllocError> {
    // SAFETY: the tests pass live objects of `from` pages, and go on with what is returned.
    unsafe { heap.realloc(object, whole_pages(from), to * PAGE) }
}

fn fill(object: NonNull<u8>, pages: usize, content: u8) {
    // SAFETY: the tests pass live objects of so many pages.
    unsafe { object.write_bytes(content, pages * PAGE) };
}

fn holds(object: NonNull<u8>, pages: usize, content: u8) -> bool {
    // SAFETY: the tests pass live objects of so many pages, all of them written or zeroed.
    unsafe { NonNull::slice_from_raw_parts(object, pages * PAGE).as_ref() }.iter().all(|&byte| byte == content)
}

fn at_page(object: NonNull<u8>, page: usize) -> NonNull<u8> {
    // SAFETY: the tests stay in the arena.
    unsafe { object.add(page * PAGE) }
}

#[test]
fn an_object_grows_in_place_into_the_free_pages_behind_it() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 100);
    let (object, behind, last) = (alloc(&heap, 10), alloc(&heap, 20), alloc(&heap, 10));
    fill(object, 10, 1);
    free(&heap, behind);
    assert_eq!(realloc(&heap, object, 10, 25), Ok(object));
    heap.check_invariants();
    assert!(holds(object, 10, 1));
    assert_eq!(heap.usable_size(object), Ok(25 * PAGE));
    // The new pages are the object's, the rest is free still.
    assert_eq!(heap.usable_size(at_page(object, 20)).map_err(|misuse| misuse.kind), Err(MisuseKind::Interior));
    assert!(heap.contains(at_page(object, 24)) && !heap.contains(at_page(object, 25)));
    assert_eq!(realloc(&heap, object, 25, 30), Ok(object), "and into the rest");
    [object, last].into_iter().for_each(|object| free(&heap, object));
    heap.check_invariants();
}

#[test]
fn an_object_does_not_grow_over_its_neighbour() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 100);
    let (object, behind, neighbour) = (alloc(&heap, 10), alloc(&heap, 10), alloc(&heap, 10));
    fill(object, 10, 1);
    fill(neighbour, 10, 2);
    free(&heap, behind);
    let moved = realloc(&heap, object, 10, 25).expect("there is room elsewhere");
    heap.check_invariants();
    assert_ne!(moved, object);
    fill(at_page(moved, 10), 15, 3);
    assert!(holds(moved, 10, 1) && holds(neighbour, 10, 2));
    assert!(!heap.contains(object), "its old pages are free");
}

#[test]
fn an_object_grows_to_the_end_of_the_arena_and_no_further() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 64);
    let first = alloc(&heap, 10);
    let object = alloc(&heap, 30);
    fill(object, 30, 1);
    assert_eq!(realloc(&heap, object, 30, 55), Err(AllocError::OutOfMemory));
    assert_eq!(realloc(&heap, object, 30, 65), Err(AllocError::TooLarge));
    assert_eq!(heap.usable_size(object), Ok(30 * PAGE), "a failed call changes nothing");
    assert_eq!(realloc(&heap, object, 30, 54), Ok(object));
    assert_eq!(heap.statistics().span_bytes, 64 * PAGE);
    assert_eq!(heap.statistics().span_bytes_peak, 64 * PAGE);
    heap.check_invariants();
    [first, object].into_iter().for_each(|object| free(&heap, object));
}

#[test]
fn an_object_shrinks_in_place_and_its_tail_serves_others() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 64);
    let (object, last) = (alloc(&heap, 44), alloc(&heap, 20));
    fill(object, 44, 1);
    assert_eq!(realloc(&heap, object, 44, 10), Ok(object));
    heap.check_invariants();
    assert!(holds(object, 10, 1));
    assert_eq!(heap.usable_size(object), Ok(10 * PAGE));
    assert!(!heap.contains(at_page(object, 10)));
    let statistics = heap.statistics();
    assert_eq!((statistics.span_bytes, statistics.dirty_bytes), (30 * PAGE, 34 * PAGE));
    assert_eq!(alloc(&heap, 34), at_page(object, 10));
    [object, last].into_iter().for_each(|object| free(&heap, object));
}

#[test]
fn an_object_of_zeros_is_zero_on_pages_that_were_used_before() {
    let platform = SimulatedPlatform::new(PAGE).without_purge();
    let heap = small_heap(&platform, 64);
    let used = alloc(&heap, 64);
    fill(used, 64, 0xff);
    free(&heap, used);
    let zeros = heap.alloc_zeroed(whole_pages(64)).expect("the arena is free");
    assert!(holds(zeros, 64, 0));
}

#[test]
fn zeros_come_from_clean_pages_and_other_objects_from_used_ones() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 64);
    let (used, last) = (alloc(&heap, 10), alloc(&heap, 10));
    fill(used, 10, 0xff);
    free(&heap, used);
    let zeros = heap.alloc_zeroed(whole_pages(10)).expect("the arena has room");
    assert!(holds(zeros, 10, 0));
    assert_eq!(heap.statistics().dirty_bytes, 10 * PAGE, "no used page was taken, to be cleared");
    let other = alloc(&heap, 10);
    assert_eq!((other, heap.statistics().dirty_bytes), (used, 0), "no fresh page was touched");
    [zeros, other, last].into_iter().for_each(|object| free(&heap, object));
}

/// A heap of 300 pages of which 200 were written and freed: they are dirty.
fn heap_with_dirty_pages(platform: &SimulatedPlatform) -> Heap<&SimulatedPlatform> {
    let heap = small_heap(platform, 300);
    let used = alloc(&heap, 200);
    fill(used, 200, 7);
    free(&heap, used);
    heap
}

#[test]
fn many_zeros_take_old_pages_whose_memory_goes_back_first() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = heap_with_dirty_pages(&platform);
    let zeros = heap.alloc_zeroed(whole_pages(100)).expect("the arena has room");
    assert_eq!(platform.calls(Operation::Purge), 1, "not written, but given back");
    assert!(holds(zeros, 100, 0));
    assert!(platform.committed_pages() <= 200, "no fresh memory beside the old");
    heap.check_invariants();
}

#[test]
fn many_zeros_are_written_where_memory_cannot_go_back() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = heap_with_dirty_pages(&platform);
    platform.fail_all(Operation::Purge);
    let zeros = heap.alloc_zeroed(whole_pages(100)).expect("the arena has room");
    assert!(holds(zeros, 100, 0));
    heap.check_invariants();
}

#[test]
fn many_zeros_that_cannot_be_committed_are_an_error_and_their_pages_free() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = heap_with_dirty_pages(&platform);
    platform.fail_all(Operation::Commit);
    assert!(heap.alloc_zeroed(whole_pages(100)).is_err());
    heap.check_invariants();
    platform.heal();
    let zeros = heap.alloc_zeroed(whole_pages(100)).expect("the arena has room");
    assert!(holds(zeros, 100, 0));
}

/// Objects of so many pages are moved without a copy.
const LONG: usize = 512;

#[test]
fn a_long_object_that_cannot_grow_in_place_is_moved_without_a_copy() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 4 * LONG);
    let (object, _neighbour) = (alloc(&heap, LONG), alloc(&heap, 1));
    fill(object, LONG, 3);
    let moved = realloc(&heap, object, LONG, LONG + 10).expect("the arena has room");
    assert_ne!(moved, object);
    assert_eq!(platform.calls(Operation::Relocate), 1);
    assert!(holds(moved, LONG, 3));
    heap.check_invariants();
    // The old pages are free, read as zero and hold no memory.
    assert_eq!(heap.statistics().dirty_bytes, 0);
    assert!(holds(heap.alloc_zeroed(whole_pages(LONG)).expect("the old pages are free"), LONG, 0));
    heap.check_invariants();
}

#[test]
fn a_long_object_is_copied_where_the_platform_does_not_move_it() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 4 * LONG);
    let (object, _neighbour) = (alloc(&heap, LONG), alloc(&heap, 1));
    fill(object, LONG, 3);
    platform.fail_all(Operation::Relocate);
    let moved = realloc(&heap, object, LONG, LONG + 10).expect("the arena has room");
    assert!(holds(moved, LONG, 3));
    assert_eq!(heap.statistics().taken_bytes, (LONG + 10 + 1) * PAGE, "nothing leaks");
    heap.check_invariants();
}

#[test]
fn a_long_object_for_which_there_is_no_room_stays() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, LONG + 20);
    let (object, _neighbour) = (alloc(&heap, LONG), alloc(&heap, 1));
    fill(object, LONG, 3);
    assert_eq!(realloc(&heap, object, LONG, LONG + 10), Err(AllocError::OutOfMemory));
    assert!(holds(object, LONG, 3));
    heap.check_invariants();
}

#[test]
fn a_pointer_into_the_first_page_of_an_object_is_not_the_object() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 64);
    let object = alloc(&heap, 10);
    // SAFETY: the pointer stays within the object.
    let inner = unsafe { object.add(16) };
    assert_eq!(heap.usable_size(inner).map_err(|misuse| misuse.kind), Err(MisuseKind::Interior));
    // SAFETY: the pointer is not the start of an object.
    assert_eq!(unsafe { heap.free(inner) }.map_err(|misuse| misuse.kind), Err(MisuseKind::Interior));
    assert_eq!(heap.usable_size(object), Ok(10 * PAGE));
}

#[test]
fn pages_are_committed_before_they_are_used() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 200);
    let all_committed = || {
        let statistics = heap.statistics();
        let used = statistics.span_bytes - statistics.aliased_bytes + statistics.dirty_bytes;
        assert_eq!(platform.committed_pages() * PAGE, used);
    };
    let (object, behind) = (alloc(&heap, 10), alloc(&heap, 20));
    let small = heap.alloc(whole_pages(1)).expect("the arena has room");
    all_committed();
    free(&heap, behind);
    heap.purge().expect("nothing fails");
    all_committed();
    // The same pages again, after a purge took the commitment back.
    let again = heap.alloc_zeroed(whole_pages(15)).expect("the arena has room");
    all_committed();
    [object, small, again].into_iter().for_each(|object| free(&heap, object));
}

#[test]
fn a_long_free_run_that_loses_its_first_pages_stays_on_its_list() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 400);
    let [first, between, second, last] = [100, 10, 100, 10].map(|pages| alloc(&heap, pages));
    free(&heap, first);
    free(&heap, second);
    let taken = alloc(&heap, 10);
    assert!(taken == first || taken == second, "free pages before fresh ones");
    heap.check_invariants();
    // Its neighbours on both sides leave the list that they are on, to be one run with it.
    free(&heap, between);
    heap.check_invariants();
    [taken, last].into_iter().for_each(|object| free(&heap, object));
    heap.check_invariants();
    assert_eq!(heap.purge(), Ok(220 * PAGE));
}
