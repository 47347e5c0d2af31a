//! What a heap tells of its objects is what the caller knows: before and after meshing, by each address that it holds.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeMap;

use meshheap::{Heap, MisuseKind, ObjectInfo, Options, Platform, SimulatedPlatform, Statistics};
use meshheap_tests::scene::{LAYOUT, PAGE, SLOTS, free, small_heap, spans, whole_pages};
use meshheap_tests::sparse::{assert_untouched, mesh_all, sparse_objects};
use serde_json::Value;

/// Sizes of slots in one page, of slots over several, of one slot a span, and of large objects.
const SIZES: [usize; 9] = [1, 48, 64, 700, 1500, 4096, 6000, 8192, 100_000];

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).expect("valid")
}

fn heap_of(platform: &SimulatedPlatform, bytes: usize) -> Heap<&SimulatedPlatform> {
    let options = Options { arena_bytes: bytes, seed: Some(7), ..Options::default() };
    Heap::with_options(platform, options).expect("the platform has room")
}

/// Objects of all sizes, of which a few are left; what the caller knows of them: start and least size.
fn known_objects<P: Platform>(heap: &Heap<P>) -> BTreeMap<usize, usize> {
    let mut known = BTreeMap::new();
    for (round, size) in SIZES.into_iter().enumerate() {
        let count = (400_000 / size).clamp(8, 2000);
        let objects: Vec<_> = (0..count).map(|_| heap.alloc(layout(size)).expect("the arena has room")).collect();
        for (index, object) in objects.into_iter().enumerate() {
            if (index * 7 + round) % 9 < 2 {
                known.insert(object.addr().get(), size);
            } else {
                free(heap, object);
            }
        }
    }
    known
}

fn at<P: Platform>(heap: &Heap<P>, address: usize) -> Option<ObjectInfo> {
    let base = heap.page_address(meshheap::PageIndex::new(0));
    let pointer = base.map_addr(|_| address.try_into().expect("not null"));
    heap.object_at(pointer).ok()
}

/// The heap tells exactly the known objects, and every kind of pointer into each leads to it.
fn assert_known<P: Platform>(heap: &Heap<P>, known: &BTreeMap<usize, usize>) {
    let told: Vec<_> = heap.objects().collect();
    let starts: Vec<_> = told.iter().map(|object| object.start.addr().get()).collect();
    assert_eq!(starts, known.keys().copied().collect::<Vec<_>>(), "just the taken objects, in address order");
    for (object, &size) in told.iter().zip(known.values()) {
        assert!(object.is_taken && object.size >= size && object.is_large == (size > 32 << 10), "{object:?}");
        assert_eq!(heap.usable_size(object.start), Ok(object.size));
        for offset in [0, 1, size / 2, size - 1, object.size - 1] {
            assert_eq!(at(heap, object.start.addr().get() + offset), Some(*object), "byte {offset}");
        }
    }
}

#[test]
fn every_object_is_told_and_found_from_any_of_its_bytes_before_and_after_meshing() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = heap_of(&platform, 16 << 20);
    let known = known_objects(&heap);
    assert_known(&heap, &known);
    mesh_all(&heap);
    assert!(heap.statistics().aliased_bytes > 0, "the test is about aliases");
    heap.check_invariants();
    assert_known(&heap, &known);
    let starts: Vec<_> = heap.objects().map(|object| object.start).collect();
    starts.into_iter().for_each(|object| free(&heap, object));
    assert_eq!(heap.objects().count(), 0);
}

#[test]
fn a_free_slot_is_told_as_free_and_what_is_no_object_as_not_ours() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 64);
    let objects = spans(&heap, &[&[0, 5], &[1]]);
    mesh_all(&heap);
    let start = objects[0][0].addr().get();
    for slot in 0..SLOTS {
        let found = at(&heap, start + slot * LAYOUT.size() + 3).expect("a slot");
        assert_eq!(
            (found.size, found.is_taken),
            (LAYOUT.size(), slot == 0 || slot == 5),
            "slot {slot}, not its keeper's"
        );
    }
    let kind = |pointer: NonNull<u8>| heap.object_at(pointer).map_err(|misuse| misuse.kind);
    let odd = heap.alloc(layout(48)).expect("the arena has room");
    // SAFETY: 85 slots leave 16 bytes of the page.
    let behind = unsafe { odd.add(PAGE - 16) };
    // SAFETY: the last byte of the last slot.
    let last = unsafe { odd.add(PAGE - 17) };
    assert_eq!(heap.object_at(last).map(|object| (object.size, object.is_taken)), Ok((48, false)));
    assert_eq!(kind(behind), Err(MisuseKind::NotOurs), "the rest of the span");
    let mut local = 0_u8;
    assert_eq!(kind(NonNull::from(&mut local)), Err(MisuseKind::NotOurs));
    assert_eq!(kind(heap.page_address(meshheap::PageIndex::new(63))), Err(MisuseKind::NotOurs), "a free page");
    let large = heap.alloc(whole_pages(12)).expect("the arena has room");
    free(&heap, large);
    assert_eq!(kind(large), Err(MisuseKind::NotOurs), "a freed large object");
}

