//! Collections of others in a heap, through `allocator_api2::alloc::Allocator`.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec as VecIn;
use hashbrown::{HashMap, HashSet};
use meshheap::{Heap, LocalRef, Operation, Options, SimulatedPlatform};
use meshheap_tests::scene::{PAGE, small_heap};
use meshheap_tests::sparse::mesh_all;
use quickcheck::quickcheck;

type OnSimulated<'p> = Heap<&'p SimulatedPlatform>;

fn heap_of(platform: &SimulatedPlatform) -> OnSimulated<'_> {
    let options = Options { arena_bytes: 16 << 20, seed: Some(7), ..Options::default() };
    Heap::with_options(platform, options).expect("the platform has room")
}

/// A value with an alignment of its own.
#[repr(align(256))]
#[derive(Clone, PartialEq, Debug)]
struct Aligned(u32);

/// Uses collections in `allocator` as a program does; all of them are gone at the end.
fn use_collections<A: Allocator + Copy>(allocator: A, at_rest: impl Fn()) {
    let mut map: HashMap<u64, Box<[u8], A>, _, A> = HashMap::new_in(allocator);
    let mut expected = std::collections::HashMap::new();
    for round in 0..20_000_u64 {
        let key = round * 2_654_435_761 % 4001;
        let length = usize::try_from(key % 200).expect("small");
        let mut bytes = VecIn::with_capacity_in(length, allocator);
        bytes.resize(length, key as u8);
        map.insert(key, bytes.into_boxed_slice());
        expected.insert(key, length);
        if round % 3 == 0 {
            let gone = round * 7919 % 4001;
            assert_eq!(map.remove(&gone).is_some(), expected.remove(&gone).is_some());
        }
        if round % 5000 == 4999 {
            at_rest();
        }
    }
    assert_eq!(map.len(), expected.len());
    for (key, length) in expected {
        let bytes = &map[&key];
        assert!(bytes.len() == length && bytes.iter().all(|&byte| byte == key as u8));
    }
    map.shrink_to_fit();
    let mut vector = VecIn::new_in(allocator);
    // Through every class of slots and on to large objects.
    for number in 0..100_000_u32 {
        vector.push(number);
    }
    vector.truncate(700);
    vector.shrink_to_fit();
    assert!(vector.iter().copied().eq(0..700));
    let mut aligned = VecIn::new_in(allocator);
    aligned.extend((0..100).map(Aligned));
    assert!(aligned.iter().zip(0..).all(|(value, number)| value.0 == number));
    assert!(aligned.as_ptr().addr().is_multiple_of(256));
    let set: HashSet<(), _, A> = HashSet::new_in(allocator);
    assert!(set.is_empty());
    let mut units = VecIn::new_in(allocator);
    units.resize(1000, ());
    assert_eq!((units.len(), *Box::new_in((), allocator)), (1000, ()));
    at_rest();
}

#[test]
fn collections_live_in_a_heap() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = heap_of(&platform);
    use_collections(&heap, || {
        mesh_all(&heap);
        heap.check_invariants();
    });
    assert_eq!((heap.objects().count(), heap.statistics().misuses), (0, 0));
}

#[test]
fn collections_live_in_a_local_heap() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = heap_of(&platform);
    let local = LocalRef::new(heap.local());
    use_collections(&local, || {
        local.flush();
        mesh_all(&heap);
        heap.check_invariants();
    });
    drop(local.into_inner());
    heap.purge().expect("nothing fails");
    assert_eq!((heap.objects().count(), heap.statistics().misuses), (0, 0));
}

#[test]
fn a_collection_may_own_its_heap_and_be_sent_away() {
    let platform = SimulatedPlatform::new(PAGE);
    let mut numbers = VecIn::new_in(heap_of(&platform));
    numbers.extend(0..5000_u32);
    std::thread::scope(|scope| {
        scope.spawn(move || assert!(numbers.into_iter().eq(0..5000)));
    });
    assert_eq!(platform.reserved_bytes(), 0, "I9: the heap went with its collection");
}

