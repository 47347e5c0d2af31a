//! Huge pages when the embedder asks: for full private chunks, and for no others.

use core::alloc::Layout;

use meshheap::{Heap, Options, PageIndex, PageRun, Platform, Purpose, Touch};
use meshheap_linux::{Collapse, HybridPlatform};
use meshheap_tests::sparse::{assert_untouched, mesh_all, sparse_objects};

use crate::backing_limits::refuse;
use crate::process::alone;

const MIB: usize = 1 << 20;

/// A heap whose memory comes in small pages.
fn heap() -> Heap<HybridPlatform> {
    let platform = HybridPlatform::new().with_small_pages_up_to(1 << 30);
    let options = Options { arena_bytes: 1 << 30, seed: Some(5), ..Options::default() };
    Heap::with_options(platform, options).expect("Linux has room")
}

/// Memory of this process in huge pages of its own.
fn huge_bytes() -> usize {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").expect("Linux has this file");
    let line = rollup.lines().find_map(|line| line.strip_prefix("AnonHugePages:")).expect("Linux counts them");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
}

/// Calls until the end of the heap is reached.
fn collapse_all(heap: &Heap<HybridPlatform>) -> Collapse {
    let mut whole = Collapse::default();
    while !whole.is_done && whole.refused.is_none() {
        let some = heap.platform().collapse(4);
        assert!(some.huge + some.passed_over <= 4, "no more than was asked for");
        whole = Collapse { huge: whole.huge + some.huge, passed_over: whole.passed_over + some.passed_over, ..some };
    }
    whole
}

const LAYOUT: Layout = Layout::new::<[u64; 16]>();

#[test]
fn full_chunks_become_huge_and_meshed_ones_stay_small() {
    alone(|| {
        let heap = heap();
        let dense = sparse_objects(&heap, LAYOUT, 32 * MIB / 128, 1);
        let before = (huge_bytes(), meshheap_linux::memory::pss_bytes());
        let collapse = collapse_all(&heap);
        if collapse.refused.is_some() {
            // No such call, or no huge page: nothing changed.
            return assert_untouched(&dense);
        }
        assert!(collapse.huge >= 12, "{collapse:?}");
        assert!(huge_bytes() >= before.0 + collapse.huge * 2 * MIB, "{collapse:?}");
        let grown = meshheap_linux::memory::pss_bytes().zip(before.1).map_or(0, |(now, then)| now.saturating_sub(then));
        assert!(grown < MIB, "full chunks take no more memory: {grown}");
        assert_untouched(&dense);
        // What is meshed afterwards loses its huge pages, and gets none again.
        for (index, &object) in dense.iter().enumerate() {
            if index % 10 != 0 {
                // SAFETY: the object is live and is not used afterwards.
                unsafe { heap.dealloc(object, LAYOUT) };
            }
        }
        let kept: Vec<_> = dense.into_iter().step_by(10).collect();
        mesh_all(&heap);
        assert!(heap.statistics().aliased_bytes > 0, "pages were meshed");
        let held = (heap.statistics().held_bytes, meshheap_linux::memory::pss_bytes().expect("/proc can be read"));
        let again = collapse_all(&heap);
        assert_eq!(again.refused, None, "none is asked for that must stay small");
        let pss = meshheap_linux::memory::pss_bytes().expect("/proc can be read");
        assert!(pss < held.1 + MIB, "{again:?} brought {} bytes back", pss - held.1);
        assert_untouched(&kept);
        heap.check_invariants();
    });
}

#[test]
fn chunks_with_holes_are_passed_over() {
    alone(|| {
        let heap = heap();
        let sparse = Layout::from_size_align(64 * MIB, 8).expect("a layout");
        let object = heap.alloc_zeroed(sparse).expect("the arena has room");
        for page in (0..64 * MIB).step_by(16 << 10) {
            // SAFETY: within the object.
            let byte = unsafe { object.cast::<u8>().add(page) };
            // SAFETY: as above.
            unsafe { byte.write(1) };
        }
        let before = meshheap_linux::memory::pss_bytes().expect("/proc can be read");
        let collapse = collapse_all(&heap);
        assert!(collapse.refused.is_none() && collapse.passed_over >= 31, "{collapse:?}");
        let grown = meshheap_linux::memory::pss_bytes().expect("/proc can be read").saturating_sub(before);
        assert!(grown < 4 * MIB, "{grown} bytes that nobody touched");
    });
}

#[test]
fn what_the_system_refuses_is_a_value() {
    alone(|| {
        let heap = heap();
        let dense = sparse_objects(&heap, LAYOUT, 32 * MIB / 128, 1);
        refuse(&[libc::SYS_madvise]);
        let refused = collapse_all(&heap).refused.expect("madvise is refused");
        assert_eq!((refused.by, refused.code), ("madvise(MADV_COLLAPSE)", libc::EPERM));
        assert_untouched(&dense);
        heap.check_invariants();
    });
}

#[test]
fn a_chunk_that_once_gave_memory_back_stays_small() {
    alone(|| {
        let heap = heap();
        let dense = sparse_objects(&heap, LAYOUT, 32 * MIB / 128, 1);
        // 64 KiB of each 2 MiB go, and come again.
        let is_in_window = |object: &core::ptr::NonNull<u8>| object.addr().get() % (2 * MIB) < 64 << 10;
        let (gone, kept): (Vec<_>, Vec<_>) = dense.into_iter().partition(is_in_window);
        for &object in &gone {
            // SAFETY: the object is live and is not used afterwards.
            unsafe { heap.dealloc(object, LAYOUT) };
        }
        heap.purge().expect("Linux gives pages back");
        let again = sparse_objects(&heap, LAYOUT, gone.len(), 1);
        let collapse = collapse_all(&heap);
        assert_eq!(collapse.refused, None, "none is asked for that must stay small");
        assert!(collapse.passed_over >= 14, "{collapse:?}");
        assert_untouched(&kept);
        assert_untouched(&again);
    });
}

#[test]
fn shared_chunks_are_passed_over() {
    alone(|| {
        let platform = HybridPlatform::new();
        let (page, bytes) = (platform.facts().page_size, 4 * MIB);
        let base = platform.reserve(Purpose::Arena, bytes, 2 * MIB).expect("an arena");
        let pages =
            |from: usize, bytes: usize| PageRun::new(PageIndex::new((from / page) as u32), (bytes / page) as u32);
        // SAFETY: the pages lie in the arena and are fresh.
        unsafe { platform.commit(pages(0, bytes), Touch::Dense) }.expect("memory");
        // SAFETY: they were committed, and nobody else uses them.
        unsafe { base.write_bytes(1, bytes) };
        // SAFETY: this thread, which alone uses them, does not write meanwhile.
        unsafe { platform.share(pages(0, 2 * MIB)) }.expect("a file in memory");
        let collapse = platform.collapse(2);
        assert!(
            collapse.passed_over == 1 && collapse.huge + usize::from(collapse.refused.is_some()) == 1,
            "{collapse:?}"
        );
        // SAFETY: the reservation from above, not used any more.
        unsafe { platform.release(Purpose::Arena, base, bytes) };
    });
}
