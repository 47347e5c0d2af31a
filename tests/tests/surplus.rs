//! Free pages go back by themselves once nobody has needed them for a while: long runs soon, short ones, which are dear to give
//! back and may yet become long, later.

use core::ptr::NonNull;

use meshheap::{Failing, Heap, Options, Platform, SimulatedPlatform};
use meshheap_tests::scene::{PAGE, free, whole_pages};

/// Between two looks at the clock: more than what long runs wait for, and less than short ones do.
const STEP_NS: u64 = 150_000_000;
/// More than the looks that short runs wait for.
const PATIENCE: usize = 20;
/// More pages than a heap keeps without need.
const DIRTY_PAGES: usize = 3000;

/// Leaves [`DIRTY_PAGES`] free pages in runs of `pages` between live objects, and gives objects that can be freed for a look at
/// the clock without making a longer run.
fn fragment<P: Platform>(heap: &Heap<P>, pages: usize) -> Vec<NonNull<u8>> {
    let alloc = || heap.alloc(whole_pages(pages)).expect("the arena has room");
    let every_other = |count: usize| -> Vec<_> { (0..count).map(|_| (alloc(), alloc()).0).collect() };
    let (dying, looks) = (every_other(DIRTY_PAGES / pages), every_other(PATIENCE));
    dying.into_iter().for_each(|object| free(heap, object));
    looks
}

/// Dirty bytes after the fragmentation, and after each further look at the clock.
fn dirty_bytes_over_time(pages: usize) -> (usize, Vec<usize>) {
    let platform = Failing::new(SimulatedPlatform::new(PAGE));
    let options = Options { arena_bytes: 16 * DIRTY_PAGES * PAGE, ..Options::default() };
    let heap = Heap::with_options(&platform, options).expect("memory");
    platform.set_clock_step(1);
    let looks = fragment(&heap, pages);
    let at_first = heap.statistics().dirty_bytes;
    platform.set_clock_step(STEP_NS);
    let later = looks.into_iter().map(|object| {
        free(&heap, object);
        heap.statistics().dirty_bytes
    });
    (at_first, later.collect())
}

#[test]
fn long_runs_go_back_soon() {
    let (at_first, later) = dirty_bytes_over_time(40);
    assert!(at_first >= DIRTY_PAGES * PAGE, "nothing goes back while the clock stands");
    assert!(later[1] < at_first, "{at_first} {later:?}");
}

#[test]
fn short_runs_go_back_later() {
    let (at_first, later) = dirty_bytes_over_time(9);
    let gone = later.iter().position(|&bytes| bytes < at_first).expect("they do go back");
    assert!(gone as u64 * STEP_NS >= 900_000_000, "after {gone} looks");
}
