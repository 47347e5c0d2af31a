//! The fast path: one thread's (worker's, isolate's) set of shuffle vectors over a shared heap.
//!
//! ```text
//!   alloc:  class of the layout ── pop ──▶ object          dealloc:  class of the layout ── push
//!           vector empty: take the next full one,                    vector full: keep it, take an empty one;
//!                         else refill                                             flush one once they are too many
//! ```
//!
//! Vectors are small, and a class keeps as many full ones as it needs: all vectors together stay below
//! [`LOCAL_HEAP_BYTES`]. For one more, a class that is used little gives one up (second chance, by a clock hand), to the
//! depot, so that no slot is touched.

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;

use crate::base::config::{CLASS_COUNT, LOCAL_HEAP_BYTES};
use crate::base::error::{AllocError, Misuse};
use crate::base::rng::Rng;
use crate::base::units::SizeClass;
use crate::ds::shuffle_vector::{Object, ShuffleVector, VectorStack};
use crate::ds::size_class::of_layout;
use crate::heap::{Heap, Located};
use crate::page_heap::Content;
use crate::platform::Platform;
use crate::span::arena::{Arena, class_number};

/// A handle that keeps a heap alive: `&Heap<P>` or, with the feature `alloc`, `Arc<Heap<P>>`.
///
/// # Safety
/// [`HeapRef::heap`] must give the same heap at every call, for as long as the handle lives.
pub unsafe trait HeapRef {
    /// The heap's platform.
    type Platform: Platform;

    /// The heap.
    fn heap(&self) -> &Heap<Self::Platform>;
}

// SAFETY: a reference never changes its referent.
unsafe impl<P: Platform> HeapRef for &Heap<P> {
    type Platform = P;

    #[inline]
    fn heap(&self) -> &Heap<P> {
        self
    }
}

#[cfg(feature = "alloc")]
// SAFETY: an `Arc` never changes its referent.
unsafe impl<P: Platform> HeapRef for alloc::sync::Arc<Heap<P>> {
    type Platform = P;

    #[inline]
    fn heap(&self) -> &Heap<P> {
        self
    }
}

/// The hot end of a class's vector: `start <= top <= end` point into its slots; all three are equal if there is none.
#[derive(Clone, Copy)]
struct Stack {
    /// Behind the slot that is popped next.
    top: *mut Object,
    /// The first slot.
    start: *mut Object,
    /// Behind the last slot that fits.
    end: *mut Object,
}

impl Stack {
    const NONE: Self = Self { top: core::ptr::null_mut(), start: core::ptr::null_mut(), end: core::ptr::null_mut() };

    #[inline]
    fn pop(&mut self) -> Option<Object> {
        if self.top == self.start {
            return None;
        }
        // SAFETY: `start < top`, so the slot below `top` exists and was written (L1).
        self.top = unsafe { self.top.sub(1) };
        // SAFETY: as above.
        Some(unsafe { self.top.read() })
    }

    #[inline]
    fn push(&mut self, object: Object) -> bool {
        if self.top == self.end {
            return false;
        }
        // SAFETY: `top < end`, so the slot at `top` lies in the vector's storage (L1).
        unsafe { self.top.write(object) };
        // SAFETY: as above.
        self.top = unsafe { self.top.add(1) };
        true
    }
}

/// The cold end of a class's vectors. L1: `Stack` points into `active`'s slots, or is `NONE` iff there is no `active`.
#[derive(Default)]
struct Vectors {
    active: Option<ShuffleVector>,
    /// Vectors that allocation goes on with.
    full: VectorStack,
    /// A vector that freeing goes on with.
    empty: Option<ShuffleVector>,
    /// The class came here since the clock hand passed it.
    is_used: bool,
}

/// One thread's handle to a heap: allocation and free without locks for most calls. `Send`, but not shared: every method
/// takes `&mut self`.
///
/// Objects belong to the heap, not to the handle: any handle, and the heap itself, may free them. Dropping the handle gives
/// its cached slots back.
pub struct LocalHeap<H: HeapRef> {
    stacks: [Stack; CLASS_COUNT],
    vectors: [Vectors; CLASS_COUNT],
    /// What the vectors and their slots take: see [`vector_cost`].
    held_bytes: usize,
    /// The class that gives up its vectors next.
    clock_hand: usize,
    rng: Rng,
    heap: H,
}

