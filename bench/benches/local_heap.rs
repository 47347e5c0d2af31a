//! Micro-benchmarks of `LocalHeap`, each beside the same on the system's malloc.
//!
//!     cargo bench -p meshheap-bench --bench local_heap [-- FILTER]

use core::alloc::{GlobalAlloc, Layout};
use core::hint::black_box;
use core::ptr::NonNull;
use std::alloc::System;

use criterion::measurement::WallTime;
use criterion::{
    BatchSize, BenchmarkGroup, BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main,
};
use meshheap::{Heap, LocalHeap, MeshBudget, Options};
use meshheap_linux::LinuxPlatform;

type Local<'h> = LocalHeap<&'h Heap<LinuxPlatform>>;
type Group<'c> = BenchmarkGroup<'c, WallTime>;

/// One pair of calls, or a batch of them, by size.
const SIZES: [usize; 8] = [16, 64, 256, 1024, 4096, 16 << 10, 64 << 10, 1 << 20];
const BATCH: usize = 10_000;

/// What both allocators can do. The layouts are valid and not empty, the objects live and of their layouts.
trait Allocator {
    fn alloc(&mut self, layout: Layout) -> NonNull<u8>;
    fn alloc_zeroed(&mut self, layout: Layout) -> NonNull<u8>;
    fn dealloc(&mut self, object: NonNull<u8>, layout: Layout);
    fn realloc(&mut self, object: NonNull<u8>, layout: Layout, size: usize) -> NonNull<u8>;
}

impl Allocator for Local<'_> {
    fn alloc(&mut self, layout: Layout) -> NonNull<u8> {
        Local::alloc(self, layout).expect("there is memory")
    }

    fn alloc_zeroed(&mut self, layout: Layout) -> NonNull<u8> {
        Local::alloc_zeroed(self, layout).expect("there is memory")
    }

    fn dealloc(&mut self, object: NonNull<u8>, layout: Layout) {
        // SAFETY: the benchmarks free each object once, with its layout.
        unsafe { Local::dealloc(self, object, layout) };
    }

    fn realloc(&mut self, object: NonNull<u8>, layout: Layout, size: usize) -> NonNull<u8> {
        // SAFETY: as above; the old pointer is not used again.
        unsafe { Local::realloc(self, object, layout, size) }.expect("there is memory")
    }
}

impl Allocator for System {
    fn alloc(&mut self, layout: Layout) -> NonNull<u8> {
        // SAFETY: no layout of the benchmarks is empty.
        NonNull::new(unsafe { GlobalAlloc::alloc(self, layout) }).expect("there is memory")
    }

    fn alloc_zeroed(&mut self, layout: Layout) -> NonNull<u8> {
        // SAFETY: no layout of the benchmarks is empty.
        NonNull::new(unsafe { GlobalAlloc::alloc_zeroed(self, layout) }).expect("there is memory")
    }

    fn dealloc(&mut self, object: NonNull<u8>, layout: Layout) {
        // SAFETY: the benchmarks free each object once, with its layout.
        unsafe { GlobalAlloc::dealloc(self, object.as_ptr(), layout) };
    }

    fn realloc(&mut self, object: NonNull<u8>, layout: Layout, size: usize) -> NonNull<u8> {
        // SAFETY: as above; the old pointer is not used again, and no size is zero.
        NonNull::new(unsafe { GlobalAlloc::realloc(self, object.as_ptr(), layout, size) }).expect("there is memory")
    }
}

fn heap() -> Heap<LinuxPlatform> {
    let options = Options { seed: Some(1), ..Options::default() };
    Heap::with_options(LinuxPlatform::new(), options).expect("there is memory")
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).expect("small and aligned")
}

/// Measures the same on both.
fn both(group: &mut Group<'_>, of: &str, run: &dyn Fn(&mut dyn Allocator)) {
    let heap = heap();
    let mut local = heap.local();
    group.bench_function(BenchmarkId::new("meshheap", of), |bencher| bencher.iter(|| run(&mut local)));
    group.bench_function(BenchmarkId::new("system", of), |bencher| bencher.iter(|| run(&mut System)));
}

fn pairs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("alloc_dealloc");
    for size in SIZES {
        both(&mut group, &size.to_string(), &|allocator| {
            let object = allocator.alloc(black_box(layout(size)));
            allocator.dealloc(black_box(object), layout(size));
        });
    }
    group.finish();
}

/// Far more than vectors hold: every other vector is a refill and a flush.
fn batches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("refill_flush");
    group.throughput(Throughput::Elements(BATCH as u64));
    for size in [16, 64, 256, 1024] {
        both(&mut group, &size.to_string(), &|allocator| {
            let objects: Vec<_> = (0..BATCH).map(|_| allocator.alloc(layout(size))).collect();
            for object in objects {
                allocator.dealloc(object, layout(size));
            }
        });
    }
    group.finish();
}

/// malloc's free knows no layout either: the same pair on both.
fn free_without_layout(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("free_without_layout");
    for size in [16, 64, 1024] {
        let heap = heap();
        let mut local = heap.local();
        group.bench_function(BenchmarkId::new("meshheap", size), |bencher| {
            bencher.iter(|| {
                let object = Allocator::alloc(&mut local, black_box(layout(size)));
                // SAFETY: just allocated, and not used any more.
                unsafe { local.free(black_box(object)) }.expect("the heap knows its own objects");
            });
        });
        group.bench_function(BenchmarkId::new("system", size), |bencher| {
            bencher.iter(|| {
                let object = Allocator::alloc(&mut System, black_box(layout(size)));
                Allocator::dealloc(&mut System, black_box(object), layout(size));
            });
        });
    }
    group.finish();
}

fn reallocs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("realloc");
    for (name, first, last) in [("16_to_4096", 16, 4096), ("4096_to_1MiB", 4096, 1 << 20)] {
        both(&mut group, name, &|allocator| {
            let (mut size, mut object) = (first, allocator.alloc(layout(first)));
            while size < last {
                object = allocator.realloc(object, layout(size), 2 * size);
                size *= 2;
            }
            allocator.dealloc(object, layout(last));
        });
    }
    group.finish();
}

fn zeroed(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("alloc_zeroed");
    for size in SIZES {
        group.throughput(Throughput::Bytes(size as u64));
        both(&mut group, &size.to_string(), &|allocator| {
            let object = allocator.alloc_zeroed(black_box(layout(size)));
            allocator.dealloc(black_box(object), layout(size));
        });
    }
    group.finish();
}

/// Fills 4 MiB with objects of 64 bytes and keeps a tenth, at random.
fn fragmented() -> Heap<LinuxPlatform> {
    let heap = heap();
    let mut local = heap.local();
    let mut rng = fastrand::Rng::with_seed(2);
    let objects: Vec<_> = (0..(4 << 20) / 64).map(|_| Allocator::alloc(&mut local, layout(64))).collect();
    for object in objects {
        if rng.u8(..10) != 0 {
            Allocator::dealloc(&mut local, object, layout(64));
        }
    }
    drop(local);
    heap
}

fn mesh_pass(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("mesh_pass");
    group.sample_size(20).sampling_mode(SamplingMode::Flat);
    group.bench_function("4MiB_of_64B_a_tenth_live", |bencher| {
        bencher.iter_batched(
            fragmented,
            |heap| {
                // SAFETY: nobody else uses the heap.
                black_box(unsafe { heap.mesh_at_safepoint(MeshBudget::UNLIMITED) });
                heap
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, pairs, batches, free_without_layout, reallocs, zeroed, mesh_pass);
criterion_main!(benches);