#[test]
fn threads_share_a_heap_of_collections() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = heap_of(&platform);
    let boxes: std::vec::Vec<_> = std::thread::scope(|scope| {
        let threads = [0, 1000].map(|from| {
            let heap = &heap;
            scope.spawn(move || {
                let numbers = (from..from + 1000).map(|number| Box::new_in(number, heap));
                numbers.collect::<std::vec::Vec<_>>()
            })
        });
        threads.into_iter().flat_map(|thread| thread.join().expect("it does not panic")).collect()
    });
    assert!(boxes.iter().map(|number| **number).eq(0..2000));
    drop(boxes);
    assert_eq!(heap.objects().count(), 0);
}

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).expect("valid")
}

/// Whether every byte of `block` from `from` to `to` is `byte`.
fn holds(block: NonNull<u8>, from: usize, to: usize, byte: u8) -> bool {
    // SAFETY: callers pass ranges of blocks that they have written or that are zero.
    let bytes = unsafe { core::slice::from_raw_parts(block.as_ptr(), to) };
    bytes[from..].iter().all(|&found| found == byte)
}

fn fill(block: NonNull<u8>, from: usize, to: usize) {
    // SAFETY: callers pass ranges of their blocks.
    let start = unsafe { block.add(from) };
    // SAFETY: as above.
    unsafe { start.write_bytes(0xee, to - from) };
}

#[test]
fn blocks_grow_and_shrink_where_they_are_if_they_can() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = &heap_of(&platform);
    let start = |block: Result<NonNull<[u8]>, AllocError>| block.expect("the arena has room").cast::<u8>();
    let block = start(heap.allocate(layout(100, 8)));
    fill(block, 0, 112);
    // SAFETY: the block is live and of this layout, and so on for each step.
    let grown = start(unsafe { heap.grow_zeroed(block, layout(100, 8), layout(112, 8)) });
    assert!(grown == block && holds(block, 0, 100, 0xee) && holds(block, 100, 112, 0), "within its slot");
    // SAFETY: as above.
    let shrunk = start(unsafe { heap.shrink(grown, layout(112, 8), layout(97, 4)) });
    assert_eq!(shrunk, block, "the same slot serves");
    // SAFETY: as above.
    let large = start(unsafe { heap.grow_zeroed(shrunk, layout(97, 4), layout(20 * PAGE, 16)) });
    assert!(large != block && holds(large, 0, 97, 0xee) && holds(large, 97, 20 * PAGE, 0));
    fill(large, 0, 20 * PAGE);
    // SAFETY: as above.
    let larger = start(unsafe { heap.grow_zeroed(large, layout(20 * PAGE, 16), layout(30 * PAGE, 16)) });
    assert!(larger == large && holds(large, 20 * PAGE, 30 * PAGE, 0) && holds(large, 0, 20 * PAGE, 0xee));
    // SAFETY: as above.
    let smaller = start(unsafe { heap.shrink(larger, layout(30 * PAGE, 16), layout(10 * PAGE, 16)) });
    assert!(smaller == large && holds(large, 0, 10 * PAGE, 0xee));
    assert_eq!(heap.object_at(large).expect("it is an object").size, 10 * PAGE);
    // SAFETY: as above.
    unsafe { heap.deallocate(smaller, layout(10 * PAGE, 16)) };
    heap.check_invariants();
    assert_eq!(heap.objects().count(), 0);
}

#[test]
fn a_block_that_grows_in_alignment_moves_if_it_must() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = &heap_of(&platform);
    for page in 0..8 {
        let padding = heap.allocate(layout((9 + page) * PAGE, 1)).expect("the arena has room");
        let block = heap.allocate(layout(10 * PAGE, 1)).expect("the arena has room");
        fill(block.cast(), 0, 10 * PAGE);
        let (old, new) = (layout(10 * PAGE, 1), layout(10 * PAGE + page, 8 * PAGE));
        // SAFETY: the block is live and of this layout.
        let grown = unsafe { heap.grow(block.cast(), old, new) }.expect("the arena has room").cast::<u8>();
        assert!(grown.addr().get().is_multiple_of(8 * PAGE) && holds(grown, 0, 10 * PAGE, 0xee));
        // SAFETY: as above.
        unsafe { heap.deallocate(grown, new) };
        // SAFETY: as above.
        unsafe { heap.deallocate(padding.cast(), layout((9 + page) * PAGE, 1)) };
    }
    assert_eq!(heap.objects().count(), 0);
}

