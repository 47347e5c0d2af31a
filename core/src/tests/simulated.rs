//! Tests of the simulated platform: what each verb does, and one test for each refused transition.

use core::ptr::NonNull;

use super::{PageState, SimulatedPlatform};
use crate::base::error::{Operation, PlatformError};
use crate::base::units::{PageIndex, PageRun};
use crate::platform::{Access, Platform, Purpose, Touch};

const PAGE: usize = 4096;
const PAGES: usize = 16;

/// An arena of 16 pages, released at the end.
struct Arena {
    platform: SimulatedPlatform,
    base: NonNull<u8>,
}

impl Arena {
    fn new() -> Self {
        Self::on(SimulatedPlatform::new(PAGE))
    }

    fn on(platform: SimulatedPlatform) -> Self {
        let base = platform.reserve(Purpose::Arena, PAGES * PAGE, 2 * PAGE).expect("an arena");
        Self { platform, base }
    }

    fn address(&self, page: usize) -> NonNull<u8> {
        assert!(page < PAGES);
        // SAFETY: the page lies in the arena.
        unsafe { self.base.add(page * PAGE) }
    }

    fn fill(&self, page: usize, content: u8) {
        // SAFETY: a page of the arena, which nothing else uses.
        unsafe { self.address(page).write_bytes(content, PAGE) };
    }

    fn holds(&self, page: usize, content: u8) -> bool {
        let shown = NonNull::slice_from_raw_parts(self.address(page), PAGE);
        // SAFETY: as in `fill`.
        unsafe { shown.as_ref() }.iter().all(|&byte| byte == content)
    }

    fn alias(&self, pages: PageRun, target: u32) -> Result<(), PlatformError> {
        // SAFETY: there are no objects.
        unsafe { self.platform.alias(pages, PageIndex::new(target)) }
    }

    fn unalias(&self, pages: PageRun) -> Result<(), PlatformError> {
        // SAFETY: there are no objects.
        unsafe { self.platform.unalias(pages) }
    }

    fn purge(&self, pages: PageRun) -> Result<(), PlatformError> {
        // SAFETY: there are no objects.
        unsafe { self.platform.purge(pages) }
    }

    fn commit(&self, pages: PageRun) -> Result<(), PlatformError> {
        // SAFETY: the tests commit own pages, or expect to be refused.
        unsafe { self.platform.commit(pages, Touch::Dense) }
    }

    fn protect(&self, pages: PageRun, access: Access) -> Result<(), PlatformError> {
        // SAFETY: nothing writes to the pages.
        unsafe { self.platform.protect(pages, access) }
    }

    fn state(&self, page: u32) -> PageState {
        self.platform.state(PageIndex::new(page))
    }

    fn pages_with_data(&self) -> usize {
        // SAFETY: the tests have one thread.
        unsafe { self.platform.pages_with_data() }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: this is the reservation from `on`, and the tests are done with it.
        unsafe { self.platform.release(Purpose::Arena, self.base, PAGES * PAGE) };
    }
}

fn run(start: u32, count: u32) -> PageRun {
    PageRun::new(PageIndex::new(start), count)
}

const fn alias_of(page: u32) -> PageState {
    PageState::Alias(PageIndex::new(page))
}

const fn error(operation: Operation, code: i32) -> Result<(), PlatformError> {
    Err(PlatformError { operation, code })
}

#[test]
fn reserved_memory_is_zero_and_aligned_and_counted() {
    let arena = Arena::new();
    let metadata = arena.platform.reserve(Purpose::Metadata, PAGE, 1 << 20).expect("metadata");
    assert!(arena.base.addr().get().is_multiple_of(2 * PAGE) && metadata.addr().get().is_multiple_of(1 << 20));
    assert!((0..PAGES).all(|page| arena.holds(page, 0)));
    assert_eq!(arena.platform.reserved_bytes(), (PAGES + 1) * PAGE);
    // SAFETY: this is the reservation from above.
    unsafe { arena.platform.release(Purpose::Metadata, metadata, PAGE) };
    assert_eq!(arena.platform.reserved_bytes(), PAGES * PAGE);
}

