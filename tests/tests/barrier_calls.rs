//! Which calls a mesh beside writers makes, and what it leaves when they fail.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

use meshheap::{
    Access, Facts, Heap, MeshBudget, Operation, Options, PageIndex, PageRun, Platform, PlatformError, Purpose,
    SimulatedPlatform, StepEnd,
};
use meshheap_tests::op::{Op, Size};
use meshheap_tests::sparse::{assert_untouched, sparse_objects};
use meshheap_tests::{Model, scene};

const OPERATIONS: [Operation; 6] =
    [Operation::Reserve, Operation::Commit, Operation::Purge, Operation::Alias, Operation::Unalias, Operation::Protect];

const ARENA_BYTES: usize = 4 << 20;

fn options() -> Options {
    Options { arena_bytes: ARENA_BYTES, seed: Some(3), ..Options::default() }
}

/// Says that it has a write barrier.
fn platform() -> SimulatedPlatform {
    // SAFETY: the tests write to no object while `mesh` runs.
    unsafe { SimulatedPlatform::new(scene::PAGE).with_write_barrier() }
}

/// How many pages of an arena of so many bytes are read-only.
fn read_only_pages(platform: &SimulatedPlatform, arena_bytes: usize) -> usize {
    let pages = (0..).take(arena_bytes / scene::PAGE).map(PageIndex::new);
    pages.filter(|&page| platform.access(page) == Access::ReadOnly).count()
}

/// A platform that insists on the order of a barrier's calls.
struct Strict {
    inner: SimulatedPlatform,
    is_armed: AtomicBool,
}

// SAFETY: every method is the simulated platform's own.
unsafe impl Platform for Strict {
    fn facts(&self) -> Facts {
        self.inner.facts()
    }

    fn reserve(&self, purpose: Purpose, bytes: usize, align: usize) -> Result<NonNull<u8>, PlatformError> {
        self.inner.reserve(purpose, bytes, align)
    }

    unsafe fn release(&self, purpose: Purpose, base: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller keeps the same contract.
        unsafe { self.inner.release(purpose, base, bytes) };
    }

    unsafe fn purge(&self, pages: PageRun) -> Result<(), PlatformError> {
        // SAFETY: the caller keeps the same contract.
        unsafe { self.inner.purge(pages) }
    }

    unsafe fn alias(&self, pages: PageRun, target: PageIndex) -> Result<(), PlatformError> {
        let all = |access| pages.pages().all(|page| self.inner.access(page) == access);
        let armed = self.is_armed.load(Ordering::Relaxed);
        assert!(all(if armed { Access::ReadOnly } else { Access::ReadWrite }), "{pages:?} at a mesh");
        assert_eq!(self.inner.access(target), Access::ReadWrite, "the keeper stays writable");
        // SAFETY: the caller keeps the same contract.
        unsafe { self.inner.alias(pages, target) }
    }

    unsafe fn unalias(&self, pages: PageRun) -> Result<(), PlatformError> {
        // SAFETY: the caller keeps the same contract.
        unsafe { self.inner.unalias(pages) }
    }

    unsafe fn protect(&self, pages: PageRun, access: Access) -> Result<(), PlatformError> {
        let pages_before = read_only_pages(&self.inner, ARENA_BYTES);
        assert_eq!(pages_before > 0, access == Access::ReadWrite, "one run at a time");
        // SAFETY: the caller keeps the same contract.
        unsafe { self.inner.protect(pages, access) }
    }
}

#[test]
fn each_run_is_read_only_until_it_is_aliased_and_at_safepoints_none_is() {
    let platform = Strict { inner: platform(), is_armed: AtomicBool::new(true) };
    let heap = Heap::with_options(&platform, options()).expect("the platform has room");
    let kept = sparse_objects(&heap, Layout::new::<[u64; 8]>(), 20_000, 10);
    // Part of the way in steps of both kinds, which share a pass.
    for _ in 0..4 {
        platform.is_armed.store(true, Ordering::Relaxed);
        assert!(heap.mesh(MeshBudget::UNLIMITED.with_pages(20)).pages_freed > 0);
        let protects = platform.inner.calls(Operation::Protect);
        platform.is_armed.store(false, Ordering::Relaxed);
        // SAFETY: no other thread runs.
        let step = unsafe { heap.mesh_at_safepoint(MeshBudget::UNLIMITED.with_pages(20)) };
        assert!(step.pages_freed > 0);
        assert_eq!(platform.inner.calls(Operation::Protect), protects, "a safepoint needs no barrier");
    }
    platform.is_armed.store(true, Ordering::Relaxed);
    assert_eq!(heap.mesh(MeshBudget::UNLIMITED).end, StepEnd::PassDone);
    assert_eq!(read_only_pages(&platform.inner, ARENA_BYTES), 0);
    assert!(platform.inner.mappings() <= heap.statistics().mappings, "I7");
    assert_untouched(&kept);
    heap.check_invariants();
}

