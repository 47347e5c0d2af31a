//! Memory that is private until it is meshed: it comes back, its mappings are counted, and both sides of a fork go on with what
//! they had.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

use meshheap::{Heap, MeshBudget, Operation, Options, StepEnd};
use meshheap_linux::{HybridPlatform, memory};
use meshheap_tests::sparse::{assert_untouched, mesh_all, sparse_objects};

use crate::process::{alone, lower_for_a_while, status_of_child};

fn heap(seed: u64) -> Heap<HybridPlatform> {
    let options = Options { arena_bytes: 1 << 30, seed: Some(seed), ..Options::default() };
    Heap::with_options(HybridPlatform::new(), options).expect("Linux has room")
}

const LAYOUT: Layout = Layout::new::<[u64; 16]>();

#[test]
fn memory_comes_back_out_of_huge_pages() {
    alone(|| {
        let heap = heap(5);
        let before = memory::pss_bytes().expect("/proc can be read");
        let kept = sparse_objects(&heap, LAYOUT, 400_000, 10);
        let full = memory::pss_bytes().expect("/proc can be read") - before;
        mesh_all(&heap);
        let meshed = memory::pss_bytes().expect("/proc can be read") - before;
        assert_untouched(&kept);
        heap.check_invariants();
        let live = kept.len() * LAYOUT.size();
        assert!(full > 48 << 20, "a full heap takes {full} bytes");
        assert!(meshed < 3 * live, "{live} bytes live, {meshed} held");
    });
}

#[test]
fn mappings_are_counted() {
    alone(|| {
        let heap = heap(6);
        let before = memory::mapping_count().expect("/proc can be read");
        let kept = sparse_objects(&heap, LAYOUT, 200_000, 12);
        mesh_all(&heap);
        let counted = heap.statistics().mappings;
        let now = memory::mapping_count().expect("/proc can be read");
        // The two views, the table, and what advice on huge pages adds: two a chunk of 2 MiB at the most.
        let others = 8 + 2 * ((200_000 * LAYOUT.size()) >> 21);
        assert!(counted > 500, "{counted} mappings");
        assert!(now - before <= counted + others, "{counted} counted, {before} then, {now} now");
        assert_untouched(&kept);
    });
}

/// Runs `child` in a forked process, and `parent` here before it is waited for. The child's panics fail the test.
fn fork(heap: &Heap<HybridPlatform>, parent: impl FnOnce(), child: impl FnOnce()) {
    heap.fork_prepare().expect("meshed pages become private");
    // SAFETY: this thread, or the one that it continues, called `fork_prepare`.
    let after_fork = || unsafe { heap.fork_done() };
    let whole = || {
        child();
        true
    };
    let status = status_of_child(after_fork, parent, whole);
    assert_eq!(status, 0, "the child found what it should");
}

fn write(objects: &[NonNull<u8>], value: usize) {
    for (index, object) in objects.iter().enumerate() {
        // SAFETY: the object is ours and holds more than a word.
        unsafe { object.cast::<usize>().write(value + index) };
    }
}

fn assert_holds(objects: &[NonNull<u8>], value: usize) {
    for (index, object) in objects.iter().enumerate() {
        // SAFETY: as above.
        assert_eq!(unsafe { object.cast::<usize>().read() }, value + index, "object {index}");
    }
}

fn second_word(object: &NonNull<u8>) -> usize {
    // SAFETY: the object holds more than two words.
    let second = unsafe { object.cast::<usize>().add(1) };
    // SAFETY: as above, and it was written.
    unsafe { second.read_volatile() }
}

/// Allocates, frees and meshes, and finds every object as it was.
fn go_on(heap: &Heap<HybridPlatform>, kept: &[NonNull<u8>], value: usize) {
    let more = sparse_objects(heap, LAYOUT, 50_000, 10);
    mesh_all(heap);
    assert_holds(kept, value);
    assert_untouched(&more);
    heap.check_invariants();
}

#[test]
fn both_sides_of_a_fork_go_on_with_what_they_had() {
    alone(|| {
        let heap = heap(7);
        let kept = sparse_objects(&heap, LAYOUT, 100_000, 10);
        write(&kept, 1000);
        mesh_all(&heap);
        assert!(heap.statistics().aliased_bytes > 0, "pages were meshed");
        let (mine, both) = kept.split_at(kept.len() / 2);
        fork(
            &heap,
            || {
                write(mine, 500_000);
                go_on(&heap, both, 1000 + mine.len());
                assert_holds(mine, 500_000);
            },
            || {
                // The parent writes meanwhile, and is not waited for: neither may see the other's changes at any time.
                assert_holds(&kept, 1000);
                write(both, 900_000);
                go_on(&heap, mine, 1000);
                assert_holds(both, 900_000);
                // And again from here.
                fork(&heap, || write(both, 7), || assert_holds(both, 900_000));
            },
        );
        // The parent's objects are its own still, and lie together again.
        let frozen = memory::pss_bytes().expect("/proc can be read");
        mesh_all(&heap);
        assert!(memory::pss_bytes().expect("/proc can be read") <= frozen + (1 << 20));
        assert_holds(mine, 500_000);
        assert_holds(both, 1000 + mine.len());
        heap.check_invariants();
    });
}

