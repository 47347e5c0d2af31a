//! A walk over the pages tells what each is used for.

use meshheap::{Heap, MeshBudget, PageRun, PageUse, Platform, SimulatedPlatform};
use meshheap_tests::scene::{LAYOUT, PAGE, SLOTS, free, small_heap, spans, whole_pages};

fn walk<P: Platform>(heap: &Heap<P>) -> Vec<(u32, PageUse)> {
    let mut seen: Vec<(PageRun, PageUse)> = Vec::new();
    heap.walk_pages(|run, used| seen.push((run, used)));
    assert!(seen.windows(2).all(|pair| pair[0].0.end() == pair[1].0.start), "runs lie end to end: {seen:?}");
    seen.into_iter().map(|(run, used)| (run.count, used)).collect()
}

#[test]
fn every_run_is_told_with_its_use() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 64);
    assert!(walk(&heap).is_empty());
    let objects = spans(&heap, &[&[0], &[1, 2]]);
    let large = [(); 2].map(|()| heap.alloc(whole_pages(10)).expect("the arena has room"));
    free(&heap, large[0]);
    let (slot_size, slots) = (LAYOUT.size(), SLOTS);
    let span = |live, shared_live| PageUse::Span { slot_size, slots, live, shared_live };
    assert_eq!(walk(&heap), [(1, span(1, 1)), (1, span(2, 2)), (10, PageUse::Dirty), (10, PageUse::Large)]);
    // SAFETY: no other thread runs.
    let step = unsafe { heap.mesh_at_safepoint(MeshBudget::UNLIMITED) };
    assert_eq!(step.pages_freed, 1);
    let page =
        |at: usize| (objects[at][0].addr().get() - heap.page_address(meshheap::PageIndex::new(0)).addr().get()) / PAGE;
    let keeper = meshheap::PageIndex::new(u32::try_from(page(1)).expect("a small arena"));
    let alias = PageUse::Alias { keeper, slot_size, slots, live: 1 };
    assert_eq!(walk(&heap), [(1, alias), (1, span(2, 3)), (10, PageUse::Clean), (10, PageUse::Large)]);
}
