//! A collector's sweep: all dead objects of 32 MiB freed at once, beside the same freed one by one; nine of ten are dead. Marks
//! lie in `MarkBits` or, for `Heap::sweep`, in a table by address.
//!
//!     cargo bench -p meshheap-bench --bench sweep

use core::alloc::Layout;
use core::hint::black_box;
use core::ptr::NonNull;
use core::time::Duration;
use std::time::Instant;

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use meshheap::{Heap, Options, PageIndex};
use meshheap_linux::LinuxPlatform;

const BYTES: usize = 32 << 20;

/// A heap full of objects of one size, those that are dead, and the marks of the others.
struct Filled {
    heap: Heap<LinuxPlatform>,
    dead: Vec<NonNull<u8>>,
    marks: Marks,
}

/// One bit for 16 bytes of address.
struct Marks {
    base: usize,
    bits: Vec<u64>,
}

impl Marks {
    fn at(&self, object: NonNull<u8>) -> (usize, u64) {
        let index = (object.addr().get() - self.base) / 16;
        (index / 64, 1 << (index % 64))
    }

    fn is_marked(&self, object: NonNull<u8>) -> bool {
        let (word, bit) = self.at(object);
        self.bits[word] & bit != 0
    }
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).expect("small and aligned")
}

/// In which order `Filled::dead` lists the dead objects.
#[derive(Clone, Copy)]
enum Order {
    Address,
    Random,
}

fn filled(size: usize, order: Order) -> Filled {
    let options = Options { seed: Some(1), arena_bytes: 4 * BYTES, ..Options::default() };
    let heap = Heap::with_options(LinuxPlatform::new(), options).expect("there is memory");
    let base = heap.page_address(PageIndex::new(0)).addr().get();
    let mut marks = Marks { base, bits: vec![0; 4 * BYTES / 16 / 64] };
    let mut rng = fastrand::Rng::with_seed(2);
    let mut local = heap.local();
    let mut dead: Vec<_> = (0..BYTES / size).map(|_| local.alloc(layout(size)).expect("there is memory")).collect();
    drop(local);
    dead.retain(|&object| {
        let is_live = rng.u8(..10) == 0;
        let (word, bit) = marks.at(object);
        marks.bits[word] |= if is_live { bit } else { 0 };
        !is_live
    });
    match order {
        Order::Address => dead.sort_unstable(),
        Order::Random => rng.shuffle(&mut dead),
    }
    heap.purge().expect("the system takes pages back");
    Filled { heap, dead, marks }
}

fn time(run: impl FnOnce()) -> Duration {
    let start = Instant::now();
    run();
    start.elapsed()
}

/// Frees each dead object through a local heap.
fn free_each(filled: &Filled, size: usize) -> Duration {
    let mut local = filled.heap.local();
    // SAFETY: the object is live, has this layout, and is not used any more.
    time(|| filled.dead.iter().for_each(|&object| unsafe { local.dealloc(object, layout(size)) }))
}

fn sweep_unmarked(filled: &Filled) -> Duration {
    let mut marks = filled.heap.marks().expect("there is memory");
    let live = filled.heap.objects().filter(|object| filled.marks.is_marked(object.start));
    live.for_each(|object| assert!(marks.mark(object.start)));
    // SAFETY: the only local heap is gone, and dead objects are not used any more.
    time(|| assert_eq!(unsafe { filled.heap.sweep_unmarked(&mut marks) }.objects, filled.dead.len()))
}

fn sweep(criterion: &mut Criterion) {
    for size in [16, 64, 256, 1024] {
        let mut group = criterion.benchmark_group(format!("sweep_{size}"));
        group.sample_size(20).sampling_mode(SamplingMode::Flat);
        group.throughput(Throughput::Elements(filled(size, Order::Address).dead.len() as u64));
        let mut measure = |name: &str, order: Order, free: &dyn Fn(&Filled) -> Duration| {
            group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
                bencher.iter_custom(|times| (0..times).map(|_| free(&filled(size, order))).sum());
            });
        };
        measure("sweep_unmarked", Order::Address, &sweep_unmarked);
        measure("sweep", Order::Address, &|filled| {
            let marks = &filled.marks;
            // SAFETY: as in `sweep_unmarked`.
            time(|| _ = black_box(unsafe { filled.heap.sweep(|object| marks.is_marked(object.start)) }))
        });
        measure("local_heap_in_address_order", Order::Address, &|filled| free_each(filled, size));
        measure("local_heap_in_random_order", Order::Random, &|filled| free_each(filled, size));
        measure("heap_in_address_order", Order::Address, &|filled| {
            // SAFETY: as in `free_each`.
            time(|| filled.dead.iter().for_each(|&object| unsafe { filled.heap.dealloc(object, layout(size)) }))
        });
        group.finish();
    }
}

criterion_group!(benches, sweep);
criterion_main!(benches);