#[test]
fn blocks_without_bytes_take_no_memory_and_grow_from_nothing() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = &heap_of(&platform);
    for align in [1, 16, 4096, 1 << 20] {
        let empty = heap.allocate_zeroed(layout(0, align)).expect("nothing is asked for");
        assert!(empty.is_empty() && empty.cast::<u8>().addr().get().is_multiple_of(align));
        assert_eq!(heap.objects().count(), 0);
        // SAFETY: the block is of this layout, and so on.
        let grown = unsafe { heap.grow_zeroed(empty.cast(), layout(0, align), layout(40, align)) };
        let grown = grown.expect("the arena has room");
        assert!(grown.len() == 40 && holds(grown.cast(), 0, 40, 0) && heap.objects().count() == 1);
        // SAFETY: as above.
        let empty = unsafe { heap.shrink(grown.cast(), layout(40, align), layout(0, align)) }.expect("nothing is left");
        assert_eq!((empty.len(), heap.objects().count()), (0, 0));
        // SAFETY: as above.
        unsafe { heap.deallocate(empty.cast(), layout(0, align)) };
    }
}

#[test]
fn out_of_memory_is_an_error_that_leaves_the_block_alone() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = &small_heap(&platform, 32);
    let block = heap.allocate(layout(64, 8)).expect("the arena has room").cast::<u8>();
    fill(block, 0, 64);
    for new in [layout(40 * PAGE, 8), layout(64, 64 * PAGE), layout(usize::MAX / 4, 8)] {
        assert!(heap.allocate(new).is_err());
        // SAFETY: the block is live and of this layout.
        assert!(unsafe { heap.grow(block, layout(64, 8), new) }.is_err());
        assert!(holds(block, 0, 64, 0xee));
    }
    let mut numbers = VecIn::<u64, _>::new_in(heap);
    assert!(numbers.try_reserve(20 * PAGE).is_err());
    platform.fail_all(Operation::Commit);
    assert!(numbers.try_reserve(1000).is_err());
    platform.heal();
    numbers.try_reserve(1000).expect("there is room again");
    heap.check_invariants();
}

quickcheck! {
    fn a_block_keeps_its_bytes_through_every_resize(steps: Vec<(u32, u8, bool)>) -> bool {
        let platform = SimulatedPlatform::new(PAGE);
        let heap = &heap_of(&platform);
        let mut old = layout(0, 1);
        let mut block = heap.allocate(old).expect("nothing is asked for").cast::<u8>();
        for (size, align_bits, zeroed) in steps {
            let new = layout(size as usize % 70_000, 1 << (align_bits % 14));
            // SAFETY: the block is live and of the layout `old`, and so on.
            let grow = || unsafe { heap.grow(block, old, new) };
            // SAFETY: as above.
            let grow_zeroed = || unsafe { heap.grow_zeroed(block, old, new) };
            // SAFETY: as above.
            let shrink = || unsafe { heap.shrink(block, old, new) };
            let resized = match (new.size() >= old.size(), zeroed) {
                (true, true) => grow_zeroed(),
                (true, false) => grow(),
                (false, _) => shrink(),
            };
            block = resized.expect("the arena has room").cast();
            let kept = old.size().min(new.size());
            let zeroes = !zeroed || holds(block, kept, new.size(), 0);
            if !holds(block, 0, kept, 0xee) || !zeroes || !block.addr().get().is_multiple_of(new.align()) {
                return false;
            }
            fill(block, 0, new.size());
            old = new;
            heap.check_invariants();
        }
        // SAFETY: as above.
        unsafe { heap.deallocate(block, old) };
        heap.objects().count() == 0
    }
}