#[test]
fn a_walk_may_free_what_it_is_told_and_allocate() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = heap_of(&platform, 16 << 20);
    let known = known_objects(&heap);
    mesh_all(&heap);
    let mut freed = Vec::new();
    // New objects may be told or not: only the old ones are freed.
    for object in heap.objects().filter(|object| known.contains_key(&object.start.addr().get())).take(known.len()) {
        free(&heap, object.start);
        freed.push(object.start.addr().get());
        let _ = heap.alloc(layout(100_000)).expect("the arena has room for some");
        if freed.len() >= 60 {
            break;
        }
    }
    assert_eq!(freed, known.keys().copied().take(60).collect::<Vec<_>>());
    heap.check_invariants();
}

#[test]
fn a_walk_beside_threads_tells_each_object_that_stays_once() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = heap_of(&platform, 32 << 20);
    let known = known_objects(&heap);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut local = heap.local();
            let mut round = 0_usize;
            while !done.load(Ordering::Relaxed) {
                let size = SIZES[round % SIZES.len()];
                let objects: Vec<_> = (0..50).map(|_| local.alloc(layout(size)).expect("there is room")).collect();
                // SAFETY: the objects are ours, of this layout, and not used any more.
                objects.into_iter().for_each(|object| unsafe { local.dealloc(object, layout(size)) });
                local.flush();
                round += 1;
            }
        });
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // No thread writes to objects.
                mesh_all(&heap);
                let _ = heap.meshable_bytes();
            }
        });
        for _ in 0..100 {
            let told: Vec<_> = heap.objects().map(|object| object.start.addr().get()).collect();
            assert!(told.is_sorted(), "in address order");
            let stayed: Vec<_> = told.into_iter().filter(|start| known.contains_key(start)).collect();
            assert_eq!(stayed, known.keys().copied().collect::<Vec<_>>());
            for (&start, &size) in known.iter().step_by(37) {
                let found = at(&heap, start + size - 1).expect("it is live");
                assert!(found.is_taken && found.start.addr().get() == start);
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    heap.check_invariants();
}

#[test]
fn slots_that_wait_in_vectors_count_as_taken_until_they_are_flushed() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 64);
    let mut local = heap.local();
    let object = local.alloc(LAYOUT).expect("the arena has room");
    assert!(heap.objects().count() > 1);
    local.flush();
    heap.purge().expect("nothing fails");
    assert_eq!(heap.objects().map(|object| object.start).collect::<Vec<_>>(), [object]);
}

#[test]
fn after_flush_and_drain_a_slot_is_taken_iff_a_caller_holds_it() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 64);
    let mut locals = [heap.local(), heap.local()];
    let objects: Vec<_> = (0..8 * SLOTS).map(|_| locals[0].alloc(LAYOUT).expect("the arena has room")).collect();
    let (kept, dead) = objects.split_at(3);
    // SAFETY: each object is live and is not used afterwards.
    dead.iter().for_each(|&object| unsafe { locals[1].dealloc(object, LAYOUT) });
    locals.iter_mut().for_each(meshheap::LocalHeap::flush);
    let is_taken = |object| heap.object_at(object).is_ok_and(|found| found.is_taken);
    assert!(dead.iter().any(|&object| is_taken(object)), "slots wait in the depot");
    heap.drain_depots();
    assert!(kept.iter().all(|&object| is_taken(object)) && !dead.iter().any(|&object| is_taken(object)));
    assert_eq!(heap.objects().count(), kept.len());
    heap.check_invariants();
}

#[test]
fn a_slots_size_is_known_from_any_of_its_bytes_and_serves_as_the_layout() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = heap_of(&platform, 4 << 20);
    let mut local = heap.local();
    for size in SIZES {
        let object = local.alloc(layout(size)).expect("the arena has room");
        let usable = heap.usable_size(object).expect("live");
        let is_large = heap.object_at(object).expect("live").is_large;
        for offset in [0, size / 2, size - 1] {
            // SAFETY: the pointer stays within the object.
            let inner = unsafe { object.add(offset) };
            assert_eq!(heap.slot_size_at(inner), (!is_large).then_some(usable), "{size} at {offset}");
        }
        let Some(slot) = heap.slot_size_at(object) else { continue };
        let slot = Layout::from_size_align(slot, 16).expect("valid");
        // SAFETY: the object is live, and its slot's layout is of its class.
        let object = unsafe { local.realloc(object, slot, slot.size()) }.expect("it stays");
        // SAFETY: as above; it is not used afterwards.
        unsafe { local.dealloc(object, slot) };
    }
    let foreign = NonNull::from(&mut [0_u8; 64]).cast::<u8>();
    assert_eq!(heap.slot_size_at(foreign), None);
    drop(local);
    heap.drain_depots();
    assert!(heap.objects().all(|object| object.is_large) && heap.statistics().misuses == 0);
}

