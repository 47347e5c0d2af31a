//! Sampled allocations: what a profile says of the program is true on average, and what it says of live objects is exact.

use core::alloc::Layout;
use core::ptr::NonNull;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;

use meshheap::{Heap, Options, Profiler, Sample, Sampling, SimulatedPlatform};
use meshheap_linux::LinuxPlatform;
use meshheap_tests::scene::{LAYOUT, PAGE, whole_pages};

/// A profile that asserts that samples come and go in order.
#[derive(Default)]
struct Profile {
    /// By size: samples and the bytes that they stand for.
    allocated: Mutex<BTreeMap<usize, (usize, usize)>>,
    /// Weight of each sampled object that is alive.
    live: Mutex<BTreeMap<usize, usize>>,
}

impl Profile {
    fn live(&self) -> Vec<usize> {
        self.live.lock().expect("not poisoned").keys().copied().collect()
    }
}

impl Profiler for Profile {
    fn allocated(&self, sample: Sample) {
        let mut allocated = self.allocated.lock().expect("not poisoned");
        let (samples, bytes) = allocated.entry(sample.size).or_default();
        (*samples, *bytes) = (*samples + 1, *bytes + sample.weight_bytes);
        let mut live = self.live.lock().expect("not poisoned");
        let before = live.insert(sample.object.addr().get(), sample.weight_bytes);
        assert_eq!(before, None, "the object before at {:?} was told to be freed", sample.object);
    }

    fn freed(&self, object: NonNull<u8>) {
        let gone = self.live.lock().expect("not poisoned").remove(&object.addr().get());
        assert!(gone.is_some(), "{object:?} was sampled");
    }
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 16).expect("valid")
}

#[test]
fn samples_stand_for_what_was_allocated_of_each_size() {
    let options = Options { seed: Some(4), ..Options::default() };
    let heap = Heap::with_options(LinuxPlatform::new(), options).expect("Linux has room");
    let sampling = Sampling::new(&heap, 8192, Profile::default()).expect("Linux has room");
    let mut local = sampling.local();
    // 32 MiB of each size, mixed; the largest objects hold many points each.
    let sizes = [16, 48, 1000, 8192, 100_000, 4 << 20];
    let rounds = (4_usize << 20) / 16;
    for round in 0..rounds {
        for &size in &sizes {
            if round % (size / 16) == 0 {
                for _ in 0..8 {
                    let object = local.alloc(layout(size)).expect("the arena has room");
                    // SAFETY: the object is live and is not used afterwards.
                    unsafe { local.dealloc(object, layout(size)) };
                }
            }
        }
    }
    let allocated = sampling.profiler().allocated.lock().expect("not poisoned");
    for &size in &sizes {
        let truth = rounds.div_ceil(size / 16) * 8 * size;
        let (samples, estimate) = allocated[&size];
        let off = estimate as f64 / truth as f64 - 1.0;
        // Some 4096 points fall into each size's bytes: one deviation is a 64th.
        assert!(off.abs() < 4.0 / 64.0, "size {size}: {estimate} of {truth} bytes by {samples} samples");
    }
    // An object much smaller than the interval is sampled in proportion to its size; a large one always, once.
    assert!(allocated[&16].0.abs_diff(4096) < 256, "{}", allocated[&16].0);
    assert_eq!(allocated[&(4 << 20)].0, 8);
    assert!(sampling.profiler().live().is_empty(), "every free was told");
}