// SAFETY: the stacks point into vectors that this value owns.
unsafe impl<H: HeapRef + Send> Send for LocalHeap<H> {}

impl<H: HeapRef> fmt::Debug for LocalHeap<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalHeap").field("held_bytes", &self.held_bytes()).finish_non_exhaustive()
    }
}

/// Bytes that a vector of `class` keeps from others: its storage and the slots it can hold.
fn vector_cost<P: Platform>(arena: &Arena<P>, class: SizeClass) -> usize {
    let cut = arena.cut(class);
    let slots = cut.vector_slots();
    ShuffleVector::bytes(slots) + slots * cut.size as usize
}

impl<H: HeapRef> LocalHeap<H> {
    /// A handle to `heap`, without any vectors yet: it takes memory only for the classes that are used through it.
    pub fn new(heap: H) -> Self {
        let rng = heap.heap().arena().new_stream();
        Self {
            stacks: [Stack::NONE; CLASS_COUNT],
            vectors: core::array::from_fn(|_| Vectors::default()),
            held_bytes: 0,
            clock_hand: 0,
            rng,
            heap,
        }
    }

    /// The heap that it allocates from.
    pub fn heap(&self) -> &Heap<H::Platform> {
        self.heap.heap()
    }

    fn arena(&self) -> &Arena<H::Platform> {
        self.heap.heap().arena()
    }

