//! For your own [loom](https://docs.rs/loom) tests: your code's threads, and this heap's own locks and atomics, in every
//! interleaving. Feature `loom`.
//!
//! With the feature and `RUSTFLAGS="--cfg loom"` the heap runs on loom's atomics and locks instead of the processor's. It is
//! the heap's real source; only its numbers are small, so that a model's state is: [`heap`] has pages of 64 bytes and size
//! classes of up to 64 (of which 16, 32 and 48 mesh), and whatever is larger gets pages of its own. A test allocates from it on loom's threads as it would
//! from any other, and calls [`Heap::mesh_at_safepoint`] where its program would. loom then finds
//!
//! * two threads that hold one object, or an object that is handed over without synchronisation: keep what the object holds
//!   in a `loom::cell::UnsafeCell`, and loom's atomics in objects as you would keep those of the standard library;
//! * a mesh step that is no safepoint: [`note_write`];
//! * what is freed twice, or never: [`assert_empty`];
//! * deadlocks.
//!
//! ```
//! use core::alloc::Layout;
//! use core::ptr::NonNull;
//! use std::sync::Arc;
//! use meshheap::{MeshBudget, model};
//!
//! /// An object that goes to another thread.
//! struct Handed(NonNull<u8>);
//! // SAFETY: it is handed to one thread, which frees it.
//! unsafe impl Send for Handed {}
//!
//! model::explore(|| {
//!     let heap = Arc::new(model::heap());
//!     let layout = Layout::new::<[usize; 2]>();
//!     // Two objects whose spans can mesh.
//!     let [first, second] = model::meshable_pair(&heap, layout).map(Handed);
//!     let other = {
//!         let heap = heap.clone();
//!         // SAFETY: the object is live, has this layout, and is not used any more.
//!         model::spawn(move || unsafe { heap.dealloc({ second }.0, layout) })
//!     };
//!     // SAFETY: the other thread writes to no object.
//!     unsafe { heap.mesh_at_safepoint(MeshBudget::UNLIMITED) };
//!     other.join().expect("it does not panic");
//!     // SAFETY: as above.
//!     unsafe { heap.dealloc(first.0, layout) };
//!     model::assert_empty(&heap);
//! });
//! ```
//!
//! Without `--cfg loom` everything here works as well: the body runs once, on an ordinary small heap. So one test serves both.
//!
//! # How to keep a model small
//! * One or two threads beside the test's own (loom takes five in all, one of which is [`explore`]'s), a few operations each. Each lock and each atomic access is a place where loom
//!   may go on with another thread.
//! * One race a test. Prepare on one thread what need not race: before the first `spawn` there is nothing to interleave.
//! * `LOOM_MAX_PREEMPTIONS=2`, the default here, finds nearly all bugs; 3 is for a night.
//! * No loops that wait: use loom's `Mutex`, `Condvar` or `Notify`.

use core::alloc::Layout;
use core::ptr::NonNull;

pub use crate::base::sync::exploring::JoinHandle;

use crate::base::sync::exploring;
use crate::ds::size_class::of_layout;
use crate::heap::Heap;
use crate::platform::simulated::SimulatedPlatform;
use crate::span::arena::Options;

/// Bytes of a page in [`heap`].
#[cfg(all(loom, feature = "loom"))]
pub const PAGE_SIZE: usize = 64;
/// Bytes of a page in [`heap`].
#[cfg(not(all(loom, feature = "loom")))]
pub const PAGE_SIZE: usize = 4096;

/// Pages of [`heap`].
const PAGES: usize = 64;

/// Runs `body` once for each interleaving of the threads that it starts by [`spawn`], up to a bound of
/// preemptions: that of the environment variable `LOOM_MAX_PREEMPTIONS`, or 2. Loom's other variables (`LOOM_LOG`,
/// `LOOM_CHECKPOINT_FILE`, ...) work, too. Without `--cfg loom`, `body` runs once.
///
/// # Panics
/// An interleaving panics, deadlocks, races, or takes more than 20,000 steps.
pub fn explore(body: impl Fn() + Sync + Send + 'static) {
    exploring::explore(body);
}

/// A thread of a model: loom's `thread::spawn`, with a stack that is large enough for a mesh pass and for a panic's backtrace.
/// Without `--cfg loom` an ordinary thread.
pub fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    exploring::spawn(body)
}

