//! Heaps that end, begin anew and leave handles behind: everything goes back, and what is left over is an error.

use core::alloc::Layout;
use std::sync::Arc;
use std::thread;

use meshheap::{CellError, CellLocal, Heap, HeapCell, LocalHeap, MeshBudget, MisuseKind, Operation, Options, Platform};
use meshheap::{SimulatedPlatform, StepEnd};
use meshheap_linux::LinuxPlatform;
use meshheap_tests::scene::{LAYOUT, PAGE, small_heap, whole_pages};
use meshheap_tests::sparse::{mesh_all, sparse_objects};
use meshheap_tests::{Model, Op};
use quickcheck::{QuickCheck, TestResult};

const ARENA_BYTES: usize = 8 << 20;

fn heap_on<P: Platform>(platform: P) -> Heap<P> {
    let options = Options { arena_bytes: ARENA_BYTES, seed: Some(5), ..Options::default() };
    Heap::with_options(platform, options).expect("the platform has room")
}

#[test]
fn any_thread_drops_a_heap_with_live_objects_and_all_of_it_goes_back() {
    let platform = SimulatedPlatform::new(PAGE);
    thread::scope(|scope| {
        let heap = heap_on(&platform);
        sparse_objects(&heap, LAYOUT, 10_000, 8);
        mesh_all(&heap);
        assert!(heap.statistics().aliased_bytes > 0);
        scope.spawn(move || drop(heap));
    });
    assert_eq!(platform.reserved_bytes(), 0, "I9");
}

/// Any operations, a reset, and the same again: after a reset the heap is empty and serves its whole arena.
fn reset_and_use_again<P: Platform>(mut heap: Heap<P>, ops: &[Op]) {
    for _ in 0..3 {
        let mut model = Model::new(&heap);
        for &op in ops {
            model.apply(op);
        }
        model.verify();
        drop(model);
        heap.reset();
        heap.check_invariants();
        let statistics = heap.statistics();
        let left = (statistics.taken_bytes, statistics.span_bytes, statistics.aliased_bytes, statistics.parted_bytes);
        assert_eq!((left, statistics.mappings, statistics.misuses), ((0, 0, 0, 0), 0, 0));
        assert!(heap.leaks().is_empty());
    }
    heap.alloc(Layout::from_size_align(ARENA_BYTES, PAGE).expect("valid")).expect("the whole arena is one free run");
}

#[test]
fn a_reset_heap_is_as_a_new_one_whatever_it_held() {
    fn property(ops: Vec<Op>) -> TestResult {
        let platform = SimulatedPlatform::new(PAGE);
        reset_and_use_again(heap_on(&platform), &ops);
        assert_eq!(platform.reserved_bytes(), 0, "I9");
        reset_and_use_again(heap_on(LinuxPlatform::new()), &ops);
        TestResult::passed()
    }
    property(Vec::new());
    QuickCheck::new().tests(60).quickcheck(property as fn(Vec<Op>) -> TestResult);
}

#[test]
fn what_leaked_local_heaps_cached_is_free_after_a_reset() {
    let platform = SimulatedPlatform::new(PAGE);
    let mut heap = small_heap(&platform, 256);
    let pool = heap.statistics().metadata_bytes;
    for _ in 0..2000 {
        let mut local = heap.local();
        for size in [16, 64, 300, 1000] {
            local.alloc(Layout::from_size_align(size, 16).expect("valid")).expect("the arena has room");
        }
        core::mem::forget(local);
        heap.reset();
        assert_eq!(heap.statistics().taken_bytes, 0);
    }
    heap.check_invariants();
    let grown = heap.statistics().metadata_bytes - pool;
    assert!(grown < 256 << 10, "the vectors' memory serves again: {grown} bytes");
}

