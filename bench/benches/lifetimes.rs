//! The end of a heap with ten million objects: dropped as a whole, and reset for reuse, beside the same freed one by one. All
//! objects were written to, so the system has each page to take back.
//!
//!     cargo bench -p meshheap-bench --bench lifetimes

use core::alloc::Layout;
use core::ptr::NonNull;
use core::time::Duration;
use std::time::Instant;

use criterion::{BenchmarkId, Criterion, SamplingMode, criterion_group, criterion_main};
use meshheap::{Heap, MeshBudget, Options, Platform, StepEnd};
use meshheap_linux::{HybridPlatform, LinuxPlatform, PrivatePlatform};

const OBJECTS: usize = 10_000_000;

/// Objects of two words: a lisp's pairs.
const LAYOUT: Layout = Layout::new::<[u64; 2]>();

struct Filled<P: Platform> {
    heap: Heap<P>,
    objects: Vec<NonNull<u8>>,
}

fn filled<P: Platform>(platform: P) -> Filled<P> {
    let options = Options { seed: Some(1), arena_bytes: 1 << 30, ..Options::default() };
    let heap = Heap::with_options(platform, options).expect("there is memory");
    let mut local = heap.local();
    let objects: Vec<_> = (0..OBJECTS).map(|_| local.alloc(LAYOUT).expect("there is memory")).collect();
    for object in &objects {
        // SAFETY: the object is ours and holds two words.
        unsafe { object.cast::<u64>().write(1) };
    }
    drop(local);
    Filled { heap, objects }
}

/// The same with nine of ten objects freed, in random order, and all that is left meshed.
fn meshed<P: Platform>(platform: P) -> Filled<P> {
    let Filled { heap, mut objects } = filled(platform);
    let mut local = heap.local();
    let mut rng = fastrand::Rng::with_seed(2);
    objects.retain(|&object| {
        let stays = rng.u8(..10) == 0;
        if !stays {
            // SAFETY: the object is live and is not used afterwards.
            unsafe { local.dealloc(object, LAYOUT) };
        }
        stays
    });
    drop(local);
    // SAFETY: no other thread runs.
    while unsafe { heap.mesh_at_safepoint(MeshBudget::UNLIMITED) }.end == StepEnd::Budget {}
    Filled { heap, objects }
}

fn time(run: impl FnOnce()) -> Duration {
    let start = Instant::now();
    run();
    start.elapsed()
}

fn free_each<P: Platform>(Filled { heap, objects }: Filled<P>) -> Duration {
    let mut local = heap.local();
    // SAFETY: each object is live and is not used afterwards.
    time(|| objects.iter().for_each(|&object| unsafe { local.dealloc(object, LAYOUT) }))
}

fn lifetimes_on<P: Platform>(criterion: &mut Criterion, name: &str, new: fn() -> P) {
    let mut group = criterion.benchmark_group(format!("ten_million_objects_{name}"));
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    let mut measure = |name: &str, fill: fn(P) -> Filled<P>, end: fn(Filled<P>) -> Duration| {
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher.iter_custom(|times| (0..times).map(|_| end(fill(new()))).sum());
        });
    };
    measure("drop", filled, |filled| time(|| drop(filled.heap)));
    measure("reset", filled, |mut filled| time(|| filled.heap.reset()));
    measure("free_each", filled, free_each);
    if new().facts().can_alias {
        measure("drop_meshed", meshed, |meshed| time(|| drop(meshed.heap)));
        measure("reset_meshed", meshed, |mut meshed| time(|| meshed.heap.reset()));
    }
    group.finish();
}

fn lifetimes(criterion: &mut Criterion) {
    lifetimes_on(criterion, "shared", LinuxPlatform::new);
    lifetimes_on(criterion, "hybrid", HybridPlatform::new);
    lifetimes_on(criterion, "private", PrivatePlatform::new);
}

criterion_group!(benches, lifetimes);
criterion_main!(benches);
