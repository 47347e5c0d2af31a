//! What addresses show, and what reads see while that changes.

use core::sync::atomic::{AtomicBool, Ordering};

use meshheap::{Access, Operation, Platform, Purpose};
use meshheap_linux::LinuxPlatform;

use crate::arena::{Arena, error, run};

#[test]
fn a_reservation_is_aligned_and_reads_zero() {
    let platform = LinuxPlatform::new();
    for purpose in [Purpose::Arena, Purpose::Metadata] {
        for align in [platform.facts().page_size, 2 << 20, 1 << 30] {
            let bytes = 3 * platform.facts().page_size;
            let base = platform.reserve(purpose, bytes, align).expect("address space");
            assert!(base.addr().get().is_multiple_of(align));
            // SAFETY: reserved just now, and used by nothing else.
            let memory = unsafe { core::slice::from_raw_parts(base.as_ptr(), bytes) };
            assert!(memory.iter().all(|&byte| byte == 0));
            // SAFETY: the reservation from above, not used any more.
            unsafe { platform.release(purpose, base, bytes) };
        }
    }
}

#[test]
fn an_alias_shows_the_keepers_memory_both_ways() {
    for arena in Arena::each(16) {
        arena.fill(2..3, 2);
        arena.fill(3..4, 3);
        arena.alias(run(8, 2), 2).expect("one mapping");
        assert!(arena.holds(8, 2) && arena.holds(9, 3) && arena.holds(10, 0));
        arena.fill(8..9, 8);
        assert!(arena.holds(2, 8), "a write to the alias is one to the keeper");
        arena.alias(run(8, 1), 3).expect("an alias may change its target");
        assert!(arena.holds(8, 3) && arena.holds(9, 3));
    }
}

#[test]
fn an_unaliased_page_reads_zero_after_a_purge_and_its_old_bytes_without() {
    for arena in Arena::each(16) {
        arena.fill(8..10, 8);
        arena.alias(run(8, 2), 2).expect("one mapping");
        arena.purge(run(9, 1)).expect("nobody shows it");
        arena.unalias(run(8, 2)).expect("it merges");
        assert!(arena.holds(8, 8) && arena.holds(9, 0));
    }
}

#[test]
fn a_purge_reaches_a_backing_page_wherever_it_is_shown() {
    for arena in Arena::each(16) {
        arena.fill(0..4, 1);
        arena.alias(run(8, 1), 1).expect("one mapping");
        arena.purge(run(1, 2)).expect("no object is there");
        assert!(arena.holds(0, 1) && arena.holds(1, 0) && arena.holds(2, 0) && arena.holds(3, 1) && arena.holds(8, 0));
    }
}

#[test]
fn protected_pages_can_be_read_and_a_new_mapping_can_be_written() {
    for arena in Arena::each(16) {
        arena.fill(0..2, 1);
        arena.protect(run(0, 2), Access::ReadOnly).expect("two mappings");
        assert!(arena.holds(0, 1));
        arena.protect(run(0, 1), Access::ReadWrite).expect("no more mappings");
        arena.fill(0..1, 2);
        arena.alias(run(1, 1), 4).expect("no more mappings");
        arena.fill(1..2, 3);
        assert!(arena.holds(0, 2) && arena.holds(4, 3));
    }
}

#[test]
fn a_reader_sees_the_old_page_or_the_new_one() {
    for arena in Arena::each(16) {
        arena.fill(2..3, 2);
        arena.fill(8..9, 8);
        let stop = AtomicBool::new(false);
        // A number, since pointers do not cross threads.
        let shown = arena.address(&(8..9)).expose_provenance();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let (mut seen, address) = ([false; 256], core::ptr::with_exposed_provenance::<u8>(shown.get()));
                while !stop.load(Ordering::Relaxed) {
                    // SAFETY: the address is readable whatever it shows; a hole in between would kill the test.
                    seen[usize::from(unsafe { address.read_volatile() })] = true;
                }
                seen
            });
            for _ in 0..2000 {
                arena.alias(run(8, 1), 2).expect("two mappings");
                arena.unalias(run(8, 1)).expect("it merges");
            }
            stop.store(true, Ordering::Relaxed);
            let seen = reader.join().expect("the reader does not panic");
            assert!((0..256).all(|byte| !seen[byte] || byte == 2 || byte == 8));
        });
    }
}

#[test]
fn a_second_arena_is_refused() {
    let arena = Arena::new(16);
    assert_eq!(arena.platform.reserve(Purpose::Arena, arena.page, arena.page), error(Operation::Reserve, libc::EBUSY));
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "does not lie in the arena")]
fn pages_beyond_the_arena_are_caught_in_debug_builds() {
    let _ = Arena::new(16).alias(run(15, 2), 0);
}

#[test]
#[cfg(not(debug_assertions))]
fn pages_beyond_the_arena_are_refused_in_release_builds() {
    let arena = Arena::new(16);
    assert_eq!(arena.alias(run(15, 2), 0), error(Operation::Alias, libc::EINVAL));
    assert_eq!(arena.alias(run(0, 2), 15), error(Operation::Alias, libc::EINVAL));
    assert_eq!(arena.purge(run(16, 1)), error(Operation::Purge, libc::EINVAL));
}

#[test]
fn facts_and_sources_are_the_systems() {
    let platform = LinuxPlatform::default();
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").expect("Linux has this file");
    assert_eq!(platform.facts().mapping_limit, Some(limit.trim().parse().expect("a number")));
    assert!(platform.facts().page_size.is_power_of_two());
    assert_ne!(platform.entropy(), platform.entropy());
    let times: [u64; 100] = core::array::from_fn(|_| platform.now_ns());
    assert!(times[0] > 0 && times.is_sorted());
    platform.yield_now();
}
