//! The same heap as an allocator of allocator-api2 0.4, beside 0.2: feature `allocator-api2-04`.

use core::alloc::Layout;

use allocator_api2_04::alloc::Allocator;
use allocator_api2_04::boxed::Box;
use allocator_api2_04::vec::Vec as VecIn;
use meshheap::{LocalRef, SimulatedPlatform};
use meshheap_tests::scene::{PAGE, small_heap};
use meshheap_tests::sparse::mesh_all;

fn use_collections<A: Allocator + Copy>(allocator: A) {
    let mut rows: VecIn<Box<[u32], A>, A> = VecIn::new_in(allocator);
    for length in 0..500 {
        let mut row = VecIn::new_in(allocator);
        row.extend(0..length);
        rows.push(row.into_boxed_slice());
    }
    rows.retain(|row| row.len() % 3 == 0);
    rows.shrink_to_fit();
    for (row, length) in rows.iter().zip((0..).step_by(3)) {
        assert!(row.iter().copied().eq(0..length));
    }
    assert_eq!(rows.len(), 167);
}

#[test]
fn collections_live_in_a_heap_and_in_a_local_heap() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 4096);
    use_collections(&heap);
    let local = LocalRef::new(heap.local());
    use_collections(&local);
    drop(local);
    mesh_all(&heap);
    heap.check_invariants();
    assert_eq!((heap.objects().count(), heap.statistics().misuses), (0, 0));
}

#[test]
fn a_block_keeps_its_bytes_and_what_it_gains_is_zero_if_asked_for() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 4096);
    let layout = |size| Layout::from_size_align(size, 8).expect("valid");
    // What comes next has old content.
    for size in [12, 100, 5000, 40_000, 400_000] {
        let used = heap.allocate(layout(size)).expect("room");
        // SAFETY: the block holds `size` bytes.
        unsafe { used.cast::<u8>().write_bytes(9, size) };
        // SAFETY: the block is live, has this layout and is not used afterwards.
        unsafe { heap.deallocate(used.cast(), layout(size)) };
    }
    let mut block = heap.allocate_zeroed(layout(10)).expect("room").cast::<u8>();
    let mut size = 10;
    for next in [12, 100, 5000, 40_000, 400_000] {
        // SAFETY: the block holds `size` bytes.
        unsafe { block.write_bytes(7, size) };
        // SAFETY: the block is live and has this layout.
        let grown = unsafe { heap.grow_zeroed(block, layout(size), layout(next)) }.expect("room");
        assert_eq!(grown.len(), next);
        // SAFETY: the block holds as many bytes, all of them written.
        let bytes = unsafe { grown.as_ref() };
        assert!(bytes[..size].iter().all(|&byte| byte == 7) && bytes[size..].iter().all(|&byte| byte == 0));
        (block, size) = (grown.cast(), next);
    }
    // SAFETY: as above.
    let shrunk = unsafe { heap.shrink(block, layout(size), layout(3)) }.expect("room");
    // SAFETY: as above.
    assert_eq!(unsafe { shrunk.as_ref() }, [7; 3]);
    // SAFETY: the block is live, has this layout and is not used afterwards.
    unsafe { heap.deallocate(shrunk.cast(), layout(3)) };
    assert_eq!(heap.objects().count(), 0);
    assert!(heap.allocate(layout(1 << 40)).is_err());
}
