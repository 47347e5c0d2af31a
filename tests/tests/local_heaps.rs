//! A local heap keeps little, and gives all of it back.

use core::alloc::Layout;

use meshheap::SimulatedPlatform;
use meshheap_tests::scene::{PAGE, small_heap};

#[test]
fn a_local_heap_holds_at_most_64_kib_whatever_it_serves() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 4096);
    let mut local = heap.local();
    let at_first = local.held_bytes();
    for round in 0..20 {
        for size in (16..=4096).step_by(48) {
            let layout = Layout::from_size_align(size, 16).expect("valid");
            let objects: Vec<_> = (0..20 + round).map(|_| local.alloc(layout).expect("the arena has room")).collect();
            for object in objects {
                // SAFETY: the object is live and is not used afterwards.
                unsafe { local.dealloc(object, layout) };
            }
            assert!(local.held_bytes() <= 64 << 10, "{} after {size} in round {round}", local.held_bytes());
        }
    }
    assert!(local.held_bytes() > at_first);
    local.flush();
    assert_eq!(local.held_bytes(), at_first, "what was taken in was given back");
    heap.purge().expect("nothing fails");
    assert_eq!(heap.statistics().taken_bytes, 0);
    heap.check_invariants();
}

#[test]
fn a_classs_vectors_go_to_classes_that_need_them_and_come_back() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 4096);
    let mut local = heap.local();
    let layout = |size| Layout::from_size_align(size, 16).expect("valid");
    let mut live = Vec::new();
    for round in 0..2000_usize {
        let size = 16 + (round * 7919) % 4000;
        let object = local.alloc(layout(size)).expect("the arena has room");
        // SAFETY: the object is ours and holds `size` bytes.
        unsafe { object.write_bytes(round as u8, size) };
        live.push((object, size, round as u8));
        if live.len() > 500 {
            let (object, size, content) = live.swap_remove((round * 31) % 500);
            // SAFETY: the object is live and all of it was written.
            let bytes = unsafe { core::ptr::NonNull::slice_from_raw_parts(object, size).as_ref() };
            assert!(bytes.iter().all(|&byte| byte == content), "no slot was handed out twice");
            // SAFETY: the object is live and is not used afterwards.
            unsafe { local.dealloc(object, layout(size)) };
        }
    }
    for (object, size, _) in live {
        // SAFETY: the object is live and is not used afterwards.
        unsafe { local.dealloc(object, layout(size)) };
    }
    drop(local);
    heap.purge().expect("nothing fails");
    assert_eq!(heap.statistics().taken_bytes, 0, "no slot was lost");
    heap.check_invariants();
}

#[test]
fn a_cached_resize_keeps_the_bytes_or_leaves_the_object_as_it_was() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 4096);
    let mut local = heap.local();
    let layout = |size| Layout::from_size_align(size, 16).expect("valid");
    let object = local.alloc(layout(100)).expect("the arena has room");
    // SAFETY: the object is ours and this large.
    unsafe { object.write_bytes(7, 100) };
    // SAFETY: the object is live and has this layout.
    let stays = unsafe { local.realloc_cached(object, layout(100), 112) };
    assert_eq!(stays, Some(object), "its slot is as large");
    // SAFETY: as above.
    let none_at_hand = unsafe { local.realloc_cached(object, layout(112), 500) };
    assert_eq!(none_at_hand, None);
    let other = local.alloc(layout(500)).expect("the arena has room");
    // SAFETY: as above.
    let moved = unsafe { local.realloc_cached(object, layout(112), 500) }.expect("slots are at hand now");
    assert_ne!(moved, object);
    // SAFETY: so many of its bytes were written.
    let bytes = unsafe { core::slice::from_raw_parts(moved.as_ptr(), 100) };
    assert!(bytes.iter().all(|&byte| byte == 7));
    // SAFETY: as above.
    let shrunk = unsafe { local.realloc_cached(moved, layout(500), 100) };
    assert_eq!(shrunk, Some(object), "the slot that was given up is the next");
    for (object, size) in [(object, 100), (other, 500)] {
        // SAFETY: the object is live and is not used afterwards.
        unsafe { local.dealloc(object, layout(size)) };
    }
    local.flush();
    heap.purge().expect("nothing fails");
    assert_eq!(heap.statistics().taken_bytes, 0, "nothing was lost on the way");
    heap.check_invariants();
}
