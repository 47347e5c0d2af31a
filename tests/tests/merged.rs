//! Heaps that became one: objects stay where they are, and go back one by one.

use core::alloc::Layout;
use core::ptr::NonNull;
use std::thread;

use meshheap::{Heap, MergedHeap, MisuseKind, Options, SimulatedPlatform};
use meshheap_linux::LinuxPlatform;
use meshheap_tests::scene::{LAYOUT, PAGE, whole_pages};
use meshheap_tests::sparse::{assert_untouched, mesh_all, sparse_objects};

fn heap_on(platform: &SimulatedPlatform) -> Heap<&SimulatedPlatform> {
    let options = Options { arena_bytes: 4 << 20, seed: Some(1), ..Options::default() };
    Heap::with_options(platform, options).expect("the platform has room")
}

#[test]
fn objects_of_a_merged_heap_live_on_and_its_memory_goes_with_the_last() {
    let platforms = [(); 3].map(|()| SimulatedPlatform::new(PAGE));
    let mut all = MergedHeap::new(heap_on(&platforms[0]));
    let mut kept = Vec::new();
    for platform in &platforms[1..] {
        let tenant = heap_on(platform);
        let mut objects = sparse_objects(&tenant, LAYOUT, 10_000, 8);
        mesh_all(&tenant);
        let large = tenant.alloc(whole_pages(20)).expect("room");
        // SAFETY: the object is ours and holds a word.
        unsafe { large.cast::<usize>().write(large.addr().get()) };
        assert!(tenant.statistics().aliased_bytes > 0);
        all.merge(tenant);
        assert_untouched(&objects);
        objects.push(large);
        kept.push(objects);
    }
    assert_eq!(all.drop_empty(), 0);
    assert_untouched(&kept.concat());
    let mut local = all.local();
    for (number, object) in kept.concat().into_iter().enumerate() {
        let layout = if kept.iter().any(|objects| objects.last() == Some(&object)) { whole_pages(20) } else { LAYOUT };
        assert!(all.owner(object).is_some_and(|owner| !core::ptr::eq(owner, all.heap())));
        match number % 3 {
            // SAFETY: the object is live and is not used afterwards.
            0 => unsafe { local.dealloc(object, layout) },
            // SAFETY: as above.
            1 => unsafe { local.free(object) }.expect("it is live"),
            // SAFETY: as above.
            _ => unsafe { all.free(object) }.expect("it is live"),
        }
    }
    drop(local);
    for heap in all.merged() {
        heap.check_invariants();
        assert_eq!((heap.statistics().misuses, heap.statistics().taken_bytes), (0, 0));
    }
    assert_eq!(all.heap().statistics().misuses, 0);
    assert_eq!(all.drop_empty(), 2);
    assert!(all.merged().is_empty());
    assert_eq!(platforms.each_ref().map(SimulatedPlatform::reserved_bytes)[1..], [0, 0], "I9");
    assert!(platforms[0].reserved_bytes() > 0);
}

#[test]
fn an_object_that_grows_moves_to_the_heap_that_allocates() {
    let platforms = [(); 2].map(|()| SimulatedPlatform::new(PAGE));
    let [first, second] = platforms.each_ref().map(heap_on);
    let object = second.alloc(LAYOUT).expect("room");
    // SAFETY: the object is ours and holds its layout.
    unsafe { object.write_bytes(7, LAYOUT.size()) };
    let mut all = MergedHeap::new(first);
    all.merge(second);
    let mut local = all.local();
    // SAFETY: the object is live; a failed call leaves it as it was.
    unsafe { local.realloc(object, LAYOUT, 1 << 30) }.expect_err("beyond the arena");
    // SAFETY: the object is live and has this layout.
    let moved = unsafe { local.realloc(object, LAYOUT, 500) }.expect("room");
    assert!(all.owner(moved).is_some_and(|owner| core::ptr::eq(owner, all.heap())));
    // SAFETY: the object holds its old bytes, all of them written.
    assert_eq!(unsafe { NonNull::slice_from_raw_parts(moved, LAYOUT.size()).as_ref() }, [7; 64]);
    drop(local);
    assert_eq!(all.drop_empty(), 1, "the old one was freed");
}

#[test]
fn a_pointer_into_none_of_the_heaps_is_not_ours() {
    let platforms = [(); 3].map(|()| SimulatedPlatform::new(PAGE));
    let [first, second, stranger] = platforms.each_ref().map(heap_on);
    let foreign = stranger.alloc(LAYOUT).expect("room");
    let object = second.alloc(LAYOUT).expect("room");
    let all = MergedHeap::new(first);
    all.merge(second);
    assert!(all.owner(foreign).is_none());
    // SAFETY: it is an object of neither heap, which is an error.
    assert_eq!(unsafe { all.free(foreign) }.map_err(|misuse| misuse.kind), Err(MisuseKind::NotOurs));
    // SAFETY: the object is live and is not used afterwards.
    unsafe { all.free(object) }.expect("live");
    // SAFETY: a second free, which is an error.
    let again = unsafe { all.free(object) }.map_err(|misuse| misuse.kind);
    assert!(matches!(again, Err(MisuseKind::DoubleFree | MisuseKind::NotOurs)), "{again:?}");
    assert_eq!(stranger.usable_size(foreign), Ok(LAYOUT.size()), "it is still there");
}

#[test]
fn heaps_are_merged_while_threads_free_their_objects() {
    const HEAPS: usize = 8;
    let new_heap = || {
        let options = Options { arena_bytes: 64 << 20, ..Options::default() };
        Heap::with_options(LinuxPlatform::new(), options).expect("Linux has room")
    };
    let mut all = MergedHeap::new(new_heap());
    let (send, receive) = std::sync::mpsc::channel::<usize>();
    thread::scope(|scope| {
        let all = &all;
        scope.spawn(move || {
            let mut local = all.local();
            for address in receive {
                let object = NonNull::new(core::ptr::with_exposed_provenance_mut::<u8>(address)).expect("not null");
                // SAFETY: the object is live and is not used afterwards.
                unsafe { local.dealloc(object, LAYOUT) };
                let other = local.alloc(Layout::new::<[u64; 9]>()).expect("room");
                // SAFETY: as above.
                unsafe { local.dealloc(other, Layout::new::<[u64; 9]>()) };
            }
        });
        for _ in 0..HEAPS {
            let tenant = new_heap();
            let objects = sparse_objects(&tenant, LAYOUT, 20_000, 10);
            all.merge(tenant);
            for object in objects {
                send.send(object.expose_provenance().get()).expect("the thread waits");
            }
        }
        drop(send);
    });
    assert_eq!(all.merged().len(), HEAPS);
    assert_eq!(all.drop_empty(), HEAPS, "every object was freed in its own heap");
    assert_eq!(all.heap().statistics().misuses, 0);
}
