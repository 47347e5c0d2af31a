//! A sweep frees just the objects without a mark, and leaves the heap as if each had been freed by itself.

use core::alloc::Layout;
use core::ptr::NonNull;
use std::collections::BTreeSet;

use meshheap::{Heap, MeshBudget, ObjectInfo, Options, Platform, SimulatedPlatform, StepEnd};
use meshheap_tests::scene::{LAYOUT, PAGE, free, small_heap, spans, whole_pages};
use meshheap_tests::sparse::{assert_untouched, mesh_all, sparse_objects};
use quickcheck::quickcheck;

const SIZES: [usize; 8] = [16, 64, 700, 1500, 4096, 6000, 8192, 100_000];

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).expect("valid")
}

fn heap_of(platform: &SimulatedPlatform, bytes: usize) -> Heap<&SimulatedPlatform> {
    let options = Options { arena_bytes: bytes, seed: Some(7), ..Options::default() };
    Heap::with_options(platform, options).expect("the platform has room")
}

/// Frees all but the marked objects. No local heap is in use, and the others are not used any more.
fn sweep<P: Platform>(heap: &Heap<P>, mut marked: impl FnMut(&ObjectInfo) -> bool) -> meshheap::Swept {
    // SAFETY: by the callers' word.
    unsafe { heap.sweep(|object| marked(&object)) }
}

fn starts<P: Platform>(heap: &Heap<P>) -> BTreeSet<NonNull<u8>> {
    heap.objects().map(|object| object.start).collect()
}

#[test]
fn what_is_not_marked_is_freed_and_the_rest_stays() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = heap_of(&platform, 32 << 20);
    let mut all = BTreeSet::new();
    {
        let mut local = heap.local();
        for size in SIZES {
            all.extend((0..(800_000 / size).min(3000)).map(|_| local.alloc(layout(size)).expect("the arena has room")));
        }
        local.flush();
        // Slots in the depots look taken, but belong to nobody: they are swept only once.
    }
    let before = heap.statistics().taken_bytes;
    let marked: BTreeSet<_> = all.iter().copied().filter(|start| start.addr().get() / 16 % 3 == 0).collect();
    assert!(!marked.is_empty() && marked.len() < all.len());
    let swept = sweep(&heap, |object| marked.contains(&object.start));
    heap.check_invariants();
    assert_eq!(starts(&heap), marked);
    assert_eq!(swept.objects, all.len() - marked.len());
    assert!(before - heap.statistics().taken_bytes >= swept.bytes, "slots of depots were freed as well");
    let kept: usize = heap.objects().map(|object| object.size).sum();
    assert_eq!(heap.statistics().taken_bytes, kept);
    assert_eq!(sweep(&heap, |_| true), meshheap::Swept::default());
    assert_eq!(sweep(&heap, |_| false).objects, marked.len());
    assert_eq!((heap.objects().count(), heap.statistics().taken_bytes, heap.statistics().misuses), (0, 0, 0));
    heap.check_invariants();
    heap.purge().expect("nothing fails");
    assert_eq!(heap.statistics().span_bytes, 0);
}

#[test]
fn aliases_and_keepers_are_swept_by_their_own_slots() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 64);
    let objects = spans(&heap, &[&[0, 5], &[1, 9], &[2]]);
    mesh_all(&heap);
    assert_eq!(heap.statistics().aliased_bytes, 2 * PAGE);
    let kept = [objects[0][1], objects[1][0]];
    assert_eq!(sweep(&heap, |object| kept.contains(&object.start)).objects, 3);
    heap.check_invariants();
    assert_eq!(starts(&heap), BTreeSet::from(kept));
    assert_untouched(&kept);
    kept.into_iter().for_each(|object| free(&heap, object));
    heap.check_invariants();
    heap.purge().expect("nothing fails");
    assert_eq!((heap.statistics().span_bytes, heap.statistics().mappings), (0, 0));
}

