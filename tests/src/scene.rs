//! Small scenes on pages of 4 KiB: spans of 64-byte objects in which just the wanted slots are taken.

use core::alloc::Layout;
use core::ptr::NonNull;

use meshheap::{Heap, Options, Platform, SimulatedPlatform};

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// The objects.
pub const LAYOUT: Layout = Layout::new::<[u64; 8]>();

/// Slots of a span of them, which has one page.
pub const SLOTS: usize = PAGE / LAYOUT.size();

/// The layout of `pages` whole pages: of a large object, from 9 on.
///
/// # Panics
/// There are no such layouts.
pub fn whole_pages(pages: usize) -> Layout {
    Layout::from_size_align(pages * PAGE, 16).expect("valid")
}

/// A heap with an arena of `pages` pages on `platform`, with a fixed seed.
///
/// # Panics
/// The platform has no room.
pub fn small_heap(platform: &SimulatedPlatform, pages: usize) -> Heap<&SimulatedPlatform> {
    let options = Options { arena_bytes: pages * PAGE, seed: Some(1), ..Options::default() };
    Heap::with_options(platform, options).expect("the platform has room")
}

/// One new span for each element of `kept`, in which just the slots that it names are taken. Each object holds its own
/// address. No span of the class may be partial before.
///
/// # Panics
/// One was, or the arena has no room.
pub fn spans<P: Platform>(heap: &Heap<P>, kept: &[&[usize]]) -> Vec<Vec<NonNull<u8>>> {
    let objects: Vec<_> = (0..kept.len() * SLOTS).map(|_| heap.alloc(LAYOUT).expect("the arena has room")).collect();
    let keep = |(span, kept): (&[NonNull<u8>], &&[usize])| {
        for (slot, &object) in span.iter().enumerate() {
            assert_eq!(object.addr().get(), span[0].addr().get() + slot * LAYOUT.size(), "a new span serves in order");
            if kept.contains(&slot) {
                // SAFETY: the object is ours and holds a word.
                unsafe { object.cast::<usize>().write(object.addr().get()) };
            } else {
                free(heap, object);
            }
        }
        kept.iter().map(|&slot| span[slot]).collect()
    };
    objects.chunks(SLOTS).zip(kept).map(keep).collect()
}

/// Frees a live object, which is not used afterwards.
///
/// # Panics
/// It is not live.
pub fn free<P: Platform>(heap: &Heap<P>, object: NonNull<u8>) {
    // SAFETY: by the caller's word.
    unsafe { heap.free(object) }.expect("a live object can be freed");
}
