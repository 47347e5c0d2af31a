//! Where objects are placed: by the seed, in the order asked for, in the fullest spans first.

use core::ptr::NonNull;

use meshheap::{Heap, Options, PageIndex, Platform, SimulatedPlatform, SlotOrder};
use meshheap_tests::scene::{LAYOUT, PAGE, free, small_heap, spans};

/// Runs `test` on a heap with this seed and order.
fn with_heap<T>(seed: u64, slot_order: SlotOrder, test: impl FnOnce(&Heap<&SimulatedPlatform>) -> T) -> T {
    let platform = SimulatedPlatform::new(PAGE);
    let options = Options { arena_bytes: 256 * PAGE, seed: Some(seed), slot_order, ..Options::default() };
    test(&Heap::with_options(&platform, options).expect("the platform has room"))
}

/// Bytes from the start of the arena.
fn offset<P: Platform>(heap: &Heap<P>, object: NonNull<u8>) -> usize {
    object.addr().get() - heap.page_address(PageIndex::new(0)).addr().get()
}

/// Where the objects of a handle's first whole vector lie, in the order in which they are handed out: the first two refills take 8
/// slots and 16. The handle is the heap's number `handle`.
fn placement(seed: u64, slot_order: SlotOrder, handle: usize) -> Vec<usize> {
    with_heap(seed, slot_order, |heap| {
        let mut locals: Vec<_> = (0..=handle).map(|_| heap.local()).collect();
        let mut next = || offset(heap, locals[handle].alloc(LAYOUT).expect("the arena has room"));
        (0..8 + 16).for_each(|_| _ = next());
        (0..32).map(|_| next()).collect()
    })
}

fn descents(placement: &[usize]) -> usize {
    placement.windows(2).filter(|pair| pair[0] > pair[1]).count()
}

#[test]
fn the_same_seed_gives_the_same_placement_and_another_seed_another() {
    for order in [SlotOrder::RandomRotation, SlotOrder::FullShuffle] {
        assert_eq!(placement(7, order, 0), placement(7, order, 0));
        assert!((0..8).any(|seed| placement(seed, order, 0) != placement(7, order, 0)));
    }
}

#[test]
fn handles_of_one_heap_do_not_place_alike() {
    let order = SlotOrder::RandomRotation;
    assert!((0..8).any(|seed| placement(seed, order, 0) != placement(seed, order, 1)));
}

#[test]
fn slots_ascend_from_a_random_start_unless_a_full_shuffle_is_asked_for() {
    let rotated: Vec<_> = (0..8).map(|seed| placement(seed, SlotOrder::RandomRotation, 0)).collect();
    assert!(rotated.iter().all(|placement| descents(placement) <= 1), "{rotated:?}");
    assert!(rotated.iter().any(|placement| placement[0] != rotated[0][0]), "starts differ");
    let shuffled = placement(1, SlotOrder::FullShuffle, 0);
    assert!(descents(&shuffled) > 5, "{shuffled:?}");
}

#[test]
fn new_objects_fill_the_fullest_span() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 64);
    let most: Vec<_> = (0..60).collect();
    let objects = spans(&heap, &[&[0], &most, &[1]]);
    let page = |object: NonNull<u8>| offset(&heap, object) / PAGE;
    let fullest = page(objects[1][0]);
    let by_heap = heap.alloc(LAYOUT).expect("the arena has room");
    assert_eq!(page(by_heap), fullest);
    free(&heap, by_heap);
    let mut local = heap.local();
    let refilled: Vec<_> = (0..32).map(|_| page(local.alloc(LAYOUT).expect("the arena has room"))).collect();
    assert_eq!(refilled.iter().filter(|&&page| page == fullest).count(), 4, "a refill takes all of it: {refilled:?}");
}
