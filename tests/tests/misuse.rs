//! Wrong layouts and wrong pointers: a clear error, nothing lost, the heap whole and usable.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use meshheap::{AllocError, Heap, Misuse, MisuseKind, Options, SimulatedPlatform};

fn with_heap(test: impl FnOnce(&Heap<&SimulatedPlatform>)) {
    let platform = SimulatedPlatform::new(4096);
    let options = Options { arena_bytes: 16 << 20, ..Options::default() };
    let heap = Heap::with_options(&platform, options).expect("the platform has room");
    test(&heap);
    heap.check_invariants();
}

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).expect("valid")
}

#[test]
fn a_size_of_zero_gives_objects_of_their_own() {
    with_heap(|heap| {
        let mut local = heap.local();
        let (first, second) = (local.alloc(layout(0, 1)), local.alloc(layout(0, 1)));
        assert_ne!(first.expect("room"), second.expect("room"));
    });
}

#[test]
fn huge_sizes_are_errors() {
    with_heap(|heap| {
        let mut local = heap.local();
        for size in [17 << 20, 1 << 40, isize::MAX as usize - 4095] {
            assert_eq!(local.alloc(layout(size, 1)), Err(AllocError::TooLarge), "{size}");
            assert_eq!(local.alloc_zeroed(layout(size, 1)), Err(AllocError::TooLarge), "{size}");
            assert_eq!(heap.alloc(layout(size, 1)), Err(AllocError::TooLarge), "{size}");
        }
        let small = layout(10, 1);
        let object = local.alloc(small).expect("room");
        for size in [17 << 20, usize::MAX, isize::MAX as usize + 1] {
            // SAFETY: the object is live; a failed call leaves it as it was.
            assert_eq!(unsafe { local.realloc(object, small, size) }, Err(AllocError::TooLarge));
        }
        assert_eq!(heap.usable_size(object), Ok(16), "the object is still there");
    });
}

#[test]
fn alignments_are_kept_up_to_what_the_arena_holds_and_errors_beyond() {
    with_heap(|heap| {
        let mut local = heap.local();
        for bits in 0..=22 {
            let layout = layout(100, 1 << bits);
            let object = local.alloc(layout).expect("room");
            assert_eq!(object.addr().get() % layout.align(), 0);
            // SAFETY: the object is live and is not used afterwards.
            unsafe { local.dealloc(object, layout) };
        }
        for bits in 25..=62 {
            let outcome = local.alloc(layout(100, 1 << bits));
            assert!(matches!(outcome, Err(AllocError::TooLarge | AllocError::OutOfMemory)), "2^{bits}: {outcome:?}");
        }
    });
}

#[test]
fn pointers_that_are_not_the_heaps_are_named() {
    with_heap(|heap| {
        let mut local = heap.local();
        let foreign = NonNull::from(&mut [0u8; 64]).cast::<u8>();
        let object = local.alloc(layout(100, 1)).expect("room");
        let large = local.alloc(layout(100_000, 1)).expect("room");
        // SAFETY: the pointer stays within the object.
        let inner = unsafe { object.add(16) };
        // SAFETY: as above.
        let inner_large = unsafe { large.add(5000) };
        let cases =
            [(foreign, MisuseKind::NotOurs), (inner, MisuseKind::Interior), (inner_large, MisuseKind::Interior)];
        for (pointer, kind) in cases {
            // SAFETY: none of the pointers is the start of a live object.
            assert_eq!(unsafe { heap.free(pointer) }.map_err(|misuse| misuse.kind), Err(kind));
            // SAFETY: as above.
            assert_eq!(unsafe { local.free(pointer) }.map_err(|misuse| misuse.kind), Err(kind));
            assert_eq!(heap.usable_size(pointer).map_err(|misuse| misuse.kind), Err(kind));
        }
        assert!(!heap.contains(foreign));
        let freed = local.alloc(layout(100_000, 1)).expect("room");
        // SAFETY: the object is live and is not used afterwards.
        unsafe { local.free(freed) }.expect("live");
        assert!(!heap.contains(freed));
        assert!(heap.contains(inner) && heap.contains(inner_large));
        assert!(heap.usable_size(object).is_ok() && heap.usable_size(large).is_ok());
    });
}

