//! What the platform takes from the system, and that all of it comes back.

use meshheap::{Access, Platform, Purpose};
use meshheap_linux::LinuxPlatform;
use meshheap_linux::memory::{mapping_count, pss_bytes};

use crate::arena::{Arena, run};
use crate::process::alone;

const PAGES: usize = 4096;

/// Pss in pages of the arena. The test program's own code is shared with its other processes, so that some pages of the figure
/// may change without the test's doing.
fn pss_pages(arena: &Arena) -> usize {
    pss_bytes().expect("Linux has smaps_rollup") / arena.page
}

fn about(pages: usize, expected: usize) -> bool {
    pages.abs_diff(expected) < PAGES / 10
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("Linux has this folder").count()
}

#[test]
fn memory_is_taken_at_the_first_touch_and_given_back_by_purge() {
    alone(|| {
        for arena in Arena::each(PAGES) {
            let before = pss_pages(&arena);
            arena.fill(0..PAGES, 1);
            assert!(about(pss_pages(&arena) - before, PAGES));
            arena.purge(run(0, PAGES as u32 / 2)).expect("no object is there");
            assert!(about(pss_pages(&arena) - before, PAGES / 2));
        }
    });
}

#[test]
fn meshed_pages_take_memory_once_though_both_addresses_are_touched() {
    alone(|| {
        for arena in Arena::each(PAGES) {
            let before = pss_pages(&arena);
            arena.fill(0..PAGES, 1);
            let half = PAGES as u32 / 2;
            // One by one, backwards, so that no two aliases share a mapping.
            for page in 0..half {
                arena.alias(run(half + page, 1), half - 1 - page).expect("below the limit of mappings");
            }
            arena.purge(run(half, half)).expect("nobody shows them");
            assert!((0..PAGES).all(|page| arena.holds(page, 1)), "reads every page at its address");
            assert!(about(pss_pages(&arena) - before, PAGES / 2));
        }
    });
}

#[test]
fn metadata_takes_small_pages_only() {
    alone(|| {
        let platform = LinuxPlatform::new();
        let before = pss_bytes().expect("Linux has smaps_rollup");
        let base = platform.reserve(Purpose::Metadata, 16 << 20, 2 << 20).expect("address space");
        for chunk in 0..8 {
            // SAFETY: the middle of each of eight 2 MiB of the reservation.
            let middle = unsafe { base.add(chunk * (2 << 20) + (1 << 20)) };
            // SAFETY: nothing else uses the reservation.
            unsafe { middle.write(1) };
        }
        let taken = pss_bytes().expect("Linux has smaps_rollup").saturating_sub(before);
        assert!(taken < 1 << 20, "eight touched pages took {taken} bytes");
        // SAFETY: the reservation from above, not used any more.
        unsafe { platform.release(Purpose::Metadata, base, 16 << 20) };
    });
}

#[test]
fn mappings_are_as_few_as_can_be_and_nothing_is_left_after_release() {
    alone(|| {
        let count = || mapping_count().expect("Linux has this file");
        let (mappings, files) = (count(), open_files());
        let platform = LinuxPlatform::new();
        assert_eq!((count(), open_files()), (mappings, files), "a platform alone takes nothing");
        let metadata = platform.reserve(Purpose::Metadata, 1 << 20, 2 << 20).expect("address space");
        assert_eq!((count(), open_files()), (mappings + 1, files));
        for arena in Arena::each(64) {
            assert_eq!((count(), open_files()), (mappings + 3, files), "two views, no descriptor");
            arena.alias(run(8, 4), 0).expect("below the limit of mappings");
            assert_eq!(count(), mappings + 5, "a run takes two mappings whatever its length");
            arena.alias(run(12, 1), 4).expect("below the limit of mappings");
            assert_eq!(count(), mappings + 5, "it continues the run");
            arena.unalias(run(8, 5)).expect("below the limit of mappings");
            assert_eq!(count(), mappings + 3, "the arena is one mapping again");
            arena.protect(run(8, 1), Access::ReadOnly).expect("below the limit of mappings");
            arena.alias(run(20, 1), 0).expect("below the limit of mappings");
            arena.fill(0..8, 1);
        }
        // SAFETY: the reservation from above, not used any more.
        unsafe { platform.release(Purpose::Metadata, metadata, 1 << 20) };
        assert_eq!((count(), open_files()), (mappings, files));
    });
}

#[test]
fn a_platform_can_reserve_again_after_release() {
    let platform = LinuxPlatform::new();
    let bytes = 4 * platform.facts().page_size;
    for _ in 0..3 {
        let base = platform.reserve(Purpose::Arena, bytes, bytes).expect("an arena");
        // SAFETY: the reservation from above, not used any more.
        unsafe { platform.release(Purpose::Arena, base, bytes) };
    }
}