#[test]
fn without_a_barrier_there_is_no_mesh_beside_writers() {
    let platform = SimulatedPlatform::new(scene::PAGE);
    let heap = Heap::with_options(&platform, options()).expect("the platform has room");
    let kept = sparse_objects(&heap, Layout::new::<[u64; 8]>(), 5_000, 10);
    let step = heap.mesh(MeshBudget::UNLIMITED);
    assert_eq!((step.end, step.pages_freed), (StepEnd::Unsupported, 0));
    assert_eq!(platform.calls(Operation::Alias) + platform.calls(Operation::Protect), 0);
    assert_untouched(&kept);
}

/// Fills, fragments and meshes twice, so that keepers with aliases are meshed again, then frees.
fn script() -> Vec<Op> {
    let small = |bytes| Size { bytes, align_bits: 0 };
    let mut ops = Vec::new();
    for round in 0..2 {
        ops.push(Op::Fragment(small(64), 255, 11 + round));
        ops.push(Op::Fragment(small(1200), 100, 17 + round));
        ops.push(Op::Flush);
        ops.push(Op::MeshAll);
        ops.extend((0..40).map(|index| Op::Dealloc(index * 7)));
        ops.push(Op::Flush);
        ops.push(Op::MeshAll);
        ops.push(Op::Purge);
    }
    ops
}

/// Runs the script with call number `n` of `operation` failing. Returns whether there was such a call.
fn run_with_failure(operation: Operation, n: usize) -> bool {
    let platform = platform();
    platform.fail_nth(operation, n);
    let Ok(heap) = Heap::with_options(&platform, options()) else { return true };
    let mut model = Model::new(&heap);
    for op in script() {
        model.apply(op);
        heap.check_invariants();
        let pages = read_only_pages(&platform, heap.statistics().arena_bytes);
        assert_eq!(pages, 0, "nothing stays read-only after {op:?}");
    }
    let was_made = platform.calls(operation) >= n;
    platform.heal();
    while heap.mesh(MeshBudget::UNLIMITED).end == StepEnd::Budget {}
    model.verify();
    model.free_all();
    heap.purge().expect("nothing fails any more");
    heap.check_invariants();
    assert_eq!((heap.statistics().taken_bytes, heap.statistics().mappings), (0, 0));
    was_made
}

#[test]
fn each_call_may_fail_at_any_time_and_nothing_stays_read_only() {
    for operation in OPERATIONS {
        let calls = (1..).take_while(|&n| run_with_failure(operation, n)).count();
        assert!(calls > 0, "the script never made the platform {operation:?}");
    }
}

#[test]
fn a_run_that_cannot_be_protected_is_not_meshed_and_the_heap_is_whole() {
    let platform = platform();
    let heap = Heap::with_options(&platform, options()).expect("the platform has room");
    let kept = sparse_objects(&heap, Layout::new::<[u64; 8]>(), 5_000, 10);
    platform.fail_all(Operation::Protect);
    let error = PlatformError { operation: Operation::Protect, code: SimulatedPlatform::INJECTED };
    assert_eq!(heap.mesh(MeshBudget::UNLIMITED).end, StepEnd::Refused(error));
    assert_eq!((platform.calls(Operation::Alias), heap.statistics().mappings), (0, 0));
    heap.check_invariants();
    platform.heal();
    assert_eq!(heap.mesh(MeshBudget::UNLIMITED).end, StepEnd::PassDone);
    assert_untouched(&kept);
}

#[test]
fn a_run_that_stays_read_only_is_meshed_by_the_next_pass() {
    let platform = platform();
    let heap = Heap::with_options(&platform, options()).expect("the platform has room");
    let kept = sparse_objects(&heap, Layout::new::<[u64; 8]>(), 5_000, 10);
    // The run is protected, the alias is refused, and so is the way back.
    platform.fail_nth(Operation::Alias, 1);
    platform.fail_nth(Operation::Protect, 2);
    let error = PlatformError { operation: Operation::Alias, code: SimulatedPlatform::INJECTED };
    assert_eq!(heap.mesh(MeshBudget::UNLIMITED).end, StepEnd::Refused(error));
    assert_eq!(read_only_pages(&platform, ARENA_BYTES), 1);
    assert_untouched(&kept);
    platform.heal();
    assert_eq!(heap.mesh(MeshBudget::UNLIMITED).end, StepEnd::PassDone);
    assert_untouched(&kept);
}
