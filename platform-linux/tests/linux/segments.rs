//! Heaps under a limit of address space: they begin small, grow as they are used, and leave the rest to the program.

use core::alloc::Layout;

use meshheap::{Heap, Options, Platform, Purpose};
use meshheap_linux::{HybridPlatform, PrivatePlatform};
use meshheap_tests::sparse::{assert_untouched, mesh_all, sparse_objects};

use crate::process::{alone, lower_for_a_while, set_limit};

const GIB: usize = 1 << 30;

/// A megabyte.
const LARGE: Layout = Layout::new::<[u64; 1 << 17]>();

fn heap<P: Platform>(platform: P, arena_bytes: usize) -> Heap<P> {
    Heap::with_options(platform, Options { arena_bytes, seed: Some(5), ..Options::default() }).expect("a heap")
}

/// Address space that the process uses.
fn used_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has this file");
    let pages: usize = statm.split(' ').next().and_then(|pages| pages.parse().ok()).expect("a number");
    // SAFETY: takes a number only.
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize
}

/// Takes megabytes up to `most` and writes to each. The last ones may be refused.
fn fill<P: Platform>(heap: &Heap<P>, most: usize) -> Vec<core::ptr::NonNull<u8>> {
    let mut objects = Vec::new();
    while objects.len() < most
        && let Ok(object) = heap.alloc(LARGE)
    {
        // SAFETY: the object is ours.
        unsafe { object.cast::<usize>().write(object.addr().get()) };
        objects.push(object.cast());
    }
    objects
}

#[test]
fn a_large_heap_starts_on_a_small_limit_and_leaves_the_program_most_of_it() {
    alone(|| {
        set_limit(libc::RLIMIT_AS, 8 << 30);
        let before = used_bytes();
        let first = heap(HybridPlatform::new(), 16 * GIB);
        let second = heap(PrivatePlatform::new(), 16 * GIB);
        for arena_bytes in [first.statistics().arena_bytes, second.statistics().arena_bytes] {
            assert_eq!(arena_bytes, 16 * GIB, "it may grow to its full size");
        }
        let taken = used_bytes() - before;
        assert!(taken < 2 * GIB, "two heaps take {taken} bytes of address space");
        // The program's own.
        drop(Vec::<u8>::with_capacity(5 * GIB));
        // Far beyond the first segment.
        let (mine, others) = (fill(&first, 300), fill(&second, 300));
        assert_eq!((mine.len(), others.len()), (300, 300));
        assert_untouched(&mine);
        assert_untouched(&others);
        let small = Layout::new::<[u64; 16]>();
        let kept = sparse_objects(&first, small, 400_000, 10);
        mesh_all(&first);
        assert!(first.statistics().aliased_bytes > 0, "what lies beyond the first segment is meshed");
        let more = sparse_objects(&first, small, 800_000, 10);
        mesh_all(&first);
        assert_untouched(&kept);
        assert_untouched(&more);
        first.fork_prepare().expect("private views");
        // SAFETY: this thread called `fork_prepare`.
        unsafe { first.fork_done() };
        assert_untouched(&kept);
        assert_untouched(&more);
        first.check_invariants();
        drop((first, second));
        assert!(used_bytes() < before + (64 << 20), "all is given back");
    });
}

#[test]
fn growth_that_is_refused_is_an_error_and_works_again_later() {
    alone(|| {
        let lift = lower_for_a_while(libc::RLIMIT_AS, (used_bytes() + GIB) as u64);
        let heap = heap(HybridPlatform::new(), 4 * GIB);
        let mut objects = fill(&heap, 4096);
        assert!((100..1024).contains(&objects.len()), "{} MiB fit", objects.len());
        assert!(heap.alloc(LARGE).is_err(), "the limit stands");
        heap.check_invariants();
        lift();
        objects.extend(fill(&heap, 1024));
        assert!(objects.len() >= 1024, "the heap grows again");
        assert_untouched(&objects);
        heap.check_invariants();
    });
}

#[test]
fn a_heap_never_takes_what_others_put_behind_it() {
    alone(|| {
        set_limit(libc::RLIMIT_AS, 8 << 30);
        let platform = PrivatePlatform::new();
        let base = platform.reserve(Purpose::Arena, 4 * GIB, 2 << 20).expect("a first segment");
        let behind = base.addr().get() + (256 << 20);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let (at, access) = (core::ptr::with_exposed_provenance_mut(behind), libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: nobody uses these addresses.
        let other = unsafe { libc::mmap(at, 1 << 20, access, flags, -1, 0) };
        assert_eq!(other.addr(), behind, "the addresses behind the heap are free");
        // SAFETY: mapped just now.
        unsafe { other.cast::<u64>().write(7) };
        // SAFETY: not used any more; a heap takes the same place.
        unsafe { platform.release(Purpose::Arena, base, 4 * GIB) };
        // SAFETY: as above.
        assert_eq!(unsafe { other.cast::<u64>().read() }, 7, "releasing leaves it alone");
        let base = platform.reserve(Purpose::Arena, 4 * GIB, 2 << 20).expect("elsewhere");
        let behind = base.addr().get() + (256 << 20);
        // SAFETY: nobody uses these addresses.
        let other =
            unsafe { libc::mmap(core::ptr::with_exposed_provenance_mut(behind), 1 << 20, access, flags, -1, 0) };
        // SAFETY: mapped just now.
        unsafe { other.cast::<u64>().write(9) };
        let page = platform.facts().page_size;
        let commit = |from: usize, bytes: usize| {
            let pages = meshheap::PageRun::new(meshheap::PageIndex::new((from / page) as u32), (bytes / page) as u32);
            // SAFETY: the pages lie in the arena.
            unsafe { platform.commit(pages, meshheap::Touch::Dense) }
        };
        commit(0, 256 << 20).expect("up to it");
        assert_eq!(commit(256 << 20, 1 << 20).map_err(|error| error.code), Err(libc::EEXIST));
        // SAFETY: as above.
        assert_eq!(unsafe { other.cast::<u64>().read() }, 9);
        // SAFETY: not used any more.
        unsafe { platform.release(Purpose::Arena, base, 4 * GIB) };
        // SAFETY: as above.
        assert_eq!(unsafe { other.cast::<u64>().read() }, 9);
    });
}