#[test]
fn a_reset_ends_a_pass_that_was_under_way() {
    let platform = SimulatedPlatform::new(PAGE);
    let mut heap = heap_on(&platform);
    let before = platform.reserved_bytes();
    sparse_objects(&heap, LAYOUT, 10_000, 8);
    // SAFETY: no other thread runs.
    let step = unsafe { heap.mesh_at_safepoint(MeshBudget::UNLIMITED.with_pages(1)) };
    assert_eq!(step.end, StepEnd::Budget);
    assert!(platform.reserved_bytes() > before, "the pass keeps its plan");
    heap.reset();
    assert_eq!(platform.reserved_bytes(), before);
    sparse_objects(&heap, LAYOUT, 10_000, 8);
    mesh_all(&heap);
    heap.check_invariants();
}

#[test]
fn a_reset_whose_unaliasing_is_refused_leaves_a_whole_heap() {
    let platform = SimulatedPlatform::new(PAGE);
    let mut heap = heap_on(&platform);
    sparse_objects(&heap, LAYOUT, 10_000, 8);
    mesh_all(&heap);
    platform.fail_all(Operation::Unalias);
    heap.reset();
    heap.check_invariants();
    let refused = heap.statistics();
    assert!(refused.parted_bytes > 0 && refused.taken_bytes == 0, "{refused:?}");
    platform.heal();
    heap.purge().expect("nothing fails any more");
    assert_eq!((heap.statistics().parted_bytes, heap.statistics().mappings), (0, 0));
    heap.check_invariants();
}

/// A local heap on its way from thread to thread.
#[test]
fn a_local_heap_goes_on_in_another_thread_with_what_it_cached() {
    let heap = Arc::new(heap_on(LinuxPlatform::new()));
    let mut local = LocalHeap::new(Arc::clone(&heap));
    let mut made = 0;
    for round in 0..8_u64 {
        let worker = thread::spawn(move || {
            let objects: Vec<_> = (0..1000).map(|_| local.alloc(LAYOUT).expect("the arena has room")).collect();
            for (number, &object) in objects.iter().enumerate() {
                // SAFETY: the object is ours and holds a word.
                unsafe { object.cast::<u64>().write(round << 32 | number as u64) };
            }
            for (number, object) in objects.into_iter().enumerate() {
                // SAFETY: the object is live and was written above.
                assert_eq!(unsafe { object.cast::<u64>().read() }, round << 32 | number as u64);
                // SAFETY: the object is live and is not used afterwards.
                unsafe { local.dealloc(object, LAYOUT) };
            }
            local
        });
        local = worker.join().expect("the worker does not panic");
        made += 1000;
    }
    assert_eq!(made, 8000);
    drop(local);
    let mut heap = Arc::into_inner(heap).expect("the last handle");
    assert!(heap.leaks().is_empty());
    heap.check_invariants();
}

#[test]
fn handles_and_pointers_of_before_a_reset_are_errors_and_new_ones_work() {
    let platform = SimulatedPlatform::new(PAGE);
    let cell = HeapCell::new(heap_on(&platform));
    let (mut old, mut idle) = (CellLocal::new(&cell), CellLocal::new(&cell));
    let stamped = {
        let mut inside = old.enter().expect("nobody ends it");
        let object = inside.alloc(LAYOUT).expect("the arena has room");
        inside.stamp(object)
    };
    cell.reset().expect("nobody is inside");
    assert!(old.is_stale());
    assert_eq!(old.enter().err(), Some(CellError::Stale));
    assert_eq!(idle.enter().err(), Some(CellError::Stale), "a handle that was never used, too");
    let mut new = CellLocal::new(&cell);
    let mut inside = new.enter().expect("a handle of this generation");
    assert_eq!(inside.object(stamped).map_err(|misuse| misuse.kind), Err(MisuseKind::Stale));
    // The same address may be an object again; the old pointer to it stays stale.
    for _ in 0..2 * PAGE / LAYOUT.size() {
        let object = inside.alloc(LAYOUT).expect("the arena has room");
        assert_eq!(inside.object(inside.stamp(object)), Ok(object));
        assert_eq!(inside.object(stamped).map_err(|misuse| misuse.kind), Err(MisuseKind::Stale));
    }
    drop(inside);
    drop((old, idle));
    let inside = cell.enter().expect("nobody ends it");
    assert_eq!(inside.statistics().misuses, 0, "stale handles give nothing back");
    inside.check_invariants();
}

