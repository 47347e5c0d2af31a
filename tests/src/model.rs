//! The reference model: every object that the heap lent out, where it is, how long it is and what it holds.

use core::alloc::Layout;
use core::ptr::NonNull;
use std::collections::BTreeMap;

use meshheap::{AllocError, Heap, LocalHeap, MeshBudget, Platform, StepEnd};

use crate::op::{Op, Size};

/// Local heaps that a model uses in turn.
const LOCALS: usize = 3;

/// Objects of a [`Op::Fragment`] at the most.
const FRAGMENT_OBJECTS: usize = 400;

/// An object that the heap lent out. Every byte of it is known from its seed.
#[derive(Clone, Copy, Debug)]
struct Object {
    start: NonNull<u8>,
    layout: Layout,
    seed: u8,
}

// SAFETY: an object is plain memory; the model hands it to one thread at a time.
unsafe impl Send for Object {}

impl Object {
    fn byte(&self, offset: usize) -> u8 {
        (offset as u8).wrapping_mul(31).wrapping_add(self.seed)
    }

    fn fill(&self, from: usize) {
        for offset in from..self.layout.size() {
            // SAFETY: the object holds its layout's size and is ours.
            let place = unsafe { self.start.add(offset) };
            // SAFETY: as above.
            unsafe { place.write(self.byte(offset)) };
        }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the object holds its layout's size, all of it written.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) }
    }

    fn verify(&self, length: usize) {
        let wrong = (0..length).find(|&offset| self.bytes()[offset] != self.byte(offset));
        assert_eq!(wrong, None, "I5: every byte of {self:?} is still there");
    }
}

/// A heap under test, with what must be true of it.
#[derive(Debug)]
pub struct Model<'h, P: Platform> {
    heap: &'h Heap<P>,
    locals: [LocalHeap<&'h Heap<P>>; LOCALS],
    current: usize,
    through_heap: bool,
    objects: Vec<Object>,
    /// Start and end of each object: none may overlap another (I3).
    lent: BTreeMap<usize, usize>,
    next_seed: u8,
}

impl<'h, P: Platform> Model<'h, P> {
    /// A model of an empty heap.
    pub fn new(heap: &'h Heap<P>) -> Self {
        Self {
            heap,
            locals: core::array::from_fn(|_| heap.local()),
            current: 0,
            through_heap: false,
            objects: Vec::new(),
            lent: BTreeMap::new(),
            next_seed: 0,
        }
    }

    /// Carries out one operation and checks what it promises.
    pub fn apply(&mut self, op: Op) {
        match op {
            Op::Alloc(size) => drop(self.alloc(size, false)),
            Op::AllocZeroed(size) => drop(self.alloc(size, true)),
            Op::Fragment(size, count, seed) => self.fragment(size, count, seed),
            Op::Dealloc(index) => self.free(index, true),
            Op::Free(index) => self.free(index, false),
            Op::Realloc(index, size) => self.realloc(index, size),
            Op::HandOver(index, count, size) => self.hand_over(index, count, size),
            Op::Mesh(pages, mappings) => {
                let budget = MeshBudget::UNLIMITED.with_pages(pages.into()).with_mappings(mappings.into());
                self.mesh(budget);
            }
            Op::MeshAll => while self.mesh(MeshBudget::UNLIMITED) == StepEnd::Budget {},
            Op::Fork => self.fork(),
            Op::Purge => drop(self.heap.purge()),
            Op::Switch(local) => self.current = usize::from(local) % LOCALS,
            Op::Flush => self.locals[self.current].flush(),
            Op::Renew => self.locals[self.current] = self.heap.local(),
            Op::ThroughHeap(through_heap) => self.through_heap = through_heap,
        }
    }

    /// Verifies every byte of every object.
    pub fn verify(&self) {
        for object in &self.objects {
            object.verify(object.layout.size());
        }
    }

    /// Flushes the local heaps and frees every object.
    pub fn free_all(&mut self) {
        while !self.objects.is_empty() {
            self.free(0, true);
        }
        self.locals.iter_mut().for_each(LocalHeap::flush);
    }

    /// Objects lent out.
    pub fn live(&self) -> usize {
        self.objects.len()
    }

    fn alloc(&mut self, size: Size, zeroed: bool) -> Result<(), AllocError> {
        let Ok(layout) = Layout::from_size_align(size.bytes, 1 << size.align_bits) else { return Ok(()) };
        let local = &mut self.locals[self.current];
        let start = match (self.through_heap, zeroed) {
            (true, true) => self.heap.alloc_zeroed(layout)?,
            (true, false) => self.heap.alloc(layout)?,
            (false, true) => local.alloc_zeroed(layout)?,
            (false, false) => local.alloc(layout)?,
        };
        self.next_seed = self.next_seed.wrapping_add(1);
        let object = Object { start, layout, seed: self.next_seed };
        if zeroed {
            assert!(object.bytes().iter().all(|&byte| byte == 0), "zeroed memory is zero");
        }
        self.lend(object);
        Ok(())
    }

