//! Steps of meshing: what a step reports is what happened, its bounds hold, and steps together are one pass.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Barrier;

use meshheap::{Access, Facts, Heap, MeshBudget, MeshStep, Operation, Options, PageIndex, PageRun, Platform};
use meshheap::{PlatformError, Purpose, SimulatedPlatform, StepEnd};
use meshheap_tests::scene::{LAYOUT, PAGE, SLOTS, free, small_heap, spans, whole_pages};
use meshheap_tests::sparse::{assert_untouched, mesh_all, sparse_objects};

fn step<P: Platform>(heap: &Heap<P>, budget: MeshBudget) -> MeshStep {
    // SAFETY: no other thread writes to objects.
    unsafe { heap.mesh_at_safepoint(budget) }
}

#[test]
fn a_step_reports_what_it_did() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 64);
    let objects = spans(&heap, &[&[0], &[1], &[0, 1]]).concat();
    let step = step(&heap, MeshBudget::UNLIMITED);
    assert_eq!(step.end, StepEnd::PassDone);
    assert_eq!((step.spans, step.groups, step.pages_freed), (3, 2, 1), "{step:?}");
    let statistics = heap.statistics();
    assert_eq!((step.mappings, step.mappings), (statistics.mappings, platform.mappings()));
    assert_eq!((statistics.mesh_passes, statistics.mesh_steps, statistics.pages_meshed), (1, 1, 1));
    assert_untouched(&objects);
}

#[test]
fn a_pass_gives_back_used_free_pages_and_what_depots_keep() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 64);
    let large = [(); 2].map(|()| heap.alloc(whole_pages(10)).expect("the arena has room"));
    free(&heap, large[0]);
    let mut local = heap.local();
    let small = local.alloc(LAYOUT).expect("the arena has room");
    // SAFETY: the object is live and is not used afterwards.
    unsafe { local.dealloc(small, LAYOUT) };
    drop(local);
    let step = step(&heap, MeshBudget::UNLIMITED);
    assert_eq!(step.pages_purged, 10, "the small object lay on one of them: {step:?}");
    let statistics = heap.statistics();
    assert_eq!((statistics.dirty_bytes, statistics.taken_bytes), (0, 10 * PAGE));
}

/// Two spans that fit together, and ten used free pages. Returns the objects in the spans.
fn spans_and_free_pages(heap: &Heap<&SimulatedPlatform>) -> Vec<NonNull<u8>> {
    let large = [(); 2].map(|()| heap.alloc(whole_pages(10)).expect("the arena has room"));
    let objects = spans(heap, &[&[0], &[1]]).concat();
    free(heap, large[0]);
    objects
}

#[test]
fn a_pass_without_purge_meshes_and_leaves_used_free_pages() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 64);
    let objects = spans_and_free_pages(&heap);
    let first = step(&heap, MeshBudget::UNLIMITED.without_purge());
    assert_eq!((first.end, first.pages_freed, first.pages_purged), (StepEnd::PassDone, 1, 0), "{first:?}");
    assert_eq!(heap.statistics().dirty_bytes, 10 * PAGE);
    assert_eq!(step(&heap, MeshBudget::UNLIMITED).pages_purged, 10, "the next pass may");
    assert_untouched(&objects);
}

#[test]
fn a_pass_that_has_no_mappings_left_gives_back_used_free_pages_all_the_same() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 64);
    let objects = spans_and_free_pages(&heap);
    heap.set_mapping_budget(0);
    let step = step(&heap, MeshBudget::UNLIMITED);
    assert_eq!((step.end, step.pages_purged, step.mappings), (StepEnd::MappingsUsedUp, 10, 0));
    assert_eq!(heap.statistics().dirty_bytes, 0);
    assert_untouched(&objects);
}

#[test]
fn steps_go_on_where_the_last_one_stopped() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 4096);
    let kept = sparse_objects(&heap, LAYOUT, 20_000, 10);
    heap.purge().expect("nothing fails");
    let partial = heap.statistics().span_bytes / PAGE;
    let steps: Vec<_> = core::iter::from_fn(|| Some(step(&heap, MeshBudget::UNLIMITED.with_pages(1))))
        .scan(false, |done, step| (!core::mem::replace(done, step.end != StepEnd::Budget)).then_some(step))
        .collect();
    assert_eq!(steps.last().map(|step| step.end), Some(StepEnd::PassDone));
    assert!(steps.iter().all(|step| step.pages_freed <= 1), "steps keep to their budget");
    let looked_at: usize = steps.iter().map(|step| step.spans).sum();
    assert_eq!(looked_at, partial, "each span is looked at once");
    let freed: usize = steps.iter().map(|step| step.pages_freed).sum();
    assert!(freed > partial / 2, "{freed} of {partial}");
    assert_eq!(heap.statistics().pages_meshed, freed as u64);
    assert_untouched(&kept);
}

