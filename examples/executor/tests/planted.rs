//! Two bugs as users make them, each beside the code without it: the model passes the one and finds the other.
#![cfg(loom)]

use core::alloc::Layout;
use core::ptr::NonNull;
use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicUsize, Ordering, fence};
use meshheap::{Heap, MeshBudget, SimulatedPlatform, model};

type SmallHeap = Arc<Heap<SimulatedPlatform>>;

/// An object that may go to another thread.
struct Handed<T>(NonNull<T>);

impl<T> Clone for Handed<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handed<T> {}

// SAFETY: what threads do with it is just what the models are to check.
unsafe impl<T> Send for Handed<T> {}

impl<T> Handed<T> {
    fn get(self) -> NonNull<T> {
        self.0
    }
}

/// An object of the heap that is freed with its last reference.
struct Counted {
    references: AtomicUsize,
    value: UnsafeCell<u32>,
}

impl Counted {
    /// One with two references.
    fn new(heap: &SmallHeap) -> Handed<Self> {
        let object = heap.alloc(Layout::new::<Self>()).expect("the heap has room").cast::<Self>();
        // SAFETY: the object was allocated for it.
        unsafe { object.write(Self { references: AtomicUsize::new(2), value: UnsafeCell::new(1) }) };
        Handed(object)
    }

    /// Gives a reference up; the last one takes the value out and frees the object.
    fn release(heap: &SmallHeap, this: Handed<Self>, ordering: Ordering) -> Option<u32> {
        // SAFETY: the caller has a reference.
        let counted = unsafe { this.get().as_ref() };
        if counted.references.fetch_sub(1, ordering) != 1 {
            return None;
        }
        fence(Ordering::Acquire);
        // SAFETY: this was the last reference: loom checks that all others' uses are over.
        let value = counted.value.with_mut(|value| unsafe { *value });
        // SAFETY: as above.
        unsafe { heap.dealloc(this.get().cast(), Layout::new::<Self>()) };
        Some(value)
    }
}

/// Two threads share an object. One changes it, and both give their references up with this ordering.
fn share_and_release(ordering: Ordering) {
    model::explore(move || {
        let heap = Arc::new(model::heap());
        let counted = Counted::new(&heap);
        let other = {
            let heap = heap.clone();
            model::spawn(move || {
                // SAFETY: this thread has a reference, and is the only one that changes the value.
                unsafe { counted.get().as_ref().value.with_mut(|value| *value = 2) };
                Counted::release(&heap, counted, ordering)
            })
        };
        let here = Counted::release(&heap, counted, ordering);
        let there = other.join().expect("it does not panic");
        assert_eq!(here.or(there), Some(2), "the value that was written last");
        model::assert_empty(&heap);
    });
}

#[test]
fn references_that_are_given_up_with_release_are_right() {
    share_and_release(Ordering::Release);
}

/// On x86-64 this never goes wrong.
#[test]
#[should_panic(expected = "Causality violation")]
fn references_that_are_given_up_relaxed_are_found() {
    share_and_release(Ordering::Relaxed);
}

const LAYOUT: Layout = Layout::new::<[usize; 2]>();

/// Two threads: one writes to objects, the other meshes. If `stops_the_world`, it waits until nobody writes.
fn write_and_mesh(stops_the_world: bool) {
    model::explore(move || {
        let heap = Arc::new(model::heap());
        let world = Arc::new(Mutex::new(()));
        let pair = model::meshable_pair(&heap, LAYOUT).map(|object| Handed(object.cast::<usize>()));
        let writer = {
            let (world, theirs) = (world.clone(), heap.clone());
            model::spawn(move || {
                let _running = world.lock().expect("no panic");
                for object in pair {
                    model::note_write(&theirs);
                    // SAFETY: the object is live and this thread's.
                    unsafe { object.get().write(7) };
                }
            })
        };
        let stopped = stops_the_world.then(|| world.lock().expect("no panic"));
        // SAFETY: with `stops_the_world` nobody writes meanwhile. Without, that is the bug.
        unsafe { heap.mesh_at_safepoint(MeshBudget::UNLIMITED) };
        drop(stopped);
        writer.join().expect("it does not panic");
        for object in pair {
            // SAFETY: the object is live, and its writer is gone.
            assert_eq!(unsafe { object.get().read() }, 7, "a write is there after the mesh");
            // SAFETY: as above; it is not used any more.
            unsafe { heap.dealloc(object.get().cast(), LAYOUT) };
        }
        model::assert_empty(&heap);
    });
}

#[test]
fn a_mesh_that_stops_the_world_is_right() {
    write_and_mesh(true);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_mesh_beside_a_writer_is_found() {
    write_and_mesh(false);
}
