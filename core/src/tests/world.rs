//! What the models share: a heap on a small simulated platform, spans with known objects, and witnesses.

use core::alloc::Layout;
use core::ptr::NonNull;
use std::vec::Vec;

use crate::base::sync::UnsafeCell;
use crate::base::sync::testing::Arc;
use crate::base::units::PageIndex;
use crate::ds::size_class::of_layout;
use crate::mesh::pair::{Outcome, Writers, mesh};
use crate::mesh::row::Row;
use crate::{Heap, Options, SimulatedPlatform};

/// Pages are small under loom, so that a span has four slots of 16 bytes.
#[cfg(all(loom, feature = "loom"))]
pub(crate) const PAGE_SIZE: usize = 64;
#[cfg(not(all(loom, feature = "loom")))]
pub(crate) const PAGE_SIZE: usize = 4096;

/// The models' objects.
pub(crate) const LAYOUT: Layout = Layout::new::<[u64; 2]>();

/// Slots of a span of them.
pub(crate) const SLOTS: usize = PAGE_SIZE / LAYOUT.size();

/// An object that may go to another thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Object(pub(crate) NonNull<u8>);

// SAFETY: the models hand each object to one thread at a time.
unsafe impl Send for Object {}
// SAFETY: as above; a shared object is only a number.
unsafe impl Sync for Object {}

impl Object {
    /// Its first byte.
    pub(crate) fn start(self) -> NonNull<u8> {
        self.0
    }
}

/// A heap under test.
#[derive(Clone)]
pub(crate) struct World(pub(crate) Arc<Heap<SimulatedPlatform>>);

impl World {
    pub(crate) fn new() -> Self {
        let options = Options { arena_bytes: 8 * PAGE_SIZE, seed: Some(1), ..Options::default() };
        let heap = Heap::with_options(SimulatedPlatform::new(PAGE_SIZE), options);
        Self(Arc::new(heap.expect("the platform has room")))
    }

    pub(crate) fn alloc(&self) -> Object {
        Object(self.0.alloc(LAYOUT).expect("the arena has room"))
    }

    pub(crate) fn free(&self, object: Object) {
        // SAFETY: the models free each object once.
        unsafe { self.0.free(object.start()) }.expect("the object is live");
    }

    /// A span in which just the slots numbered `kept` are taken.
    pub(crate) fn span_with(&self, kept: &[usize]) -> Vec<Object> {
        let objects: Vec<_> = (0..SLOTS).map(|_| self.alloc()).collect();
        for (slot, &object) in objects.iter().enumerate() {
            assert_eq!(self.page_of(object), self.page_of(objects[0]), "a fresh span serves all of them");
            if !kept.contains(&slot) {
                self.free(object);
            }
        }
        kept.iter().map(|&slot| objects[slot]).collect()
    }

    /// Two spans in which just these slots are taken; no claim from one fills the other.
    pub(crate) fn two_spans(&self, first: &[usize], second: &[usize]) -> (Vec<Object>, Vec<Object>) {
        let mut spans = self.spans(&[first, second]).into_iter();
        let mut next = || spans.next().expect("as many as were asked for");
        (next(), next())
    }

    /// Neighbouring spans in which just these slots are taken; no claim from one fills another.
    pub(crate) fn spans(&self, kept: &[&[usize]]) -> Vec<Vec<Object>> {
        let all: Vec<_> = (0..kept.len() * SLOTS).map(|_| self.alloc()).collect();
        let keep = |(objects, kept): (&[Object], &&[usize])| {
            for (slot, &object) in objects.iter().enumerate() {
                if !kept.contains(&slot) {
                    self.free(object);
                }
            }
            kept.iter().map(|&slot| objects[slot]).collect()
        };
        all.chunks(SLOTS).zip(kept).map(keep).collect()
    }

    /// Under loom, fills the depot, which then takes one vector: local heaps that flush release their slots. Returns objects
    /// that share the span of the depot's slots.
    pub(crate) fn fill_depot(&self) -> Vec<Object> {
        #[cfg(all(loom, feature = "loom"))]
        {
            let shared = [self.alloc(), self.alloc()];
            let mut local = self.0.local();
            let object = local.alloc(LAYOUT).expect("the arena has room");
            // SAFETY: the object is live and is not used afterwards.
            unsafe { local.dealloc(object, LAYOUT) };
            shared.into()
        }
        #[cfg(not(all(loom, feature = "loom")))]
        Vec::new()
    }

    pub(crate) fn page_of(&self, object: Object) -> PageIndex {
        self.0.arena().map().page_of(object.start()).expect("the object is the heap's")
    }

    /// Lays the span of `source` onto that of `keeper`.
    pub(crate) fn mesh(&self, keeper: Object, source: Object) -> Outcome {
        self.mesh_with(Writers::AtSafepoint, keeper, source)
    }

    /// The same with or without the calls of a write barrier.
    pub(crate) fn mesh_with(&self, writers: Writers, keeper: Object, source: Object) -> Outcome {
        let class = of_layout(LAYOUT).expect("small");
        let span = |object| Row::single(class, self.page_of(object));
        // SAFETY: the models' threads write to no object.
        unsafe { mesh(self.0.arena(), span(keeper), span(source), usize::MAX, writers) }
    }

    /// Lays the row of two spans from that of `source` on onto that from the span of `keeper` on.
    pub(crate) fn mesh_rows(&self, keeper: Object, source: Object) -> Outcome {
        let class = of_layout(LAYOUT).expect("small");
        let row = |object| Row { class, head: self.page_of(object), spans: 2 };
        // SAFETY: the models' threads write to no object.
        unsafe { mesh(self.0.arena(), row(keeper), row(source), usize::MAX, Writers::AtSafepoint) }
    }

    /// Checks the invariants, and that after `objects` are freed the heap holds nothing.
    pub(crate) fn finish(&self, objects: impl IntoIterator<Item = Object>) {
        self.0.check_invariants();
        objects.into_iter().for_each(|object| self.free(object));
        self.0.purge().expect("nothing fails");
        self.0.check_invariants();
        let statistics = self.0.statistics();
        let held = (statistics.taken_bytes, statistics.span_bytes, statistics.aliased_bytes, statistics.mappings);
        assert_eq!(held, (0, 0, 0, 0), "no free was lost and none doubled");
        assert_eq!(statistics.misuses, 0);
    }
}

/// One cell a slot: whoever holds an object writes its cell, so that loom sees two holders, or a hand-over that
/// synchronises nothing.
pub(crate) struct Witnesses {
    cells: Vec<UnsafeCell<usize>>,
    base: usize,
}

// SAFETY: a cell is written only by the holder of its object: that this is so is what the models check.
unsafe impl Sync for Witnesses {}
// SAFETY: as above.
unsafe impl Send for Witnesses {}

impl Witnesses {
    pub(crate) fn new(world: &World) -> Self {
        #[cfg(all(loom, feature = "loom"))]
        let cell = || UnsafeCell::new(0);
        #[cfg(not(all(loom, feature = "loom")))]
        let cell = UnsafeCell::default;
        let cells = (0..8 * SLOTS).map(|_| cell()).collect();
        Self { cells, base: world.0.arena().map().base().addr().get() }
    }

    /// Says that the caller holds `object`.
    pub(crate) fn hold(&self, object: Object) {
        let slot = (object.start().addr().get() - self.base) / LAYOUT.size();
        // SAFETY: the caller holds the object, and so the cell.
        self.cells[slot].with_mut(|cell| unsafe { *cell += 1 });
    }
}