#[test]
fn after_its_end_a_heap_is_out_of_reach_and_its_memory_back_while_handles_are_left() {
    let platform = SimulatedPlatform::new(PAGE);
    let cell = HeapCell::new(heap_on(&platform));
    let mut local = CellLocal::new(&cell);
    local.enter().expect("nobody ends it").alloc(LAYOUT).expect("the arena has room");
    thread::scope(|scope| {
        scope.spawn(|| drop(cell.end().expect("nobody is inside")));
    });
    assert_eq!(platform.reserved_bytes(), 0, "I9");
    assert_eq!(local.enter().err(), Some(CellError::Stale));
    local.renew();
    assert_eq!(local.enter().err(), Some(CellError::Ended));
    assert_eq!(cell.enter().err(), Some(CellError::Ended));
    assert_eq!(cell.end().err(), Some(CellError::Ended));
    assert_eq!(cell.reset(), Err(CellError::Ended));
}

#[test]
fn a_heap_with_threads_inside_is_neither_ended_nor_reset() {
    let platform = SimulatedPlatform::new(PAGE);
    let cell = HeapCell::new(heap_on(&platform));
    let mut local = CellLocal::new(&cell);
    let inside = local.enter().expect("nobody ends it");
    let looking = cell.enter().expect("others may come in");
    assert_eq!(cell.reset(), Err(CellError::Busy));
    drop(looking);
    assert_eq!(cell.end().err(), Some(CellError::Busy));
    drop(inside);
    assert!(!local.is_stale(), "nothing was changed");
    local.enter().expect("nobody ends it");
    cell.reset().expect("nobody is inside");
}

#[test]
fn a_dropped_handle_gives_back_what_it_cached() {
    let platform = SimulatedPlatform::new(PAGE);
    let cell = HeapCell::new(heap_on(&platform));
    let mut local = CellLocal::new(&cell);
    let mut inside = local.enter().expect("nobody ends it");
    let object = inside.alloc(LAYOUT).expect("the arena has room");
    // SAFETY: the object is live and is not used afterwards.
    unsafe { inside.dealloc(object, LAYOUT) };
    drop(inside);
    drop(local);
    assert!(cell.end().expect("nobody is inside").leaks().is_empty());
}

#[test]
fn a_pointer_of_another_cell_is_not_ours_or_stale() {
    let platforms = [SimulatedPlatform::new(PAGE).with_seed(1), SimulatedPlatform::new(PAGE).with_seed(1)];
    let [first, second] = platforms.each_ref().map(|platform| HeapCell::new(heap_on(platform)));
    let inside = first.enter().expect("nobody ends it");
    let stamped = inside.stamp(inside.alloc(LAYOUT).expect("the arena has room"));
    let other = second.enter().expect("nobody ends it");
    assert_eq!(other.object(stamped).map_err(|misuse| misuse.kind), Err(MisuseKind::NotOurs));
    drop(other);
    second.reset().expect("nobody is inside");
    let other = second.enter().expect("nobody ends it");
    assert_eq!(other.object(stamped).map_err(|misuse| misuse.kind), Err(MisuseKind::Stale));
}