#[test]
fn a_pointer_of_another_heap_is_not_ours_and_lives_on() {
    with_heap(|other| {
        with_heap(|heap| {
            let mut local = heap.local();
            for size in [16, 1000, 5000, 100_000] {
                let object = other.alloc(layout(size, 1)).expect("room");
                // SAFETY: it is no object of this heap, which is an error.
                assert_eq!(unsafe { heap.free(object) }.map_err(|misuse| misuse.kind), Err(MisuseKind::NotOurs));
                // SAFETY: as above.
                assert_eq!(unsafe { local.free(object) }.map_err(|misuse| misuse.kind), Err(MisuseKind::NotOurs));
                assert_eq!(heap.object_at(object).map_err(|misuse| misuse.kind), Err(MisuseKind::NotOurs));
                assert!(heap.usable_size(object).is_err() && !heap.contains(object));
                let before = heap.statistics().misuses;
                // SAFETY: as above; it is counted and not freed.
                unsafe { heap.dealloc(object, layout(size, 1)) };
                assert_eq!(heap.statistics().misuses, before + 1);
                assert!(other.usable_size(object).is_ok_and(|usable| usable >= size));
            }
        });
    });
}

#[test]
fn a_second_free_through_the_heap_is_an_error_at_once() {
    with_heap(|heap| {
        let keep = heap.alloc(layout(64, 1)).expect("room");
        let object = heap.alloc(layout(64, 1)).expect("room");
        // SAFETY: the object is live and is not used afterwards.
        unsafe { heap.free(object) }.expect("the first free is right");
        // SAFETY: the object is not live.
        let misuse = unsafe { heap.free(object) }.expect_err("the second is wrong");
        assert_eq!((misuse.kind, misuse.address), (MisuseKind::DoubleFree, object.addr().get()));
        assert!(heap.usable_size(object).is_err());
        assert!(heap.usable_size(keep).is_ok());
    });
}

static REPORTED: AtomicUsize = AtomicUsize::new(0);

#[test]
fn a_second_free_through_a_local_heap_is_reported_when_the_slot_is_released() {
    let platform = SimulatedPlatform::new(4096);
    let on_misuse = |misuse: Misuse| {
        assert_eq!(misuse.kind, MisuseKind::DoubleFree);
        // Relaxed: one thread runs.
        REPORTED.store(misuse.address, Ordering::Relaxed);
    };
    let options = Options { arena_bytes: 16 << 20, on_misuse: Some(on_misuse), ..Options::default() };
    let heap = Heap::with_options(&platform, options).expect("the platform has room");
    let mut local = heap.local();
    let object = local.alloc(layout(64, 1)).expect("room");
    // SAFETY: wrong on purpose: the heap must find it and stay whole.
    unsafe { local.dealloc(object, layout(64, 1)) };
    // SAFETY: as above.
    unsafe { local.dealloc(object, layout(64, 1)) };
    local.flush();
    drop(local);
    heap.purge().expect("nothing fails");
    assert_eq!(REPORTED.load(Ordering::Relaxed), object.addr().get());
    assert_eq!(heap.statistics().misuses, 1);
    heap.check_invariants();
}

