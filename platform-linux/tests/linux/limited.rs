//! What is moved by its page tables where the system allows no more: nothing is lost.

use core::ptr::NonNull;

use meshheap::{Heap, Options, PageIndex, PageRun, Platform, Purpose, Touch};
use meshheap_linux::{HybridPlatform, PrivatePlatform, memory};
use meshheap_tests::sparse::{assert_untouched, mesh_all, sparse_objects};

use crate::process::{alone, ends_well, set_limit};

const LAYOUT: core::alloc::Layout = core::alloc::Layout::new::<[u64; 16]>();
const MIB: usize = 1 << 20;

/// Takes mappings until the process may have only `spare` more.
fn take_mappings(spare: usize) {
    let limit = PrivatePlatform::new();
    let limit = HybridPlatform::new().facts().mapping_limit.or(limit.facts().mapping_limit).expect("there is one");
    let page = 4096;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: new addresses.
    let start = unsafe { libc::mmap(core::ptr::null_mut(), 2 * limit * page, libc::PROT_NONE, flags, -1, 0) };
    assert_ne!(start, libc::MAP_FAILED);
    let mut made = memory::mapping_count().expect("Linux tells");
    let change = |at: usize| {
        let place = start.wrapping_byte_add(at * page);
        // SAFETY: a page from above.
        unsafe { libc::mprotect(place, page, libc::PROT_READ) == 0 }
    };
    if (limit - spare - made) % 2 == 1 {
        // The first page adds one mapping, those within two.
        assert!(change(0));
        made += 1;
    }
    for at in (3..).step_by(2).take((limit - spare - made) / 2) {
        if !change(at) {
            return;
        }
    }
}

/// Runs of pages from `start` on.
fn pages(start: usize, bytes: usize) -> PageRun {
    PageRun::new(PageIndex::new((start / 4096) as u32), (bytes / 4096) as u32)
}

/// Relocates 4 MiB that lie in seven mappings with so many to spare. Whether what was there is in the one place or the other.
fn is_whole_after_a_move(spare: usize) -> bool {
    let platform = PrivatePlatform::new();
    let base = platform.reserve(Purpose::Arena, 64 * MIB, 2 * MIB).expect("address space");
    // SAFETY: the pages are the arena's.
    unsafe { platform.commit(pages(0, 64 * MIB), Touch::Sparse) }.expect("memory");
    let place = |at: usize| base.as_ptr().wrapping_add(at);
    let (from, to) = (3 * MIB, 20 * MIB);
    for (at, bytes, advice) in [(4 * MIB, 28 * MIB, 14), (5 * MIB, MIB, 15), (5 * MIB + MIB / 2, MIB / 4, 14)] {
        // SAFETY: advice, MADV_HUGEPAGE or MADV_NOHUGEPAGE, changes no content.
        unsafe { libc::madvise(place(at).cast(), bytes, advice) };
    }
    for at in (0..4 * MIB).step_by(8) {
        // SAFETY: the arena's memory.
        unsafe { place(from + at).cast::<usize>().write(at + 1) };
    }
    // SAFETY: as above.
    unsafe { place(to).write_bytes(9, 8192) };
    take_mappings(spare);
    // SAFETY: nobody uses the pages, which do not overlap.
    let moved = unsafe { platform.relocate(pages(from, 4 * MIB), PageIndex::new((to / 4096) as u32)) };
    let (now, before) = if moved.is_ok() { (to, from) } else { (from, to) };
    // SAFETY: as above.
    let word = |at: usize| unsafe { place(at).cast::<usize>().read() };
    let is_there = (0..4 * MIB).step_by(8).all(|at| word(now + at) == at + 1);
    // What nobody needs any more can still be used, and is zero where it was moved away.
    let is_empty = moved.is_err() || (0..4 * MIB).step_by(8).all(|at| word(before + at) == 0);
    // SAFETY: as above.
    unsafe { place(before).write_bytes(1, 4 * MIB) };
    is_there && is_empty
}

#[test]
fn what_cannot_be_moved_as_a_whole_stays_as_a_whole() {
    alone(|| {
        let lost: Vec<_> = (0..14).filter(|&spare| !ends_well(|| is_whole_after_a_move(spare))).collect();
        assert!(lost.is_empty(), "lost with so many mappings to spare: {lost:?}");
        assert!(ends_well(|| is_whole_after_a_move(1000)));
    });
}

fn meshed_heap(arena_bytes: usize) -> (Heap<HybridPlatform>, Vec<NonNull<u8>>) {
    let options = Options { arena_bytes, seed: Some(4), ..Options::default() };
    let heap = Heap::with_options(HybridPlatform::new(), options).expect("Linux has room");
    let kept = sparse_objects(&heap, LAYOUT, 50_000, 10);
    mesh_all(&heap);
    assert!(heap.statistics().aliased_bytes > 0, "pages were meshed");
    (heap, kept)
}

fn address_space() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    text.split(' ').next().and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4096
}

#[test]
fn a_freeze_that_is_refused_leaves_no_hole() {
    alone(|| {
        for above in [None, Some(0), Some(64 << 20)] {
            assert!(ends_well(|| {
                let (heap, kept) = meshed_heap(256 << 20);
                // Below what there is already; at it; some way above it.
                set_limit(libc::RLIMIT_AS, above.map_or(1 << 20, |bytes| address_space() + bytes));
                let frozen = heap.fork_prepare();
                // SAFETY: this thread called `fork_prepare`.
                unsafe { heap.fork_done() };
                assert_untouched(&kept);
                heap.check_invariants();
                frozen.is_ok() == above.is_some_and(|bytes| bytes > 0)
            }));
        }
    });
}

#[test]
fn memory_that_is_locked_after_a_mesh_is_not_filled_as_far_as_addresses_go() {
    alone(|| {
        let (heap, kept) = meshed_heap(1 << 30);
        let before = memory::pss_bytes().expect("Linux tells");
        // SAFETY: takes a number only.
        if unsafe { libc::mlockall(libc::MCL_CURRENT) } != 0 {
            println!("not tested: no memory can be locked");
            return;
        }
        let locked = memory::pss_bytes().expect("Linux tells") - before;
        assert!(locked < 128 << 20, "{locked} bytes for a heap of 6 MB");
        heap.fork_prepare().expect("meshed pages become private");
        // SAFETY: this thread called `fork_prepare`.
        unsafe { heap.fork_done() };
        let frozen = memory::pss_bytes().expect("Linux tells") - before;
        assert!(frozen < 192 << 20, "{frozen} bytes after a fork");
        assert_untouched(&kept);
    });
}