/// A small heap on a simulated platform, placed in the same way each time, as a model has to be. To be made and dropped
/// within [`explore`].
///
/// # Panics
/// There is no memory for it.
#[must_use]
pub fn heap() -> Heap<SimulatedPlatform> {
    heap_on(SimulatedPlatform::new(PAGE_SIZE))
}

/// The same on a platform of the test's own: with a limit of mappings, with calls that fail.
///
/// # Panics
/// As for [`heap`], or the platform refuses the memory.
#[must_use]
pub fn heap_on(platform: SimulatedPlatform) -> Heap<SimulatedPlatform> {
    let options = Options { arena_bytes: PAGES * PAGE_SIZE, seed: Some(1), ..Options::default() };
    Heap::with_options(platform, options).expect("a small heap has room")
}

/// Two objects of `layout`, each alone in a span, in slots that do not overlap: the next mesh step lays the one's span onto
/// the other's. For a heap from which nothing of this size was allocated yet.
///
/// # Panics
/// Objects of this layout are never meshed, or the heap is not fresh or has no room.
#[must_use]
pub fn meshable_pair(heap: &Heap<SimulatedPlatform>, layout: Layout) -> [NonNull<u8>; 2] {
    let class = of_layout(layout).expect("large objects are never meshed");
    let cut = heap.arena().cut(class);
    assert!(cut.can_mesh(), "a span has {} slots of {} bytes: they are never meshed", cut.slots, cut.size);
    let map = heap.arena().map();
    let place = |object| {
        let page = map.page_of(object).expect("it was just allocated");
        let head = map.span_head(page, cut.pages);
        (head, map.offset_in(head, object))
    };
    let alloc = || heap.alloc(layout).expect("the heap has room");
    let first = alloc();
    let mut others: alloc::vec::Vec<_> = (1..2 * cut.slots).map(|_| alloc()).collect();
    let ((head, offset), mut places) = (place(first), others.iter().map(|&object| place(object)));
    let partner = places.position(|(other, at)| other != head && at != offset).expect("the heap was fresh");
    let second = others.swap_remove(partner);
    for object in others {
        // SAFETY: it was allocated just now, and nobody else knows it.
        unsafe { heap.dealloc(object, layout) };
    }
    [first, second]
}

/// Tells loom that this thread writes to an object of the heap now. Loom sees no plain writes: without this it cannot know that
/// a mesh step runs at the same time. Call it where your program writes to objects: **a mesh at what is no safepoint then
/// fails the model**. Without `--cfg loom`, or on a platform with a write barrier, nothing happens.
///
/// # Panics
/// Under loom, if this thread is not ordered with all mesh steps so far.
pub fn note_write(heap: &Heap<SimulatedPlatform>) {
    heap.platform().note_write();
}

/// Asserts that every object was freed, once, and that nothing else is left of them. Local heaps must have been dropped or
/// flushed, and no other thread may use the heap.
///
/// # Panics
/// It is not so.
pub fn assert_empty(heap: &Heap<SimulatedPlatform>) {
    heap.purge().expect("a simulated platform fails only when asked to");
    let statistics = heap.statistics();
    assert_eq!(statistics.misuses, 0, "a wrong pointer was freed, or an object twice");
    assert_eq!(statistics.taken_bytes, 0, "bytes of objects were not freed, or their local heap was not flushed");
    assert_eq!((statistics.span_bytes, statistics.aliased_bytes, statistics.mappings), (0, 0, 0), "pages are left");
    #[cfg(feature = "check")]
    heap.check_invariants();
}

#[cfg(all(test, feature = "check"))]
mod tests {
    use core::alloc::Layout;

    use super::{assert_empty, explore, heap, meshable_pair};
    use crate::MeshBudget;

    #[test]
    fn model_helper_makes_a_pair_that_meshes() {
        explore(|| {
            let heap = heap();
            let layout = Layout::new::<[usize; 2]>();
            let pair = meshable_pair(&heap, layout);
            // SAFETY: there is no other thread.
            let step = unsafe { heap.mesh_at_safepoint(MeshBudget::UNLIMITED) };
            assert_eq!(step.pages_freed, 1);
            // SAFETY: both are live, and not used afterwards.
            pair.into_iter().for_each(|object| unsafe { heap.dealloc(object, layout) });
            assert_empty(&heap);
        });
    }

    #[test]
    #[should_panic(expected = "were not freed")]
    fn model_helper_finds_what_was_not_freed() {
        explore(|| {
            let heap = heap();
            heap.alloc(Layout::new::<u8>()).expect("room");
            assert_empty(&heap);
        });
    }
}
