//! Sparse heaps: many objects, of which a random few are kept.

use core::alloc::Layout;
use core::ptr::NonNull;

use meshheap::{Heap, MeshBudget, Platform, StepEnd};

/// Allocates `count` objects of `layout` (at least a word) and keeps a random one in `part`. Each kept object holds its own
/// address.
///
/// # Panics
/// The heap has no room.
pub fn sparse_objects<P: Platform>(heap: &Heap<P>, layout: Layout, count: usize, part: u64) -> Vec<NonNull<u8>> {
    let mut local = heap.local();
    let mut random = 0x1234_5678_9abc_def1_u64;
    let objects: Vec<_> = (0..count).map(|_| local.alloc(layout).expect("the arena has room")).collect();
    let mut kept = Vec::new();
    for object in objects {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        if random.is_multiple_of(part) {
            // SAFETY: the object is ours and holds at least a word.
            unsafe { object.cast::<usize>().write(object.addr().get()) };
            kept.push(object);
        } else {
            // SAFETY: the object is live and is not used afterwards.
            unsafe { local.dealloc(object, layout) };
        }
    }
    kept
}

/// Asserts that each object holds its own address.
///
/// # Panics
/// One does not.
pub fn assert_untouched(objects: &[NonNull<u8>]) {
    for object in objects {
        // SAFETY: the object is live and holds its address.
        assert_eq!(unsafe { object.cast::<usize>().read() }, object.addr().get(), "no object moved or changed");
    }
}

/// Meshes until a pass is done. No other thread may write to objects meanwhile.
pub fn mesh_all<P: Platform>(heap: &Heap<P>) {
    // SAFETY: by the caller's word.
    while unsafe { heap.mesh_at_safepoint(MeshBudget::UNLIMITED) }.end == StepEnd::Budget {}
}
