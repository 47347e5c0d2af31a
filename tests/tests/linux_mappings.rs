//! What the system itself says of mappings and memory. One test in a process of its own, as other threads map as well.

use core::alloc::Layout;

use meshheap::{Heap, Options};
use meshheap_linux::LinuxPlatform;
use meshheap_linux::memory::mapping_count;
use meshheap_tests::sparse::{assert_untouched, mesh_all, sparse_objects};

fn heap(arena_bytes: usize, seed: u64) -> Heap<LinuxPlatform> {
    let options = Options { arena_bytes, seed: Some(seed), ..Options::default() };
    Heap::with_options(LinuxPlatform::new(), options).expect("Linux has room")
}

#[test]
fn the_system_agrees_with_the_heaps_figures() {
    memory_comes_back_and_mappings_are_counted_exactly();
    several_heaps_live_side_by_side_and_drop_as_a_whole();
}

fn memory_comes_back_and_mappings_are_counted_exactly() {
    let layout = Layout::new::<[u64; 8]>();
    let heap = heap(1 << 30, 7);
    let mappings_before = mapping_count().expect("Linux tells");
    let kept = sparse_objects(&heap, layout, 200_000, 10);
    let held_before = heap.statistics().held_bytes;
    mesh_all(&heap);
    let statistics = heap.statistics();
    assert!(statistics.held_bytes * 4 < held_before, "{held_before} -> {}", statistics.held_bytes);
    assert_untouched(&kept);
    let mappings_added = mapping_count().expect("Linux tells") - mappings_before;
    // The program's own allocator may map a little meanwhile.
    assert!(mappings_added.abs_diff(statistics.mappings) < 5, "{mappings_added} against {}", statistics.mappings);
    let mut local = heap.local();
    for object in kept {
        // SAFETY: the object is live and is not used afterwards.
        unsafe { local.dealloc(object, layout) };
    }
    drop(local);
    heap.purge().expect("Linux gives pages back");
    heap.check_invariants();
    let statistics = heap.statistics();
    assert_eq!((statistics.mappings, statistics.aliased_bytes, statistics.taken_bytes), (0, 0, 0));
}

fn several_heaps_live_side_by_side_and_drop_as_a_whole() {
    let layout = Layout::new::<[u64; 8]>();
    let mappings_before = mapping_count().expect("Linux tells");
    let heaps: Vec<_> = (0..8).map(|seed| heap(64 << 20, seed)).collect();
    for heap in &heaps {
        let kept = sparse_objects(heap, layout, 10_000, 10);
        mesh_all(heap);
        assert_untouched(&kept);
        for other in heaps.iter().filter(|other| !core::ptr::eq(*other, heap)) {
            assert!(!other.contains(kept[0]));
        }
    }
    drop(heaps);
    let mappings_after = mapping_count().expect("Linux tells");
    assert!(mappings_after < mappings_before + 5, "I9: {mappings_before} -> {mappings_after}");
}