#[test]
fn an_alias_frees_only_its_own_slots() {
    with_heap(|heap| {
        let one = layout(64, 1);
        // Two spans with one object each, in different slots.
        let objects: Vec<_> = (0..128).map(|_| heap.alloc(one).expect("room")).collect();
        let kept = [objects[3], objects[100]];
        for object in objects.into_iter().filter(|object| !kept.contains(object)) {
            // SAFETY: the object is live and is not used afterwards.
            unsafe { heap.free(object) }.expect("live");
        }
        // SAFETY: no other thread runs.
        let step = unsafe { heap.mesh_at_safepoint(meshheap::MeshBudget::UNLIMITED) };
        assert_eq!(step.pages_freed, 1, "{step:?}");
        // The page is shared now: the other span's address of the same slot is no object.
        let distance = kept[1].addr().get() / 4096 * 4096 - kept[0].addr().get() / 4096 * 4096;
        // SAFETY: the spans lie in one arena, `distance` apart.
        let wrong = unsafe { kept[0].add(distance) };
        // SAFETY: `wrong` is not a live object.
        let misuse = unsafe { heap.free(wrong) }.expect_err("nobody allocated this address");
        assert_eq!(misuse.kind, MisuseKind::DoubleFree);
        for object in kept {
            // SAFETY: the object is live and is not used afterwards.
            unsafe { heap.free(object) }.expect("each is freed through its own address");
        }
    });
}

#[test]
fn a_second_free_is_an_error_for_every_size() {
    with_heap(|heap| {
        for size in [16, 64, 1000, 4096, 5000, 8192, 32 << 10, 100_000] {
            let object = heap.alloc(layout(size, 1)).expect("room");
            // SAFETY: the object is live and is not used afterwards.
            unsafe { heap.free(object) }.expect("the first free is right");
            // SAFETY: the object is not live.
            let misuse = unsafe { heap.free(object) }.expect_err("the second is wrong");
            let kinds = [MisuseKind::DoubleFree, MisuseKind::NotOurs];
            assert!(kinds.contains(&misuse.kind), "{size}: {misuse:?}");
            assert!(heap.usable_size(object).is_err(), "{size}");
        }
    });
}

#[test]
fn the_bytes_behind_the_last_slot_of_a_span_are_no_object() {
    with_heap(|heap| {
        // 85 slots of 48 bytes leave 16 bytes of a page.
        let object = heap.alloc(layout(48, 1)).expect("room");
        assert_eq!(object.addr().get() % 4096, 0, "the first object of a new span");
        // SAFETY: the pointer stays within the page.
        let tail = unsafe { object.add(85 * 48) };
        assert_eq!(heap.usable_size(tail).map_err(|misuse| misuse.kind), Err(MisuseKind::Interior));
        // SAFETY: no object starts there.
        assert_eq!(unsafe { heap.free(tail) }.map_err(|misuse| misuse.kind), Err(MisuseKind::Interior));
    });
}

#[test]
fn an_object_that_is_freed_with_the_layout_of_another_class_stays_and_is_counted() {
    with_heap(|heap| {
        let object = heap.alloc(layout(64, 1)).expect("room");
        // SAFETY: wrong on purpose: the heap must find it and stay whole.
        unsafe { heap.dealloc(object, layout(200, 1)) };
        assert_eq!(heap.statistics().misuses, 1);
        // SAFETY: as above.
        unsafe { heap.dealloc(object, layout(200_000, 1)) };
        assert_eq!(heap.statistics().misuses, 2);
        assert_eq!(heap.usable_size(object), Ok(64), "the object is still there");
    });
}

#[test]
fn frees_beside_a_second_free_are_not_lost() {
    with_heap(|heap| {
        let mut local = heap.local();
        // One more than are freed, so that there is room in one vector for the second free.
        let objects = [(); 4].map(|()| local.alloc(layout(64, 1)).expect("room"));
        for object in [objects[0], objects[1], objects[1], objects[2]] {
            // SAFETY: wrong on purpose for one object: the heap must find it and stay whole.
            unsafe { local.dealloc(object, layout(64, 1)) };
        }
        drop(local);
        // SAFETY: the object is live and is not used afterwards.
        unsafe { heap.free(objects[3]) }.expect("live");
        heap.purge().expect("nothing fails");
        assert_eq!((heap.statistics().misuses, heap.statistics().taken_bytes), (1, 0));
    });
}
