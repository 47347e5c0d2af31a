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