/// Ends the threads, also when the test fails.
struct EndThreads<'a>(&'a AtomicBool);

impl Drop for EndThreads<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_fork_takes_a_snapshot_beside_threads_that_write() {
    alone(|| {
        let heap = heap(8);
        let kept = sparse_objects(&heap, LAYOUT, 60_000, 10);
        write(&kept, 0);
        mesh_all(&heap);
        let ended = AtomicBool::new(false);
        let addresses: Vec<usize> = kept.iter().map(|object| object.expose_provenance().get()).collect();
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (ended, addresses) = (&ended, &addresses);
                scope.spawn(move || {
                    let mine = addresses.iter().skip(thread).step_by(2);
                    let counters: Vec<*mut usize> = mine
                        .map(|&address| core::ptr::with_exposed_provenance_mut::<usize>(address).wrapping_add(1))
                        .collect();
                    // SAFETY: each object belongs to one thread, and holds more than two words.
                    counters.iter().for_each(|counter| unsafe { counter.write_volatile(0) });
                    let mut count = 0;
                    while !ended.load(Ordering::Relaxed) {
                        count += 1;
                        for &counter in &counters {
                            // SAFETY: as above.
                            let value = unsafe { counter.read_volatile() };
                            // SAFETY: as above.
                            unsafe { counter.write_volatile(value + 1) };
                        }
                    }
                    for counter in counters {
                        // SAFETY: as above.
                        assert_eq!(unsafe { counter.read_volatile() }, count, "no write is lost by a fork");
                    }
                });
            }
            let _end = EndThreads(&ended);
            for _ in 0..20 {
                fork(
                    &heap,
                    || {},
                    || {
                        assert_holds(&kept, 0);
                        let seen: Vec<usize> = kept.iter().map(second_word).collect();
                        for _ in 0..200 {
                            std::thread::yield_now();
                        }
                        let again: Vec<usize> = kept.iter().map(second_word).collect();
                        assert!(seen == again, "the parent's threads write on, and not here");
                    },
                );
            }
        });
    });
}

#[test]
fn without_a_private_view_nothing_is_meshed_or_lost() {
    alone(|| {
        let heap = heap(9);
        let kept = sparse_objects(&heap, LAYOUT, 20_000, 10);
        let lift = lower_for_a_while(libc::RLIMIT_FSIZE, 4096);
        // SAFETY: this thread is alone.
        let step = unsafe { heap.mesh_at_safepoint(MeshBudget::UNLIMITED) };
        let StepEnd::Refused(error) = step.end else { panic!("{step:?}") };
        assert_eq!((error.operation, error.code), (Operation::Share, libc::EFBIG));
        assert_untouched(&kept);
        heap.check_invariants();
        lift();
        mesh_all(&heap);
        assert!(heap.statistics().aliased_bytes > 0, "it meshes once the limit is lifted");
        assert_untouched(&kept);
    });
}

/// The flags of each shared mapping of the heap's file.
fn flags_of_shared_mappings() -> Vec<String> {
    let smaps = std::fs::read_to_string("/proc/self/smaps").expect("Linux has this file");
    let mut is_shared = false;
    let mut found = Vec::new();
    for line in smaps.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            found.extend(is_shared.then(|| flags.to_owned()));
        } else if line.contains("memfd:meshheap") {
            is_shared = line.contains(" rw-s ");
        } else if line.split(' ').next().is_some_and(|range| range.contains('-')) {
            is_shared = false;
        }
    }
    found
}

#[test]
fn a_core_dump_holds_meshed_pages_where_objects_lie_and_nowhere_else() {
    alone(|| {
        let heap = heap(10);
        let kept = sparse_objects(&heap, LAYOUT, 60_000, 10);
        mesh_all(&heap);
        let flags = flags_of_shared_mappings();
        assert!(flags.len() > 100, "pages were meshed");
        let left_out = flags.iter().filter(|flags| flags.contains(" dd")).count();
        assert_eq!(left_out, 1, "the view, as long as the heap, mostly of pages that nobody touched");
        assert_untouched(&kept);
    });
}
