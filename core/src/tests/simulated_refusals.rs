//! One test for each transition that the simulated platform refuses: a wrong call, and the rule that it must name.

use super::{Arena, PAGE, PAGES, run};
use crate::base::error::Operation;
use crate::base::units::PageIndex;
use crate::platform::simulated::SimulatedPlatform;
use crate::platform::{Access, Platform, Purpose};

#[test]
#[should_panic(expected = "Alias refused: the pages must lie in the arena")]
fn alias_beyond_the_arena() {
    let _ = Arena::new().alias(run(15, 2), 0);
}

#[test]
#[should_panic(expected = "Alias refused: the pages must lie in the arena")]
fn alias_of_a_target_beyond_the_arena() {
    let _ = Arena::new().alias(run(0, 2), 15);
}

#[test]
#[should_panic(expected = "Alias refused: the pages and the target must not overlap")]
fn alias_of_itself() {
    let _ = Arena::new().alias(run(2, 1), 2);
}

#[test]
#[should_panic(expected = "Alias refused: the pages and the target must not overlap")]
fn alias_of_an_overlapping_run() {
    let _ = Arena::new().alias(run(2, 3), 4);
}

#[test]
#[should_panic(expected = "Alias refused: the target must show its own backing page (page 3)")]
fn alias_of_an_alias() {
    let arena = Arena::new();
    let _ = arena.alias(run(3, 1), 0).and_then(|()| arena.alias(run(8, 2), 2));
}

#[test]
#[should_panic(expected = "Unalias refused: the page must be an alias (page 5)")]
fn unalias_of_an_own_page() {
    let arena = Arena::new();
    let _ = arena.alias(run(4, 1), 0).and_then(|()| arena.unalias(run(4, 2)));
}

#[test]
#[should_panic(expected = "Unalias refused: the pages must lie in the arena")]
fn unalias_beyond_the_arena() {
    let _ = Arena::new().unalias(run(16, 1));
}

#[test]
#[should_panic(expected = "Purge refused: the pages must lie in the arena")]
fn purge_beyond_the_arena() {
    let _ = Arena::new().purge(run(15, 2));
}

#[test]
#[should_panic(expected = "Protect refused: the pages must lie in the arena")]
fn protect_beyond_the_arena() {
    let _ = Arena::new().protect(run(15, 2), Access::ReadOnly);
}

#[test]
#[should_panic(expected = "Reserve refused: there is one arena at a time")]
fn reserve_of_a_second_arena() {
    let _ = Arena::new().platform.reserve(Purpose::Arena, PAGE, PAGE);
}

#[test]
#[should_panic(expected = "Reserve refused: bytes must be whole pages")]
fn reserve_of_half_a_page() {
    let _ = Arena::new().platform.reserve(Purpose::Metadata, PAGE / 2, PAGE);
}

#[test]
#[should_panic(expected = "Reserve refused: align must be a power of two from a page on")]
fn reserve_with_less_than_a_pages_alignment() {
    let _ = Arena::new().platform.reserve(Purpose::Metadata, PAGE, 64);
}

#[test]
#[should_panic(expected = "Commit refused: the pages must lie in the arena")]
fn commit_beyond_the_arena() {
    let _ = Arena::new().commit(run(15, 2));
}

#[test]
#[should_panic(expected = "Commit refused: the page must show its own backing page (page 4)")]
fn commit_of_an_alias() {
    let arena = Arena::new();
    let _ = arena.alias(run(4, 1), 0).and_then(|()| arena.commit(run(3, 2)));
}

#[test]
#[should_panic(expected = "Release refused: no Arena of 4096 bytes")]
fn release_of_a_part() {
    let arena = Arena::new();
    // SAFETY: refused before anything is touched.
    unsafe { arena.platform.release(Purpose::Arena, arena.base, PAGE) };
}

#[test]
#[should_panic(expected = "Release refused: no Metadata of 65536 bytes")]
fn release_for_another_purpose() {
    let arena = Arena::new();
    // SAFETY: refused before anything is touched.
    unsafe { arena.platform.release(Purpose::Metadata, arena.base, PAGES * PAGE) };
}

#[test]
#[should_panic(expected = "calls are counted from 1")]
fn no_failing_of_the_zeroth_call() {
    Arena::new().platform.fail_nth(Operation::Alias, 0);
}

#[test]
#[should_panic(expected = "Alias refused: the facts deny it")]
fn alias_on_a_platform_without() {
    let _ = Arena::on(SimulatedPlatform::new(PAGE).without_alias()).alias(run(1, 1), 0);
}

#[test]
#[should_panic(expected = "Purge refused: the facts deny it")]
fn purge_on_a_platform_without() {
    let _ = Arena::on(SimulatedPlatform::new(PAGE).without_purge()).purge(run(1, 1));
}

#[test]
#[should_panic(expected = "Protect refused: the facts deny it")]
fn protect_on_a_platform_without() {
    let _ = Arena::on(SimulatedPlatform::new(PAGE).without_protect()).protect(run(1, 1), Access::ReadOnly);
}

#[test]
#[should_panic(expected = "Alias refused: there is no arena")]
fn alias_without_an_arena() {
    // SAFETY: refused before anything is touched.
    let _ = unsafe { SimulatedPlatform::new(PAGE).alias(run(1, 1), PageIndex::new(0)) };
}

#[test]
#[should_panic(expected = "I9: the platform still holds 4096 bytes")]
fn a_platform_that_still_holds_memory_is_not_dropped_quietly() {
    let _ = SimulatedPlatform::new(PAGE).reserve(Purpose::Metadata, PAGE, PAGE);
}

#[test]
#[should_panic(expected = "no page size")]
fn pages_are_not_smaller_than_4096_bytes() {
    let _ = SimulatedPlatform::new(1024);
}

#[test]
#[should_panic(expected = "Reserve refused: bytes must be whole pages")]
fn reserve_of_nothing() {
    let _ = Arena::new().platform.reserve(Purpose::Metadata, 0, PAGE);
}