#[test]
fn classes_tell_what_each_holds() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 64);
    assert_eq!(heap.classes().count(), 0);
    spans(&heap, &[&[0, 5], &[1], &[0]]);
    let class = || heap.classes().next().expect("one class is used");
    let told = |class: meshheap::ClassUse| {
        (class.slot_size, class.taken, class.slots, class.spans, class.aliases, class.held_bytes)
    };
    assert_eq!(told(class()), (LAYOUT.size(), 4, 3 * SLOTS, 3, 0, 3 * PAGE));
    mesh_all(&heap);
    assert_eq!(told(class()), (LAYOUT.size(), 4, 3 * SLOTS, 3, 1, 2 * PAGE));
    assert_eq!(heap.classes().count(), 1);
}

#[test]
fn what_can_be_meshed_is_known_before() {
    // One object in so many is kept: from nearly empty spans to spans that overlap.
    for (size, part) in [(64, 20), (64, 10), (64, 5), (64, 3), (64, 2), (256, 10), (256, 4), (1024, 10), (3000, 8)] {
        let platform = SimulatedPlatform::new(PAGE);
        let heap = heap_of(&platform, 32 << 20);
        let objects = sparse_objects(&heap, layout(size), (24 << 20) / size, part);
        heap.purge().expect("nothing fails");
        let held = heap.statistics().held_bytes;
        let estimate = heap.meshable_bytes();
        mesh_all(&heap);
        let freed = held - heap.statistics().held_bytes;
        println!("{size} bytes, 1 of {part}: held {held}, estimated {estimate}, freed {freed}");
        assert!(estimate <= 2 * freed + held / 50, "{size}, {part}: {estimate} is far above {freed}");
        assert!(freed <= 2 * estimate + held / 50, "{size}, {part}: {estimate} is far below {freed}");
        assert_untouched(&objects);
        let rest = heap.meshable_bytes();
        assert!(rest <= freed / 4 + held / 50, "{size}, {part}: {rest} is left of {freed}");
        heap.check_invariants();
    }
}

#[test]
fn nothing_is_meshable_in_dense_heaps_without_mappings_and_without_aliases() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = heap_of(&platform, 4 << 20);
    assert_eq!(heap.meshable_bytes(), 0);
    let objects: Vec<_> = (0..5000).map(|_| heap.alloc(LAYOUT).expect("the arena has room")).collect();
    assert_eq!(heap.meshable_bytes(), 0);
    objects.iter().skip(1).step_by(2).for_each(|&object| free(&heap, object));
    assert_eq!(heap.meshable_bytes(), 0, "the same slots of each span are taken");
    objects.iter().step_by(32).for_each(|&object| free(&heap, object));
    assert_eq!(heap.meshable_bytes(), 0, "they still are");
    drop(heap);
    let heap = heap_of(&platform, 4 << 20);
    sparse_objects(&heap, LAYOUT, 20_000, 10);
    assert!(heap.meshable_bytes() > 0);
    heap.set_mapping_budget(4);
    assert!(heap.meshable_bytes() <= 4 * PAGE);
    let platform = SimulatedPlatform::new(PAGE).without_alias();
    let heap = heap_of(&platform, 4 << 20);
    sparse_objects(&heap, LAYOUT, 20_000, 10);
    assert_eq!(heap.meshable_bytes(), 0);
}

#[test]
fn statistics_are_json_with_every_field() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = heap_of(&platform, 4 << 20);
    sparse_objects(&heap, LAYOUT, 20_000, 10);
    mesh_all(&heap);
    assert_eq!(heap.statistics().version, Statistics::VERSION);
    for statistics in [heap.statistics(), Statistics::default()] {
        let json: Value = serde_json::from_str(&statistics.json().to_string()).expect("valid JSON");
        let members = json.as_object().expect("an object");
        assert_eq!(json["version"], statistics.version);
        // What `Debug` derives names each field with its value: `Statistics { taken_bytes: 64, ... }`.
        let debug = format!("{statistics:?}");
        let fields = debug.trim_start_matches("Statistics {").trim_end_matches('}').split(',');
        let mut count = 0;
        for field in fields {
            let (name, value) = field.trim().split_once(": ").expect("a field");
            assert_eq!(members[name].to_string(), value, "{name}");
            count += 1;
        }
        assert_eq!(members.len(), count, "and nothing besides");
    }
}
