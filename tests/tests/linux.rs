//! Operations against the reference model on Linux, where a mesh really changes what addresses show: every byte of every
//! live object is verified after every mesh.

use core::alloc::Layout;
use core::ptr::NonNull;

use meshheap::{Heap, Options};
use meshheap_linux::LinuxPlatform;
use meshheap_tests::sparse::{assert_untouched, mesh_all, sparse_objects};
use meshheap_tests::{Model, Op};
use quickcheck::{QuickCheck, TestResult};

fn heap(arena_bytes: usize, seed: u64) -> Heap<LinuxPlatform> {
    let options = Options { arena_bytes, seed: Some(seed), ..Options::default() };
    Heap::with_options(LinuxPlatform::new(), options).expect("Linux has room")
}

#[test]
fn any_operations_keep_every_object() {
    fn property(ops: Vec<Op>, seed: u64) -> TestResult {
        let heap = heap(8 << 20, seed);
        let mut model = Model::new(&heap);
        for &op in &ops {
            model.apply(op);
        }
        model.verify();
        heap.check_invariants();
        model.free_all();
        heap.check_invariants();
        TestResult::passed()
    }
    QuickCheck::new().tests(150).quickcheck(property as fn(Vec<Op>, u64) -> TestResult);
}

#[test]
fn threads_may_allocate_and_free_while_a_pass_runs() {
    let layout = Layout::new::<[u64; 4]>();
    let heap = heap(1 << 30, 11);
    let kept = sparse_objects(&heap, layout, 100_000, 8);
    let (first, second) = kept.split_at(kept.len() / 2);
    std::thread::scope(|scope| {
        let heap = &heap;
        let freed: Vec<usize> = second.iter().map(|object| object.addr().get()).collect();
        let objects = SendObjects(second.to_vec());
        scope.spawn(move || {
            let objects = objects;
            let mut local = heap.local();
            for (object, address) in objects.0.into_iter().zip(freed) {
                // SAFETY: the object is live and nobody writes to it.
                assert_eq!(unsafe { object.cast::<usize>().read() }, address);
                // SAFETY: the object is live and is not used afterwards.
                unsafe { local.dealloc(object, layout) };
                // Allocated, never written: this thread keeps to the safepoint's terms.
                let other = local.alloc(layout).expect("the arena has room");
                // SAFETY: as above.
                unsafe { local.dealloc(other, layout) };
            }
        });
        for _ in 0..20 {
            mesh_all(heap);
        }
    });
    assert_untouched(first);
    heap.check_invariants();
}

struct SendObjects(Vec<NonNull<u8>>);
// SAFETY: the objects are handed to one thread, which alone goes on with them.
unsafe impl Send for SendObjects {}

#[test]
fn alignments_of_a_gibibyte_are_served_and_the_skipped_pages_stay_usable() {
    let heap = Heap::new(LinuxPlatform::new()).expect("Linux has room");
    let mut local = heap.local();
    let mut objects = Vec::new();
    for bits in [21, 24, 28, 30, 30, 30] {
        let layout = Layout::from_size_align(5000, 1 << bits).expect("valid");
        let object = local.alloc(layout).expect("the arena has room");
        assert_eq!(object.addr().get() % layout.align(), 0);
        // SAFETY: the object holds its layout.
        unsafe { object.write_bytes(1, layout.size()) };
        objects.push((object, layout));
    }
    let large = Layout::from_size_align(512 << 20, 16).expect("valid");
    let between = local.alloc(large).expect("the skipped pages serve it");
    assert!(between < objects[5].0, "it lies between the aligned ones");
    heap.check_invariants();
    for (object, layout) in objects.into_iter().chain([(between, large)]) {
        // SAFETY: the object is live and is not used afterwards.
        unsafe { local.dealloc(object, layout) };
    }
    heap.check_invariants();
    let beyond = Layout::from_size_align(1, 1 << 40).expect("valid");
    assert!(local.alloc(beyond).is_err(), "beyond the arena");
}