/// Allocates inside, and frees most of it.
fn work_inside(local: &mut CellLocal<Arc<HeapCell<LinuxPlatform>>>, content: u64) -> Result<(), CellError> {
    let mut inside = local.enter()?;
    let objects: Vec<_> = (0..50).map(|_| inside.alloc(LAYOUT).expect("the arena has room")).collect();
    for object in &objects {
        // SAFETY: the object is ours and holds a word.
        unsafe { object.cast::<u64>().write(content) };
    }
    // Some are left to the next reset.
    for &object in &objects[..40] {
        // SAFETY: the object is live and was written above.
        assert_eq!(unsafe { object.cast::<u64>().read() }, content);
        // SAFETY: the object is live and is not used afterwards.
        unsafe { inside.dealloc(object, LAYOUT) };
    }
    Ok(())
}

#[test]
fn threads_work_in_a_cell_that_is_reset_all_the_time() {
    let cell = Arc::new(HeapCell::new(heap_on(LinuxPlatform::new())));
    let work = |worker: u64| {
        let mut local = CellLocal::new(Arc::clone(&cell));
        move || {
            let (mut entries, mut stale) = (0, 0);
            while entries < 3000 {
                match work_inside(&mut local, worker << 32 | entries) {
                    Ok(()) => entries += 1,
                    Err(CellError::Stale) => {
                        stale += 1;
                        local.renew();
                    }
                    Err(error) => assert_eq!(error, CellError::Busy),
                }
                thread::yield_now();
            }
            stale
        }
    };
    let workers: Vec<_> = (0..3).map(|worker| thread::spawn(work(worker))).collect();
    let mut resets = 0;
    while !workers.iter().all(thread::JoinHandle::is_finished) {
        resets += usize::from(cell.reset().is_ok());
        thread::yield_now();
    }
    let stale: usize = workers.into_iter().map(|worker| worker.join().expect("no worker panics")).sum();
    assert!(resets > 0 && stale > 0, "{resets} resets made {stale} handles stale");
    cell.reset().expect("nobody is inside");
    let mut heap = cell.end().expect("nobody is inside");
    heap.check_invariants();
    assert_eq!(heap.statistics().misuses, 0);
    assert!(heap.leaks().is_empty());
}

#[test]
fn what_nobody_freed_is_told_by_size_and_address() {
    let platform = SimulatedPlatform::new(PAGE);
    let mut heap = small_heap(&platform, 1024);
    let (small, large) = {
        let mut local = heap.local();
        let freed = sparse_objects(&heap, LAYOUT, 1000, 1_000_000);
        let small: Vec<_> = (0..10).map(|_| local.alloc(LAYOUT).expect("the arena has room")).collect();
        let large = local.alloc(whole_pages(20)).expect("the arena has room");
        assert!(freed.is_empty());
        (small, large)
    };
    let leaks = heap.leaks();
    let mut told: Vec<_> = leaks.objects().map(|object| object.start).collect();
    let mut expected: Vec<_> = small.iter().copied().chain([large]).collect();
    told.sort_unstable();
    expected.sort_unstable();
    assert_eq!(told, expected);
    assert_eq!((leaks.total().objects, leaks.total().bytes), (11, 10 * LAYOUT.size() + 20 * PAGE));
    let classes: Vec<_> = leaks.classes().map(|class| (class.slot_size, class.taken)).collect();
    assert_eq!(classes, [(LAYOUT.size(), 10)]);
    let report = leaks.to_string();
    let lines: Vec<_> = report.lines().collect();
    assert_eq!(lines[0], format!("11 objects were not freed ({} bytes)", 640 + 20 * PAGE));
    assert!(lines[1].starts_with("  10 in slots of 64 bytes, 640 bytes: 0x") && lines[1].ends_with(" ..."), "{report}");
    assert_eq!(lines[2], format!("  1 in pages of their own, {} bytes: {large:p}", 20 * PAGE));
    for object in small {
        // SAFETY: the object is live and is not used afterwards.
        unsafe { heap.dealloc(object, LAYOUT) };
    }
    // SAFETY: as above.
    unsafe { heap.dealloc(large, whole_pages(20)) };
    assert!(heap.leaks().is_empty());
    assert_eq!(heap.leaks().to_string(), "0 objects were not freed (0 bytes)");
}