#[test]
fn an_alias_reads_the_targets_bytes() {
    let arena = Arena::new();
    arena.fill(3, 3);
    arena.fill(4, 4);
    arena.fill(8, 8);
    arena.alias(run(8, 2), 3).expect("no limit");
    assert!(arena.holds(8, 3) && arena.holds(9, 4) && arena.holds(3, 3));
    assert_eq!((arena.state(8), arena.state(9), arena.state(10)), (alias_of(3), alias_of(4), PageState::Own));
    arena.fill(0, 1);
    arena.alias(run(8, 1), 0).expect("an alias may change its target");
    assert!(arena.holds(8, 1) && arena.holds(9, 4));
}

#[test]
fn a_page_shown_again_is_poisoned_unless_it_was_purged() {
    let arena = Arena::new();
    arena.fill(0, 1);
    // A purge before the alias says nothing about what is written afterwards.
    arena.purge(run(8, 2)).expect("no failure was asked for");
    arena.fill(8, 8);
    arena.alias(run(8, 2), 0).expect("no limit");
    arena.purge(run(9, 1)).expect("only its own address would show it");
    assert!(arena.holds(9, 0), "page 9 shows page 1");
    arena.unalias(run(8, 2)).expect("no limit");
    assert!(arena.holds(8, SimulatedPlatform::POISON) && arena.holds(9, 0));
    assert_eq!(arena.state(8), PageState::Own);
}

#[test]
fn a_purged_page_reads_zero() {
    let arena = Arena::new();
    arena.fill(5, 7);
    arena.purge(run(5, 1)).expect("no failure was asked for");
    assert!(arena.holds(5, 0));
}

#[test]
fn a_purge_reaches_a_backing_page_wherever_it_is_shown() {
    let arena = Arena::new();
    (0..4).for_each(|page| arena.fill(page, 9));
    arena.alias(run(8, 1), 1).expect("no limit");
    arena.alias(run(1, 1), 2).expect("no limit");
    arena.purge(run(1, 1)).expect("no failure was asked for");
    assert!(arena.holds(8, 0) && arena.holds(1, 9), "page 8 shows page 1, which shows page 2");
    assert_eq!(arena.pages_with_data(), 4, "pages 0, 2 and 3, and what page 8 may hide");
}

#[test]
fn committed_pages_are_those_not_purged_since() {
    let arena = Arena::new();
    arena.commit(run(2, 4)).expect("no failure was asked for");
    arena.commit(run(5, 2)).expect("twice is no mistake");
    arena.purge(run(0, 3)).expect("no failure was asked for");
    assert_eq!(arena.platform.committed_pages(), 4);
}

#[test]
fn pages_with_data_fall_by_meshing() {
    let arena = Arena::new();
    (0..4).for_each(|page| arena.fill(page, 9));
    assert_eq!(arena.pages_with_data(), 4);
    arena.alias(run(2, 2), 0).expect("no limit");
    assert_eq!(arena.pages_with_data(), 4);
    arena.purge(run(2, 2)).expect("only their own addresses would show them");
    assert_eq!(arena.pages_with_data(), 2);
}

#[test]
fn mappings_are_neighbours_that_do_not_continue_each_other() {
    let arena = Arena::new();
    let after = |done: Result<(), PlatformError>| done.map(|()| arena.platform.mappings());
    assert_eq!(after(arena.alias(run(8, 4), 0)), Ok(2));
    assert_eq!(after(arena.alias(run(12, 1), 4)), Ok(2), "it continues the run");
    assert_eq!(after(arena.alias(run(13, 1), 2)), Ok(3));
    assert_eq!(after(arena.alias(run(15, 1), 2)), Ok(4), "the last page has one neighbour");
    assert_eq!(after(arena.protect(run(10, 1), Access::ReadOnly)), Ok(6));
    assert_eq!(arena.platform.access(PageIndex::new(10)), Access::ReadOnly);
    assert_eq!(after(arena.unalias(run(8, 6))), Ok(1));
    assert_eq!(arena.platform.access(PageIndex::new(10)), Access::ReadWrite, "a new mapping is writable");
    assert_eq!(after(arena.unalias(run(15, 1))), Ok(0));
}