#[test]
fn a_step_keeps_to_its_time_by_the_platforms_clock() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 4096);
    let kept = sparse_objects(&heap, LAYOUT, 20_000, 10);
    platform.set_clock_step(1000);
    let mut longest = 0;
    let mut steps = 0;
    loop {
        let step = step(&heap, MeshBudget::time(Duration::from_micros(20)));
        // One look at the clock after each unit of work, and a few besides.
        assert!(step.nanoseconds <= 25_000, "{step:?}");
        longest = longest.max(step.nanoseconds);
        steps += 1;
        if step.end == StepEnd::PassDone {
            break;
        }
        assert_eq!(step.end, StepEnd::Budget);
    }
    assert!(steps > 5, "{steps} steps");
    assert_eq!(heap.statistics().longest_step_ns, longest);
    assert_untouched(&kept);
}

#[test]
fn a_refused_reservation_for_a_pass_is_told() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 64);
    let objects = spans(&heap, &[&[0], &[1]]).concat();
    platform.fail_nth(Operation::Reserve, 1);
    let refused = step(&heap, MeshBudget::UNLIMITED);
    assert!(matches!(refused.end, StepEnd::Refused(error) if error.operation == Operation::Reserve), "{refused:?}");
    let next = step(&heap, MeshBudget::UNLIMITED);
    assert_eq!((next.end, next.pages_freed), (StepEnd::PassDone, 1), "the next step begins another pass");
    assert_untouched(&objects);
}

#[test]
fn the_span_with_the_most_aliases_stays_where_it_is() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 64);
    let objects = spans(&heap, &[&[0], &[1], &[2], &[3]]).concat();
    mesh_all(&heap);
    assert_eq!(heap.statistics().aliased_bytes, 3 * PAGE);
    // A fuller span that fits the group: first all slots of the group are taken, so that it is a new one.
    let fill: Vec<_> = (0..SLOTS - 4).map(|_| heap.alloc(LAYOUT).expect("the arena has room")).collect();
    let others = spans(&heap, &[&[10, 11, 12, 13, 14, 15]]).concat();
    fill.into_iter().for_each(|object| free(&heap, object));
    let calls = platform.calls(Operation::Alias);
    mesh_all(&heap);
    assert_eq!(heap.statistics().aliased_bytes, 4 * PAGE);
    assert_eq!(platform.calls(Operation::Alias) - calls, 1, "only the new span moved");
    assert_untouched(&objects);
    assert_untouched(&others);
    heap.check_invariants();
}

#[test]
fn a_class_with_more_spans_than_one_plan_takes_is_meshed_whole() {
    const SPANS: usize = 20_000;
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, SPANS);
    let objects: Vec<_> = (0..SPANS * SLOTS).map(|_| heap.alloc(LAYOUT).expect("the arena has room")).collect();
    // Half of the spans keep their first half, half their second.
    for (half, slots) in objects.chunks(SLOTS / 2).enumerate() {
        if half % 4 == 1 || half % 4 == 2 {
            slots.iter().for_each(|&object| free(&heap, object));
        }
    }
    let step = step(&heap, MeshBudget::UNLIMITED);
    assert_eq!((step.end, step.spans, step.pages_freed), (StepEnd::PassDone, SPANS, SPANS / 2));
}

/// A platform whose first `alias` waits for another thread to come by.
struct Waiting {
    inner: SimulatedPlatform,
    is_first: AtomicBool,
    meeting: Barrier,
}

// SAFETY: every method is the simulated platform's own.
unsafe impl Platform for Waiting {
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
        // Relaxed: one step runs at a time.
        if self.is_first.swap(false, Ordering::Relaxed) {
            self.meeting.wait();
            self.meeting.wait();
        }
        // SAFETY: the caller keeps the same contract.
        unsafe { self.inner.alias(pages, target) }
    }

    unsafe fn unalias(&self, pages: PageRun) -> Result<(), PlatformError> {
        // SAFETY: the caller keeps the same contract.
        unsafe { self.inner.unalias(pages) }
    }

    unsafe fn protect(&self, pages: PageRun, access: Access) -> Result<(), PlatformError> {
        // SAFETY: the caller keeps the same contract.
        unsafe { self.inner.protect(pages, access) }
    }
}

#[test]
fn a_second_step_at_the_same_time_returns_at_once() {
    let inner = SimulatedPlatform::new(PAGE);
    let platform = Waiting { inner, is_first: AtomicBool::new(true), meeting: Barrier::new(2) };
    let options = Options { arena_bytes: 64 * PAGE, ..Options::default() };
    let heap = Heap::with_options(&platform, options).expect("the platform has room");
    let objects = spans(&heap, &[&[0], &[1]]).concat();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| step(&heap, MeshBudget::UNLIMITED));
        platform.meeting.wait();
        let second = step(&heap, MeshBudget::UNLIMITED);
        // The heap serves other threads meanwhile.
        free(&heap, heap.alloc(LAYOUT).expect("the arena has room"));
        platform.meeting.wait();
        assert_eq!((second.end, second.spans), (StepEnd::Busy, 0));
        let first = first.join().expect("the step does not panic");
        assert_eq!((first.end, first.pages_freed), (StepEnd::PassDone, 1));
    });
    assert_untouched(&objects);
    heap.check_invariants();
}
