//! Large objects in private memory move without a copy.

use core::alloc::Layout;

use meshheap::Heap;
use meshheap_linux::{PrivatePlatform, memory};

const MIB: usize = 1 << 20;

#[test]
fn a_growing_object_keeps_its_bytes_and_takes_no_second_copy() {
    let heap = Heap::new(PrivatePlatform::new()).expect("there is room");
    let layout = |mib: usize| Layout::from_size_align(mib * MIB, 16).expect("valid");
    let mut object = heap.alloc(layout(8)).expect("there is room");
    // SAFETY: the object is ours and holds so many bytes.
    unsafe { object.write_bytes(5, 8 * MIB) };
    let mut behind = Vec::new();
    for mib in (8..40).step_by(8) {
        // What lies behind keeps it from growing in place.
        behind.push(heap.alloc(layout(1)).expect("there is room"));
        let before = memory::pss_bytes().expect("the system tells");
        // SAFETY: the object is live, of this layout, and replaced by what is returned.
        object = unsafe { heap.realloc(object, layout(mib), (mib + 8) * MIB) }.expect("there is room");
        let after = memory::pss_bytes().expect("the system tells");
        assert!(after < before + 4 * MIB, "at {mib} MiB a second copy was made: {before} {after}");
        // SAFETY: the object is ours and holds so many bytes.
        let bytes = unsafe { core::slice::from_raw_parts_mut(object.as_ptr(), (mib + 8) * MIB) };
        assert!(bytes[..mib * MIB].iter().all(|&byte| byte == 5));
        bytes[mib * MIB..].fill(5);
    }
    // What moved away left pages that read zero and serve again.
    let zeros = heap.alloc_zeroed(layout(8)).expect("there is room");
    // SAFETY: the object is ours and holds so many bytes.
    let bytes = unsafe { core::slice::from_raw_parts(zeros.as_ptr(), 8 * MIB) };
    assert!(bytes.iter().all(|&byte| byte == 0));
}
