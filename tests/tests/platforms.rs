//! What platforms differ in: commit, purge, page sizes, a clock, few mappings.

use core::alloc::Layout;

use meshheap::{AllocError, Heap, MeshBudget, Operation, Options, SimulatedPlatform, StepEnd};
use meshheap_linux::PrivatePlatform;
use meshheap_tests::sparse::{assert_untouched, sparse_objects};

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 16).expect("valid")
}

fn options(arena_bytes: usize) -> Options {
    Options { arena_bytes, seed: Some(5), ..Options::default() }
}

#[test]
fn an_object_that_grows_in_place_commits_its_new_pages() {
    let platform = SimulatedPlatform::new(4096);
    let heap = Heap::with_options(&platform, options(1 << 20)).expect("the platform has room");
    let object = heap.alloc(layout(10 * 4096)).expect("room");
    // SAFETY: the object is live and has this layout.
    let grown = unsafe { heap.realloc(object, layout(10 * 4096), 20 * 4096) }.expect("room");
    assert_eq!((grown, platform.committed_pages()), (object, 20));
    platform.fail_all(Operation::Commit);
    // SAFETY: as above, with the layout that it has now.
    assert!(unsafe { heap.realloc(grown, layout(20 * 4096), 30 * 4096) }.is_err());
    assert_eq!(heap.usable_size(grown), Ok(20 * 4096), "the object is as it was");
    heap.check_invariants();
}

#[test]
fn without_purge_used_and_fresh_pages_serve_one_request_together() {
    let platform = SimulatedPlatform::new(4096).without_purge();
    let heap = Heap::with_options(&platform, options(1 << 20)).expect("the platform has room");
    let first = heap.alloc(layout(600_000)).expect("room");
    // SAFETY: the object is live and is not used afterwards.
    unsafe { heap.dealloc(first, layout(600_000)) };
    for _ in 0..3 {
        let second = heap.alloc_zeroed(layout(1_000_000)).expect("the whole arena is free");
        // SAFETY: the object is live and holds its layout.
        let bytes = unsafe { core::slice::from_raw_parts_mut(second.as_ptr(), 1_000_000) };
        assert!(bytes.iter().all(|&byte| byte == 0));
        bytes.fill(1);
        // SAFETY: the object is live and is not used afterwards.
        unsafe { heap.dealloc(second, layout(1_000_000)) };
        heap.check_invariants();
    }
}

#[test]
fn a_step_that_may_add_no_mapping_still_comes_to_an_end() {
    for allowance in 0..3 {
        let platform = SimulatedPlatform::new(4096);
        let heap = Heap::with_options(&platform, options(8 << 20)).expect("the platform has room");
        let kept = sparse_objects(&heap, layout(64), 10_000, 10);
        let budget = MeshBudget::UNLIMITED.with_mappings(allowance);
        // SAFETY: no other thread runs.
        let steps = (1..10_000).find(|_| unsafe { heap.mesh_at_safepoint(budget) }.end != StepEnd::Budget);
        assert!(steps.is_some(), "a pass with {allowance} mappings a step ends");
        assert_untouched(&kept);
    }
}

#[test]
fn pages_that_the_heap_cannot_count_are_refused() {
    for page_size in [128 << 10, 1 << 20] {
        let platform = SimulatedPlatform::new(page_size);
        let heap = Heap::with_options(&platform, options(64 << 20));
        assert_eq!(heap.map(drop), Err(AllocError::PageSize));
        assert_eq!(platform.reserved_bytes(), 0);
    }
}

#[test]
fn unused_pages_go_back_though_a_little_is_used_now_and_then() {
    let platform = SimulatedPlatform::new(4096);
    let heap = Heap::with_options(&platform, options(64 << 20)).expect("the platform has room");
    platform.set_clock_step(60_000_000);
    let burst = heap.alloc(layout(32 << 20)).expect("room");
    // SAFETY: the object is live and is not used afterwards.
    unsafe { heap.dealloc(burst, layout(32 << 20)) };
    for _ in 0..20 {
        let object = heap.alloc(layout(100_000)).expect("room");
        // SAFETY: as above.
        unsafe { heap.dealloc(object, layout(100_000)) };
    }
    let dirty = heap.statistics().dirty_bytes;
    assert!(dirty <= 8 << 20, "{dirty} bytes of the burst are still held");
}

#[test]
fn a_platform_value_serves_one_heap_at_a_time() {
    let platform = PrivatePlatform::new();
    let first = Heap::with_options(&platform, options(4 << 20)).expect("Linux has room");
    assert!(Heap::with_options(&platform, options(4 << 20)).is_err(), "the arena is taken");
    let object = first.alloc(layout(100)).expect("room");
    assert!(first.contains(object));
    drop(first);
    assert!(Heap::with_options(&platform, options(4 << 20)).is_ok(), "it is free again");
}

#[test]
fn a_local_heap_gives_up_what_it_keeps_before_it_says_out_of_memory() {
    let platform = SimulatedPlatform::new(4096);
    let heap = Heap::with_options(&platform, options(64 << 10)).expect("the platform has room");
    let mut local = heap.local();
    let objects: Vec<_> = core::iter::from_fn(|| local.alloc(layout(300)).ok()).collect();
    for object in objects {
        // SAFETY: the object is live and is not used afterwards.
        unsafe { local.dealloc(object, layout(300)) };
    }
    let large = local.alloc(layout(60 << 10)).expect("everything was freed");
    // SAFETY: as above.
    unsafe { local.dealloc(large, layout(60 << 10)) };
    assert!(local.alloc_zeroed(layout(60 << 10)).is_ok());
}