    /// Bytes that this handle keeps for itself at the most: itself, its vectors, and the slots that they can hold. At most
    /// 64 KiB.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes + size_of::<Self>()
    }

    /// An object that holds `layout`, uninitialised. A size of zero gives an object of its own, too.
    ///
    /// O(1) for most calls; a refill looks at a few spans.
    ///
    /// # Errors
    /// See [`AllocError`]; the heap is as before, and the same call may succeed later.
    #[inline]
    pub fn alloc(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        let Some(class) = of_layout(layout) else {
            return self.heap().alloc_large(layout, Content::Old);
        };
        match self.stacks[class.index()].pop() {
            Some(object) => Ok(object),
            None => self.alloc_slow(class),
        }
    }

    /// An object that holds `layout`, all its bytes zero. Fresh pages are known to be zero and not touched.
    ///
    /// # Errors
    /// As for [`LocalHeap::alloc`].
    pub fn alloc_zeroed(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        match of_layout(layout) {
            Some(class) if self.arena().cut(class).vector_slots() > 0 => {
                let object = self.alloc(layout)?;
                // SAFETY: the object is ours and holds the layout's size.
                unsafe { object.write_bytes(0, layout.size()) };
                Ok(object)
            }
            _ => self.heap().alloc_zeroed(layout),
        }
    }

    /// Frees an object. No metadata is touched: the class follows from the layout.
    ///
    /// # Safety
    /// `object` must be a live object of this handle's heap, allocated (or last reallocated) with a layout of the same size
    /// and alignment, and not be used afterwards. A second free of the same object is found at the latest when its slot is
    /// released, if the slot was not handed out again meanwhile.
    #[inline]
    pub unsafe fn dealloc(&mut self, object: NonNull<u8>, layout: Layout) {
        let Some(class) = of_layout(layout) else {
            // SAFETY: the caller keeps the same contract.
            unsafe { self.heap().dealloc(object, layout) };
            return;
        };
        debug_assert!(self.heap().is_of_class(object, class), "{object:?} is no object of this heap with {layout:?}");
        self.push(class, object);
    }

    #[inline]
    fn push(&mut self, class: SizeClass, object: Object) {
        if !self.stacks[class.index()].push(object) {
            self.dealloc_slow(class, object);
        }
    }

    /// Frees an object whose layout the caller does not know: one byte of the page map tells its class.
    ///
    /// # Errors
    /// Nothing is freed if the pointer is not the start of an object's slot; see [`Misuse`]. That the object is live cannot
    /// be seen here; a double free is found at the latest when the slot is released.
    ///
    /// # Safety
    /// If `object` is a live object of the heap, it must not be used afterwards.
    #[inline]
    pub unsafe fn free(&mut self, object: NonNull<u8>) -> Result<(), Misuse> {
        match self.heap().locate(object)? {
            Located::Small(class) => {
                self.push(class, object);
                Ok(())
            }
            Located::Large => self.heap().free_large(object),
        }
    }

    /// Makes an object larger or smaller: in place if its slot or its pages allow, else by a copy. The alignment stays.
    ///
    /// # Errors
    /// As for [`LocalHeap::alloc`]; the object is then as it was.
    ///
    /// # Safety
    /// As for [`LocalHeap::dealloc`] with `layout`; on success only the returned pointer may be used.
    pub unsafe fn realloc(
        &mut self,
        object: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Result<NonNull<u8>, AllocError> {
        let new_layout = Layout::from_size_align(new_size, layout.align()).map_err(|_| AllocError::TooLarge)?;
        // SAFETY: the caller keeps the same contract.
        if unsafe { self.heap().resize_in_place(object, layout, new_layout) } {
            return Ok(object);
        }
        let moved = self.alloc(new_layout)?;
        let kept = layout.size().min(new_size);
        // SAFETY: both objects hold at least `kept` bytes, and they are two.
        unsafe { moved.copy_from_nonoverlapping(object, kept) };
        // SAFETY: the caller gave the object up.
        unsafe { self.dealloc(object, layout) };
        Ok(moved)
    }

    /// Gives all cached slots and vectors back to the heap, for a thread that will be idle for long.
    pub fn flush(&mut self) {
        for index in 0..CLASS_COUNT {
            self.give_up(class_number(index));
        }
    }

    #[cold]
    #[inline(never)]
    fn alloc_slow(&mut self, class: SizeClass) -> Result<NonNull<u8>, AllocError> {
        let drained = self.take_active(class);
        let vectors = &mut self.vectors[class.index()];
        vectors.is_used = true;
        let filled = if let Some(full) = vectors.full.pop() {
            self.keep_empty(class, drained);
            full
        } else {
            let empty = drained.or_else(|| vectors.empty.take()).or_else(|| self.add_vector(class));
            let Some(empty) = empty else {
                // The class does without vectors, or none is to be had: go without.
                return Ok(self.arena().claim_one(class)?.0);
            };
            match self.heap.heap().arena().refill(class, empty, &mut self.rng) {
                Ok(filled) => filled,
                Err((error, empty)) => {
                    self.set_active(class, empty);
                    return Err(error);
                }
            }
        };
        self.set_active(class, filled);
        Ok(self.stacks[class.index()].pop().expect("the vector holds a slot"))
    }

    #[cold]
    #[inline(never)]
    fn dealloc_slow(&mut self, class: SizeClass, object: Object) {
        let filled = self.take_active(class);
        let vectors = &mut self.vectors[class.index()];
        vectors.is_used = true;
        if let Some(filled) = filled {
            vectors.full.push(filled);
        }
        let empty = vectors.empty.take().or_else(|| self.add_vector(class)).or_else(|| self.flush_one(class));
        match empty {
            Some(empty) => {
                self.set_active(class, empty);
                let pushed = self.stacks[class.index()].push(object);
                debug_assert!(pushed, "an empty vector has room");
            }
            None => self.heap().release_one(class, object),
        }
    }

    /// Keeps an empty vector for the next free, or gives it back.
    fn keep_empty(&mut self, class: SizeClass, vector: Option<ShuffleVector>) {
        let Some(vector) = vector else { return };
        if self.vectors[class.index()].empty.is_none() {
            self.vectors[class.index()].empty = Some(vector);
        } else {
            self.drop_empty(class, vector);
        }
    }

    fn drop_empty(&mut self, class: SizeClass, vector: ShuffleVector) {
        self.held_bytes -= vector_cost(self.arena(), class);
        self.arena().put_empty(class, vector);
    }

    /// The active vector with its length brought up to date, taken out of use.
    fn take_active(&mut self, class: SizeClass) -> Option<ShuffleVector> {
        let mut vector = self.vectors[class.index()].active.take()?;
        let stack = core::mem::replace(&mut self.stacks[class.index()], Stack::NONE);
        // SAFETY: both point into the active vector's slots (L1).
        let length = unsafe { stack.top.offset_from_unsigned(stack.start) };
        // SAFETY: the slots below `top` were written (L1).
        unsafe { vector.set_length(length) };
        Some(vector)
    }

    fn set_active(&mut self, class: SizeClass, vector: ShuffleVector) {
        let start = vector.start().as_ptr();
        // SAFETY: length and capacity are within the vector's storage.
        let top = unsafe { start.add(vector.length()) };
        // SAFETY: as above.
        let end = unsafe { start.add(vector.capacity()) };
        self.stacks[class.index()] = Stack { top, start, end };
        self.vectors[class.index()].active = Some(vector);
    }

    /// A further vector for `class`, if it uses vectors and there is room and storage; others make room.
    fn add_vector(&mut self, class: SizeClass) -> Option<ShuffleVector> {
        if self.arena().cut(class).vector_slots() == 0 {
            return None;
        }
        let cost = vector_cost(self.arena(), class);
        // A class that holds much itself need not look for others that do.
        if self.held_bytes + cost > LOCAL_HEAP_BYTES && self.vectors[class.index()].full.count() > 1 {
            let empty = self.flush_one(class);
            if empty.is_some() {
                return empty;
            }
        }
        // Two rounds: the first may only take second chances away.
        for _ in 0..2 * CLASS_COUNT {
            if self.held_bytes + cost <= LOCAL_HEAP_BYTES {
                break;
            }
            self.advance_clock_hand(class);
        }
        if self.held_bytes + cost > LOCAL_HEAP_BYTES {
            return None;
        }
        let vector = self.arena().new_vector(class).ok()?;
        self.held_bytes += cost;
        Some(vector)
    }

    /// The class at the clock hand gives up a vector: one that it does not need now or, if it was not used since the hand
    /// came by, its last.
    fn advance_clock_hand(&mut self, busy: SizeClass) {
        self.clock_hand = (self.clock_hand + 1) % CLASS_COUNT;
        let class = class_number(self.clock_hand);
        let vectors = &mut self.vectors[self.clock_hand];
        let was_used = core::mem::replace(&mut vectors.is_used, false);
        if let Some(empty) = vectors.empty.take() {
            self.drop_empty(class, empty);
        } else if let Some(empty) = self.flush_one(class) {
            self.drop_empty(class, empty);
        } else if !was_used && class != busy {
            self.give_up(class);
        }
    }

    /// Flushes a full vector of `class`. Returns an empty one, if there is one at hand: it counts as held.
    fn flush_one(&mut self, class: SizeClass) -> Option<ShuffleVector> {
        let full = self.vectors[class.index()].full.pop()?;
        let empty = self.arena().flush(class, full);
        if empty.is_none() {
            self.held_bytes -= vector_cost(self.arena(), class);
        }
        empty
    }

    /// Gives the vectors of `class` and their slots back.
    fn give_up(&mut self, class: SizeClass) {
        // Bounded by the vectors that the class holds.
        while self.vectors[class.index()].full.count() > 0 {
            if let Some(empty) = self.flush_one(class) {
                self.drop_empty(class, empty);
            }
        }
        if let Some(empty) = self.vectors[class.index()].empty.take() {
            self.drop_empty(class, empty);
        }
        let Some(active) = self.take_active(class) else { return };
        if active.length() == 0 {
            self.drop_empty(class, active);
            return;
        }
        self.vectors[class.index()].full.push(active);
        if let Some(empty) = self.flush_one(class) {
            self.drop_empty(class, empty);
        }
    }
}

impl<H: HeapRef> Drop for LocalHeap<H> {
    fn drop(&mut self) {
        self.flush();
    }
}