    fn lend(&mut self, object: Object) {
        let start = object.start.addr().get();
        assert_eq!(start % object.layout.align(), 0, "{object:?} is aligned");
        let usable = self.heap.usable_size(object.start).expect("a live object has a size");
        assert!(usable >= object.layout.size(), "{object:?} holds its size");
        assert!(self.heap.contains(object.start));
        let before = self.lent.range(..start + usable).next_back();
        assert!(before.is_none_or(|(_, &end)| end <= start), "I3: {object:?} overlaps {before:?}");
        self.lent.insert(start, start + usable);
        object.fill(0);
        self.objects.push(object);
    }

    fn take(&mut self, index: usize) -> Option<Object> {
        if self.objects.is_empty() {
            return None;
        }
        let object = self.objects.swap_remove(index % self.objects.len());
        object.verify(object.layout.size());
        self.lent.remove(&object.start.addr().get());
        Some(object)
    }

    fn free(&mut self, index: usize, with_layout: bool) {
        let Some(object) = self.take(index) else { return };
        let local = &mut self.locals[self.current];
        // SAFETY: the object is live, has this layout and is forgotten here.
        match (self.through_heap, with_layout) {
            // SAFETY: as above.
            (true, true) => unsafe { self.heap.dealloc(object.start, object.layout) },
            // SAFETY: as above.
            (true, false) => unsafe { self.heap.free(object.start) }.expect("a live object can be freed"),
            // SAFETY: as above.
            (false, true) => unsafe { local.dealloc(object.start, object.layout) },
            // SAFETY: as above.
            (false, false) => unsafe { local.free(object.start) }.expect("a live object can be freed"),
        }
    }

    fn realloc(&mut self, index: usize, size: Size) {
        let Some(object) = self.take(index) else { return };
        let local = &mut self.locals[self.current];
        let outcome = if self.through_heap {
            // SAFETY: the object is live and has this layout.
            unsafe { self.heap.realloc(object.start, object.layout, size.bytes) }
        } else {
            // SAFETY: as above.
            unsafe { local.realloc(object.start, object.layout, size.bytes) }
        };
        match outcome {
            Ok(start) => {
                let layout = Layout::from_size_align(size.bytes, object.layout.align()).expect("it was reallocated");
                let moved = Object { start, layout, ..object };
                moved.verify(object.layout.size().min(size.bytes));
                self.lend(moved);
            }
            Err(_) => self.lend(object),
        }
    }

    fn fragment(&mut self, size: Size, count: u8, seed: u64) {
        let first = self.objects.len();
        for _ in 0..usize::from(count) * FRAGMENT_OBJECTS / 256 {
            if self.alloc(size, false).is_err() {
                break;
            }
        }
        let mut random = seed | 1;
        for index in (first..self.objects.len()).rev() {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            if !random.is_multiple_of(8) {
                self.free(index, true);
            }
        }
    }

    /// Another thread frees up to `count` objects and allocates as many, which come back to this one.
    fn hand_over(&mut self, index: usize, count: u8, size: Size) {
        let count = usize::from(count % 32);
        let Ok(layout) = Layout::from_size_align(size.bytes, 1 << size.align_bits) else { return };
        let handed: Vec<Object> = (0..count).filter_map(|step| self.take(index.wrapping_add(step))).collect();
        let heap = self.heap;
        let made: Vec<Object> = std::thread::scope(|scope| {
            let worker = scope.spawn(move || {
                let mut local = heap.local();
                for object in &handed {
                    object.verify(object.layout.size());
                    // SAFETY: the object is live, has this layout and is forgotten here.
                    unsafe { local.dealloc(object.start, object.layout) };
                }
                let make = |seed| Some(Object { start: local.alloc(layout).ok()?, layout, seed: seed as u8 });
                (0..count).map_while(make).collect()
            });
            worker.join().expect("the worker does not panic")
        });
        made.into_iter().for_each(|object| self.lend(object));
    }

    fn fork(&self) {
        // Refused, it leaves everything as it was.
        let _ = self.heap.fork_prepare();
        // SAFETY: this thread called `fork_prepare` just now.
        unsafe { self.heap.fork_done() };
        self.verify();
    }

    fn mesh(&mut self, budget: MeshBudget) -> StepEnd {
        let step = if self.heap.platform().facts().write_barrier {
            self.heap.mesh(budget)
        } else {
            // SAFETY: no other thread runs, and this one does not write meanwhile.
            unsafe { self.heap.mesh_at_safepoint(budget) }
        };
        self.verify();
        assert!(step.pages_freed <= budget.pages as usize + 16, "{step:?} keeps to {budget:?}");
        assert!(step.mappings <= budget.mappings, "{step:?} keeps to {budget:?}");
        let statistics = self.heap.statistics();
        assert!(statistics.mappings <= statistics.mapping_budget, "I7: mappings stay within the budget");
        // A step that may add nothing makes no progress: callers would wait for ever.
        if step.pages_freed == 0 && step.pages_purged == 0 { StepEnd::PassDone } else { step.end }
    }
}
