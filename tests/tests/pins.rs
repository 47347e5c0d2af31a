//! Pinned objects, and heaps that never mesh: their memory stays where it is.

use core::alloc::Layout;
use core::ptr::NonNull;

use meshheap::{
    Heap, MeshBudget, MisuseKind, Operation, Options, PageIndex, PageState, PinError, Platform, PlatformError,
    SimulatedPlatform, StepEnd,
};
use meshheap_tests::scene::{self, LAYOUT, free, spans};
use meshheap_tests::sparse::{assert_untouched, sparse_objects};

fn heap_on(platform: &SimulatedPlatform) -> Heap<&SimulatedPlatform> {
    let options = Options { arena_bytes: 4 << 20, seed: Some(3), ..Options::default() };
    Heap::with_options(platform, options).expect("the platform has room")
}

/// Pages freed by a whole pass.
fn mesh_all<P: Platform>(heap: &Heap<P>) -> usize {
    // SAFETY: no other thread runs.
    let step = unsafe { heap.mesh_at_safepoint(MeshBudget::UNLIMITED) };
    assert_eq!(step.end, StepEnd::PassDone);
    step.pages_freed
}

/// The page whose memory is behind an object's address.
fn memory_of(heap: &Heap<&SimulatedPlatform>, object: NonNull<u8>) -> PageIndex {
    let base = heap.page_address(PageIndex::new(0)).addr().get();
    let page = PageIndex::new(u32::try_from((object.addr().get() - base) / scene::PAGE).expect("a small arena"));
    match heap.platform().state(page) {
        PageState::Own => page,
        PageState::Alias(target) => target,
    }
}

fn is_misuse(kind: MisuseKind, result: Result<(), PinError>) -> bool {
    matches!(result, Err(PinError::Misuse(misuse)) if misuse.kind == kind)
}

#[test]
fn the_memory_behind_pinned_objects_stays_while_the_rest_is_meshed() {
    let platform = SimulatedPlatform::new(scene::PAGE);
    let heap = heap_on(&platform);
    let kept = sparse_objects(&heap, LAYOUT, 20_000, 10);
    let pinned: Vec<_> = kept.iter().copied().step_by(50).collect();
    pinned.iter().for_each(|&object| heap.pin(object).expect("it is live"));
    assert_eq!(heap.statistics().pinned_objects, pinned.len());
    let memory = || pinned.iter().map(|&object| memory_of(&heap, object)).collect::<Vec<_>>();
    let before = memory();
    assert!(mesh_all(&heap) > 0);
    assert_eq!(memory(), before);
    assert_untouched(&kept);
    heap.check_invariants();
    pinned.iter().for_each(|&object| heap.unpin(object).expect("it is pinned"));
    assert_eq!(heap.statistics().pinned_objects, 0);
    assert!(mesh_all(&heap) > 0, "now these move, too");
    assert_ne!(memory(), before);
    assert_untouched(&kept);
    heap.check_invariants();
}

#[test]
fn others_are_laid_onto_a_pinned_objects_span_and_what_it_lies_on_stays() {
    let platform = SimulatedPlatform::new(scene::PAGE);
    let heap = scene::small_heap(&platform, 64);
    let objects = spans(&heap, &[&[0, 1], &[2], &[3], &[4]]);
    let pinned = objects[2][0];
    heap.pin(pinned).expect("it is live");
    let before = memory_of(&heap, pinned);
    assert_eq!(mesh_all(&heap), 3, "all fit");
    assert!(objects.iter().flatten().all(|&object| memory_of(&heap, object) == before), "it is everybody's keeper");
    heap.check_invariants();
}

#[test]
fn what_a_pinned_alias_lies_on_stays() {
    let platform = SimulatedPlatform::new(scene::PAGE);
    let heap = scene::small_heap(&platform, 64);
    let few = spans(&heap, &[&[0], &[1]]);
    assert_eq!(mesh_all(&heap), 1);
    let fill: Vec<_> = (0..scene::SLOTS - 2).map(|_| heap.alloc(LAYOUT).expect("room")).collect();
    let more = spans(&heap, &[&[2], &[3], &[4]]);
    assert_eq!(mesh_all(&heap), 2);
    fill.into_iter().for_each(|object| free(&heap, object));
    let memory = memory_of(&heap, few[0][0]);
    let base = heap.page_address(memory).addr().get();
    let alias = few.iter().flatten().find(|object| object.addr().get() & !(scene::PAGE - 1) != base);
    heap.pin(*alias.expect("one of the two")).expect("it is live");
    assert_eq!(mesh_all(&heap), 1);
    // Else the group with fewer aliases would have moved.
    assert!(few.iter().chain(&more).flatten().all(|&object| memory_of(&heap, object) == memory));
    heap.check_invariants();
}

#[test]
fn pages_that_are_private_stay_so_while_an_object_is_pinned() {
    let platform = SimulatedPlatform::new(scene::PAGE).private_until_shared();
    let heap = scene::small_heap(&platform, 64);
    let objects = spans(&heap, &[&[0, 1], &[2]]);
    heap.pin(objects[0][0]).expect("it is live");
    assert_eq!(mesh_all(&heap), 0, "to share them is to move them");
    assert_eq!(platform.calls(Operation::Share), 0);
    heap.unpin(objects[0][0]).expect("it is pinned");
    assert_eq!(mesh_all(&heap), 1);
    let keeper = memory_of(&heap, objects[0][0]);
    heap.pin(objects[0][0]).expect("it is live");
    let fill: Vec<_> = (0..scene::SLOTS - 3).map(|_| heap.alloc(LAYOUT).expect("room")).collect();
    let other = spans(&heap, &[&[5]]);
    fill.into_iter().for_each(|object| free(&heap, object));
    assert_eq!(mesh_all(&heap), 1, "once shared they may be laid upon");
    assert_eq!((memory_of(&heap, objects[0][0]), memory_of(&heap, other[0][0])), (keeper, keeper));
    heap.check_invariants();
}

