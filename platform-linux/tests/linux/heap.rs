//! A heap to test a platform with: sparse objects that hold their own addresses.

use core::alloc::Layout;
use core::ptr::NonNull;

use meshheap::{Heap, MeshBudget, Options, Platform, StepEnd};
use meshheap_linux::LinuxPlatform;
use meshheap_linux::memory::pss_bytes;

/// A word of address, seven that nobody looks at.
const LAYOUT: Layout = Layout::new::<[usize; 8]>();

/// 12 MiB of them.
const OBJECTS: usize = 200_000;

pub(crate) fn heap_on(platform: LinuxPlatform, arena_bytes: usize) -> Heap<LinuxPlatform> {
    Heap::with_options(platform, Options { arena_bytes, seed: Some(7), ..Options::default() }).expect("some arena")
}

/// Fills the heap and keeps an object in ten.
pub(crate) fn sparse_objects<P: Platform>(heap: &Heap<P>) -> Vec<NonNull<usize>> {
    let mut local = heap.local();
    let objects: Vec<_> = (0..OBJECTS).map(|_| local.alloc(LAYOUT).expect("the arena has room").cast()).collect();
    let mut kept = Vec::new();
    for (index, object) in objects.into_iter().enumerate() {
        // Scattered, and the same each time.
        if (index.wrapping_mul(0x9e37_79b9) >> 7).is_multiple_of(10) {
            // SAFETY: the object is ours.
            unsafe { object.write(object.addr().get()) };
            kept.push(object);
        } else {
            // SAFETY: the object is live and is not used afterwards.
            unsafe { local.dealloc(object.cast(), LAYOUT) };
        }
    }
    kept
}

pub(crate) fn are_untouched(objects: &[NonNull<usize>]) -> bool {
    // SAFETY: the objects are live, and nobody writes to them.
    objects.iter().all(|object| unsafe { object.read() } == object.addr().get())
}

/// Meshes the heap, and purges what that leaves free.
pub(crate) fn mesh_all<P: Platform>(heap: &Heap<P>) {
    // SAFETY: nobody writes to objects.
    while unsafe { heap.mesh_at_safepoint(MeshBudget::UNLIMITED) }.end == StepEnd::Budget {}
    heap.purge().expect("Linux gives pages back");
}

/// Memory behind an arena, shown or not, by the view that shows every page as its own. The figure that only a purge makes
/// smaller: Pss leaves out what nobody shows.
fn backing_bytes(arena_bytes: usize) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux has this file");
    let ranges =
        maps.lines().filter(|line| line.contains(" rw-s ")).filter_map(|line| line.split_once(' ')?.0.split_once('-'));
    let number = |text| usize::from_str_radix(text, 16).expect("the kernel writes addresses");
    let mut views = ranges.map(|(start, end)| number(start)..number(end)).filter(|range| range.len() == arena_bytes);
    let view = core::ptr::with_exposed_provenance_mut(views.next().expect("one is never cut").start);
    // SAFETY: takes a number only.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let mut states = vec![0; arena_bytes / page];
    // SAFETY: the kernel writes a byte a page.
    assert_eq!(unsafe { libc::mincore(view, arena_bytes, states.as_mut_ptr()) }, 0);
    states.iter().filter(|&&state| state & 1 != 0).count() * page
}

/// Fills a heap and meshes it: objects keep their bytes, and memory comes back as the kernel counts it. All are freed at the
/// end, and their pages are used again.
pub(crate) fn assert_meshes(platform: LinuxPlatform, arena_bytes: usize) {
    let heap = heap_on(platform, arena_bytes);
    for _ in 0..2 {
        let kept = sparse_objects(&heap);
        let (held, pss) = (heap.statistics().held_bytes, pss_bytes().expect("Linux tells"));
        mesh_all(&heap);
        let statistics = heap.statistics();
        assert!(are_untouched(&kept), "objects keep their bytes");
        assert!(statistics.aliased_bytes > 0 && statistics.held_bytes * 3 < held, "{held} -> {statistics:?}");
        assert!(backing_bytes(statistics.arena_bytes) <= statistics.held_bytes, "nothing is left behind the arena");
        // Reading all of them has shown the kept pages at every address; that costs nothing.
        let (fell, expected) = (pss.saturating_sub(pss_bytes().expect("Linux tells")), held - statistics.held_bytes);
        assert!(fell * 10 > expected * 9, "Pss fell by {fell}, of {expected}");
        for object in kept {
            // SAFETY: the object is live and is not used afterwards.
            unsafe { heap.dealloc(object.cast(), LAYOUT) };
        }
        heap.purge().expect("Linux gives pages back");
        let statistics = heap.statistics();
        assert_eq!((statistics.mappings, statistics.aliased_bytes, statistics.taken_bytes), (0, 0, 0));
    }
}