#[test]
fn each_object_is_asked_for_once_in_address_order() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = heap_of(&platform, 8 << 20);
    let mut kept = sparse_objects(&heap, LAYOUT, 20_000, 10);
    kept.push(heap.alloc(whole_pages(20)).expect("the arena has room"));
    kept.sort();
    let mut asked = Vec::new();
    // SAFETY: all is marked.
    let swept = unsafe {
        heap.sweep(|object| {
            asked.push(object.start);
            true
        })
    };
    assert_eq!((asked, swept.objects), (kept, 0));
}

#[test]
fn what_a_sweep_frees_is_used_again_and_meshed() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = heap_of(&platform, 8 << 20);
    let mut kept: Vec<NonNull<u8>> = Vec::new();
    for round in 0..6_u64 {
        let mut local = heap.local();
        for index in 0..20_000_u64 {
            let object = local.alloc(LAYOUT).expect("the arena has room");
            // SAFETY: the object is ours and holds a word.
            unsafe { object.cast::<usize>().write(object.addr().get()) };
            if index * 2_654_435_761 % 1009 < 20 + round {
                kept.push(object);
            }
        }
        drop(local);
        let marked: BTreeSet<_> = kept.iter().copied().collect();
        sweep(&heap, |object| marked.contains(&object.start));
        heap.check_invariants();
        mesh_all(&heap);
        heap.check_invariants();
        assert_eq!(starts(&heap), marked);
        assert_untouched(&kept);
    }
    assert!(heap.statistics().pages_meshed > 100);
}

#[test]
fn a_sweep_amid_a_pass_leaves_the_heap_whole() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = heap_of(&platform, 8 << 20);
    let kept = sparse_objects(&heap, LAYOUT, 20_000, 10);
    let (mut left, mut end) = (kept.len(), StepEnd::Budget);
    while end == StepEnd::Budget {
        // SAFETY: no other thread runs.
        end = unsafe { heap.mesh_at_safepoint(MeshBudget::UNLIMITED.with_pages(20)) }.end;
        let mut turn = 0;
        left -= sweep(&heap, |_| {
            turn += 1;
            turn % 7 != 0
        })
        .objects;
        heap.check_invariants();
    }
    assert_eq!((end, heap.objects().count()), (StepEnd::PassDone, left));
    let rest: Vec<_> = heap.objects().map(|object| object.start).collect();
    assert_untouched(&rest);
}

#[test]
fn a_collector_that_panics_leaves_the_heap_whole() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = heap_of(&platform, 8 << 20);
    let kept = sparse_objects(&heap, LAYOUT, 5000, 5);
    let mut asked = 0;
    let outcome = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
        // SAFETY: no object is used any more.
        unsafe {
            heap.sweep(|_| {
                asked += 1;
                assert!(asked < 300, "the collector gives up");
                false
            })
        }
    }));
    assert!(outcome.is_err());
    heap.check_invariants();
    let left = heap.objects().count();
    assert!(left < kept.len() && left >= kept.len() - 300);
    assert_eq!(sweep(&heap, |_| false).objects, left);
}