#[test]
fn two_pinned_spans_are_not_laid_onto_each_other() {
    let platform = SimulatedPlatform::new(scene::PAGE);
    let heap = scene::small_heap(&platform, 64);
    let objects = spans(&heap, &[&[0], &[1]]);
    objects.iter().flatten().for_each(|&object| heap.pin(object).expect("it is live"));
    assert_eq!(mesh_all(&heap), 0);
    heap.unpin(objects[0][0]).expect("it is pinned");
    assert_eq!(mesh_all(&heap), 1);
    assert_eq!(memory_of(&heap, objects[0][0]), memory_of(&heap, objects[1][0]));
}

#[test]
fn a_pin_is_one_until_it_is_ended() {
    let platform = SimulatedPlatform::new(scene::PAGE);
    let heap = scene::small_heap(&platform, 64);
    let large = heap.alloc(scene::whole_pages(20)).expect("room");
    let small = spans(&heap, &[&[0, 1]])[0].clone();
    for object in [small[0], large] {
        assert_eq!(heap.unpin(object), Err(PinError::NotPinned));
        assert_eq!(heap.pin(object), Ok(()));
        assert_eq!(heap.pin(object), Err(PinError::AlreadyPinned));
        assert_eq!(heap.unpin(object), Ok(()));
        assert_eq!(heap.unpin(object), Err(PinError::NotPinned));
    }
    heap.pin(small[0]).expect("it is live");
    assert_eq!(heap.unpin(small[1]), Err(PinError::NotPinned), "its neighbour is");
    assert_eq!(heap.statistics().pinned_objects, 1);
}

#[test]
fn wrong_pointers_are_not_pinned() {
    let platform = SimulatedPlatform::new(scene::PAGE);
    let heap = scene::small_heap(&platform, 64);
    let object = spans(&heap, &[&[0, 1]])[0][0];
    let large = heap.alloc(scene::whole_pages(20)).expect("room");
    // SAFETY: within the objects.
    let inside = [unsafe { object.add(8) }, unsafe { large.add(scene::PAGE) }, unsafe { large.add(8) }];
    for pointer in inside {
        assert!(is_misuse(MisuseKind::Interior, heap.pin(pointer)));
        assert!(is_misuse(MisuseKind::Interior, heap.unpin(pointer)));
    }
    let mut local = 0_u64;
    let foreign = NonNull::from(&mut local).cast();
    assert!(is_misuse(MisuseKind::NotOurs, heap.pin(foreign)));
    assert!(is_misuse(MisuseKind::NotOurs, heap.unpin(foreign)));
    free(&heap, object);
    assert!(is_misuse(MisuseKind::DoubleFree, heap.pin(object)));
    free(&heap, large);
    assert!(is_misuse(MisuseKind::NotOurs, heap.pin(large)));
    assert_eq!(heap.statistics().pinned_objects, 0);
}

#[test]
fn a_pin_of_a_freed_object_ends_with_its_span() {
    let platform = SimulatedPlatform::new(scene::PAGE);
    let mut heap = heap_on(&platform);
    let object = heap.alloc(LAYOUT).expect("room");
    heap.pin(object).expect("it is live");
    free(&heap, object);
    assert_eq!(heap.statistics().pinned_objects, 1);
    let large = heap.alloc(scene::whole_pages(20)).expect("room");
    heap.pin(large).expect("it is live");
    free(&heap, large);
    let sparse = sparse_objects(&heap, LAYOUT, 4000, 10);
    let again = heap.alloc(scene::whole_pages(20)).expect("room");
    assert_eq!(heap.statistics().pinned_objects, 0, "their pages began anew");
    assert!(mesh_all(&heap) > 0);
    heap.pin(sparse[0]).expect("it is live");
    heap.pin(again).expect("it is live");
    heap.reset();
    assert_eq!(heap.statistics().pinned_objects, 0);
    assert_eq!(heap.alloc(LAYOUT).map(|object| heap.pin(object)), Ok(Ok(())));
}

#[test]
fn a_pin_for_which_there_is_no_memory_is_an_error() {
    let platform = SimulatedPlatform::new(scene::PAGE);
    let heap = scene::small_heap(&platform, 64);
    let object = heap.alloc(LAYOUT).expect("room");
    platform.fail_all(Operation::Reserve);
    let error = PlatformError { operation: Operation::Reserve, code: SimulatedPlatform::INJECTED };
    assert_eq!(heap.pin(object), Err(PinError::Platform(error)));
    assert_eq!(heap.unpin(object), Err(PinError::NotPinned));
    platform.heal();
    assert_eq!(heap.pin(object), Ok(()));
    drop(heap);
    assert_eq!(platform.reserved_bytes(), 0, "I9");
}

#[test]
fn a_heap_that_never_meshes_says_so() {
    let platform = SimulatedPlatform::new(scene::PAGE);
    let options = Options { arena_bytes: 4 << 20, seed: Some(3), never_mesh: true, ..Options::default() };
    let heap = Heap::with_options(&platform, options).expect("room");
    let kept = sparse_objects(&heap, Layout::new::<[u64; 8]>(), 20_000, 10);
    // SAFETY: no other thread runs.
    let step = unsafe { heap.mesh_at_safepoint(MeshBudget::UNLIMITED) };
    assert_eq!((step.end, step.pages_freed, heap.meshable_bytes()), (StepEnd::Unsupported, 0, 0));
    assert_eq!(platform.calls(Operation::Alias), 0);
    assert_untouched(&kept);
    heap.purge().expect("this it does");
    heap.check_invariants();
}