#[test]
fn at_the_mapping_limit_nothing_is_mapped_and_nothing_changes() {
    let arena = Arena::on(SimulatedPlatform::new(PAGE).with_mapping_limit(4));
    assert_eq!(arena.platform.facts().mapping_limit, Some(4));
    arena.fill(3, 3);
    arena.alias(run(8, 1), 0).expect("two mappings");
    arena.alias(run(9, 1), 3).expect("three mappings");
    let limit = SimulatedPlatform::MAPPING_LIMIT;
    assert_eq!(arena.alias(run(12, 1), 0), error(Operation::Alias, limit), "it would make five");
    assert_eq!((arena.state(12), arena.platform.mappings()), (PageState::Own, 3));
    arena.alias(run(10, 1), 0).expect("four mappings");
    assert_eq!(arena.unalias(run(8, 3)), error(Operation::Unalias, limit), "though it would merge");
    assert_eq!(arena.protect(run(9, 1), Access::ReadOnly), error(Operation::Protect, limit));
    assert!(arena.holds(9, 3) && arena.state(9) == alias_of(3));
    arena.purge(run(9, 1)).expect("a purge needs no mapping");
}

#[test]
fn a_failed_call_changes_nothing_and_is_counted() {
    let arena = Arena::new();
    arena.fill(1, 1);
    arena.fill(8, 8);
    arena.platform.fail_nth(Operation::Alias, 2);
    arena.alias(run(8, 1), 0).expect("the first call");
    let failed = error(Operation::Alias, SimulatedPlatform::INJECTED);
    assert_eq!(arena.alias(run(8, 1), 1), failed);
    assert_eq!((arena.state(8), arena.holds(8, 0)), (alias_of(0), true));
    arena.alias(run(8, 1), 1).expect("it failed once");
    assert_eq!(arena.platform.calls(Operation::Alias), 3);
}

#[test]
fn all_calls_of_an_operation_fail_until_healed() {
    let arena = Arena::new();
    arena.fill(1, 1);
    arena.platform.fail_all(Operation::Purge);
    for _ in 0..3 {
        assert_eq!(arena.purge(run(1, 1)), error(Operation::Purge, SimulatedPlatform::INJECTED));
    }
    assert!(arena.holds(1, 1));
    arena.platform.heal();
    arena.purge(run(1, 1)).expect("healed");
    assert_eq!(arena.platform.calls(Operation::Purge), 4);
}

#[test]
fn a_reservation_can_fail() {
    let platform = SimulatedPlatform::new(PAGE);
    platform.fail_nth(Operation::Reserve, 1);
    let refused = |code| Err(PlatformError { operation: Operation::Reserve, code });
    assert_eq!(platform.reserve(Purpose::Arena, PAGE, PAGE), refused(SimulatedPlatform::INJECTED));
    assert_eq!(platform.reserve(Purpose::Arena, 64 << 30, PAGE), refused(SimulatedPlatform::OUT_OF_MEMORY));
    assert_eq!(platform.reserved_bytes(), 0);
}

#[test]
fn the_clock_advances_by_its_step_and_entropy_is_the_seed() {
    let platform = SimulatedPlatform::new(PAGE).with_seed(7);
    assert_eq!((platform.now_ns(), platform.now_ns()), (0, 0));
    platform.set_clock_step(10);
    assert_eq!((platform.now_ns(), platform.now_ns()), (10, 20));
    assert_eq!(platform.entropy(), 7);
}

#[test]
fn facts_say_what_was_left_out() {
    let all = SimulatedPlatform::new(PAGE).facts();
    assert!(all.lazy_commit && all.can_purge && all.can_alias && all.can_protect && all.mapping_limit.is_none());
    assert!(!all.write_barrier);
    // SAFETY: there is no heap.
    assert!(unsafe { SimulatedPlatform::new(PAGE).with_write_barrier() }.facts().write_barrier);
    let none =
        SimulatedPlatform::new(PAGE).without_lazy_commit().without_purge().without_alias().without_protect().facts();
    assert!(!none.lazy_commit && !none.can_purge && !none.can_alias && !none.can_protect);
}

#[path = "simulated_refusals.rs"]
mod refusals;