#[test]
fn marks_keep_what_they_are_on_until_the_next_sweep() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = heap_of(&platform, 32 << 20);
    let mut marks = heap.marks().expect("the platform has room");
    let mut all = BTreeSet::new();
    {
        let mut local = heap.local();
        for size in SIZES {
            all.extend((0..(800_000 / size).min(3000)).map(|_| local.alloc(layout(size)).expect("the arena has room")));
        }
    }
    let mut kept: BTreeSet<_> = all.iter().copied().filter(|start| start.addr().get() / 16 % 3 == 0).collect();
    for round in 0..4 {
        for (index, &object) in kept.iter().enumerate() {
            // By its start or by any byte of it.
            let size = heap.usable_size(object).expect("it is live");
            // SAFETY: the byte lies in the object.
            let inside = unsafe { object.add((index * 7919 + round) % size) };
            assert!(!marks.is_marked(object) && marks.mark(inside), "it is new");
            assert!(marks.is_marked(object) && !marks.mark(object) && !marks.mark(inside), "it is marked once");
        }
        let before = heap.objects().count();
        // SAFETY: the local heap is gone, and objects without a mark are not used any more.
        let swept = unsafe { heap.sweep_unmarked(&mut marks) };
        heap.check_invariants();
        assert_eq!(starts(&heap), kept);
        assert!(swept.objects == all.len() - kept.len() && before >= swept.objects);
        mesh_all(&heap);
        all = kept.clone();
        kept = kept
            .into_iter()
            .enumerate()
            .filter(|(index, _)| index % 3 != round % 3)
            .map(|(_, object)| object)
            .collect();
    }
    let mut byte = 0_u8;
    assert!(!marks.mark(NonNull::from(&mut byte)), "no object of the heap");
    // SAFETY: as above; nothing is marked.
    let swept = unsafe { heap.sweep_unmarked(&mut marks) };
    assert_eq!((swept.objects, heap.objects().count(), heap.statistics().misuses), (all.len(), 0, 0));
    heap.check_invariants();
    drop(marks);
    heap.purge().expect("nothing fails");
    assert_eq!((heap.statistics().span_bytes, heap.statistics().mappings), (0, 0));
}

#[test]
fn threads_that_mark_together_see_each_object_first_once() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = heap_of(&platform, 8 << 20);
    let kept = sparse_objects(&heap, LAYOUT, 20_000, 4);
    heap.purge().expect("nothing fails");
    let mut marks = heap.marks().expect("the platform has room");
    for _ in 0..40 {
        let barrier = std::sync::Barrier::new(2);
        let first: usize = std::thread::scope(|scope| {
            let (heap, marks, barrier) = (&heap, &marks, &barrier);
            let mark = move || {
                let objects: Vec<_> = heap.objects().map(|object| object.start).collect();
                barrier.wait();
                objects.into_iter().filter(|&object| marks.mark(object)).count()
            };
            let threads = [(); 2].map(|()| scope.spawn(mark));
            threads.into_iter().map(|thread| thread.join().expect("it does not panic")).sum()
        });
        assert_eq!(first, kept.len());
        // SAFETY: no local heap is in use, and all objects are marked.
        assert_eq!(unsafe { heap.sweep_unmarked(&mut marks) }, meshheap::Swept::default());
    }
}

#[test]
#[should_panic(expected = "the marks belong to another heap")]
fn marks_of_another_heap_are_refused() {
    let platforms = [(); 2].map(|()| SimulatedPlatform::new(PAGE));
    let [one, other] = [0, 1].map(|index| small_heap(&platforms[index], 8));
    let mut marks = other.marks().expect("the platform has room");
    // SAFETY: there are no objects.
    unsafe { one.sweep_unmarked(&mut marks) };
}

quickcheck! {
    fn a_sweep_is_as_many_frees(sizes: Vec<u16>, marks: Vec<bool>, mesh: bool) -> bool {
        let [swept, freed] = [true, false].map(|by_sweep| {
            let platform = SimulatedPlatform::new(PAGE);
            let heap = heap_of(&platform, 4 << 20);
            let allocated = sizes.iter().map(|&size| heap.alloc(layout(usize::from(size) % 9000)));
            let objects: Vec<_> = allocated.map(|object| object.expect("the arena has room")).collect();
            let is_marked = |index: usize| marks.get(index % marks.len().max(1)).copied().unwrap_or(false);
            if mesh {
                mesh_all(&heap);
            }
            if by_sweep {
                sweep(&heap, |object| is_marked(objects.iter().position(|&start| start == object.start).expect("known")));
            } else {
                let dead = objects.iter().enumerate().filter(|&(index, _)| !is_marked(index));
                dead.for_each(|(_, &object)| free(&heap, object));
            }
            heap.check_invariants();
            let base = heap.page_address(meshheap::PageIndex::new(0)).addr().get();
            let left: Vec<_> = heap.objects().map(|object| object.start.addr().get() - base).collect();
            (left, heap.statistics().taken_bytes, heap.statistics().span_bytes)
        });
        swept == freed
    }
}