#[test]
fn with_an_interval_of_one_the_profile_has_each_live_object_whatever_happens_to_it() {
    let platform = SimulatedPlatform::new(PAGE);
    let options = Options { arena_bytes: 8 << 20, seed: Some(4), ..Options::default() };
    let heap = Heap::with_options(&platform, options).expect("the platform has room");
    let sampling = Sampling::new(&heap, 1, Profile::default()).expect("the platform has room");
    let mut local = sampling.local();
    let mut objects: Vec<(NonNull<u8>, usize)> = Vec::new();
    let mut random = 7_usize;
    for _ in 0..5000 {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let (choice, size) = (random >> 60, [0, 24, 64, 700, 3000, 50_000][(random >> 40) % 6]);
        let index = (random >> 20) % objects.len().max(1);
        match choice {
            0..8 if objects.len() < 60 => {
                let object = if choice == 0 { local.alloc_zeroed(layout(size)) } else { local.alloc(layout(size)) };
                objects.push((object.expect("the arena has room"), size));
            }
            8..11 if !objects.is_empty() => {
                let (object, old) = objects[index];
                // SAFETY: the object is live and has this layout.
                let moved = unsafe { local.realloc(object, layout(old), size) };
                objects[index] = (moved.expect("the arena has room"), size);
            }
            11 if !objects.is_empty() => {
                let (object, size) = objects[index];
                // SAFETY: the object is live; a failed call leaves it as it was.
                unsafe { local.realloc(object, layout(size), 1 << 40) }.expect_err("it is beyond the arena");
            }
            _ if !objects.is_empty() => {
                let (object, size) = objects.swap_remove(index);
                if choice % 2 == 0 {
                    // SAFETY: the object is live and is not used afterwards.
                    unsafe { local.dealloc(object, layout(size)) };
                } else {
                    // SAFETY: as above.
                    unsafe { local.free(object) }.expect("it is live");
                }
            }
            _ => {}
        }
        let mut expected: Vec<_> = objects.iter().map(|(object, _)| object.addr().get()).collect();
        expected.sort_unstable();
        assert_eq!(sampling.profiler().live(), expected);
    }
    let live = sampling.profiler().live.lock().expect("not poisoned");
    for (object, size) in &objects {
        assert_eq!(live[&object.addr().get()], (*size).max(1), "each byte is a point");
    }
}

#[test]
fn frees_by_other_threads_are_told() {
    let heap = Heap::new(LinuxPlatform::new()).expect("Linux has room");
    let sampling = Sampling::new(&heap, 256, Profile::default()).expect("Linux has room");
    let mut local = sampling.local();
    for _ in 0..20 {
        let mut make = |layout| (local.alloc(layout).expect("room").expose_provenance().get(), layout);
        let mut all: Vec<_> = (0..2000).map(|_| make(LAYOUT)).collect();
        all.push(make(whole_pages(10)));
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut other = sampling.local();
                for &(address, layout) in &all {
                    let object = NonNull::new(core::ptr::with_exposed_provenance_mut(address)).expect("not null");
                    // SAFETY: the object is live and is not used afterwards.
                    unsafe { other.dealloc(object, layout) };
                    // Its place may be sampled again at once.
                    let again = other.alloc(layout).expect("room");
                    // SAFETY: as above.
                    unsafe { other.dealloc(again, layout) };
                }
            });
        });
    }
    assert!(sampling.profiler().live().is_empty());
    let samples = sampling.profiler().allocated.lock().expect("not poisoned")[&LAYOUT.size()].0;
    assert!(samples > 1000, "{samples} samples of 80,000 objects");
}

#[test]
fn a_pointer_that_is_not_the_heaps_is_an_error_and_no_free() {
    let platform = SimulatedPlatform::new(PAGE);
    let options = Options { arena_bytes: 1 << 20, ..Options::default() };
    let heap = Heap::with_options(&platform, options).expect("the platform has room");
    let sampling = Sampling::new(&heap, 1, Profile::default()).expect("the platform has room");
    let mut local = sampling.local();
    let object = local.alloc(layout(100)).expect("room");
    // SAFETY: the pointer stays within the object.
    let inner = unsafe { object.add(16) };
    // SAFETY: it is not the start of an object, which is an error.
    unsafe { local.free(inner) }.expect_err("it points into an object");
    assert_eq!(sampling.profiler().live(), [object.addr().get()]);
}
