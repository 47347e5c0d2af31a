//! The slow paths of a local heap: which vectors each class has, and who gives one up for another.

use core::ptr::NonNull;

use crate::base::config::{CLASS_COUNT, FIRST_REFILL_BYTES, FIRST_REFILL_LEAST_SLOTS};
use crate::base::error::AllocError;
use crate::base::units::SizeClass;
use crate::ds::shuffle_vector::{Object, ShuffleVector, VectorStack};
use crate::ds::size_class::Cut;
use crate::local_heap::stack::Stack;
use crate::local_heap::{HeapRef, LocalHeap};
use crate::platform::Platform;
use crate::span::arena::{Arena, class_number};

/// The cold end of a class's vectors. L1: `Stack` points into `active`'s slots, or is `NONE` iff there is no `active`.
#[derive(Default)]
pub(super) struct Vectors {
    active: Option<ShuffleVector>,
    /// Vectors that allocation goes on with.
    full: VectorStack,
    /// A vector that freeing goes on with.
    empty: Option<ShuffleVector>,
    /// The class came here since the clock hand passed it.
    is_used: bool,
    /// Slow paths that wanted a vector for which there was no room.
    misses: u8,
    /// Slots that the last refill took at the most; 0: there was none.
    refill_slots: u32,
}

impl Vectors {
    /// How many slots the next refill takes at the most: few at first, then twice as many each time, up to a vector. So threads
    /// that allocate little share pages.
    fn next_refill(&mut self, cut: &Cut) -> usize {
        self.refill_slots = match self.refill_slots {
            0 => (FIRST_REFILL_BYTES / cut.size).max(FIRST_REFILL_LEAST_SLOTS),
            last => (2 * last).min(cut.vector_slots),
        };
        self.refill_slots as usize
    }
}

/// A class that finds no room goes without so many times before others make room for it: a program that uses more classes
/// in turn than fit would spend its time on moving vectors.
const MISSES_PER_EVICTION: u8 = 16;

/// Bytes that a vector of `class` keeps from others: its storage and the slots it can hold.
fn vector_cost<P: Platform>(arena: &Arena<P>, class: SizeClass) -> usize {
    let cut = arena.cut(class);
    let slots = cut.vector_slots as usize;
    ShuffleVector::bytes(slots) + slots * cut.size as usize
}

impl<H: HeapRef> LocalHeap<H> {
    #[cold]
    #[inline(never)]
    pub(super) fn alloc_slow(&mut self, class: SizeClass) -> Result<NonNull<u8>, AllocError> {
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
            let arena = self.heap.heap().arena();
            let most = self.vectors[class.index()].next_refill(arena.cut(class));
            match arena.refill(class, empty, most, &mut self.rng) {
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
    pub(super) fn dealloc_slow(&mut self, class: SizeClass, object: Object) {
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

    /// A further vector for `class`, if it uses vectors and there is storage and room, or if it asks often enough for others
    /// to make room.
    fn add_vector(&mut self, class: SizeClass) -> Option<ShuffleVector> {
        if self.arena().cut(class).vector_slots == 0 {
            return None;
        }
        let cost = vector_cost(self.arena(), class);
        if !self.has_room(cost) {
            let vectors = &mut self.vectors[class.index()];
            if vectors.full.count() > 1 {
                // A class that holds much itself need not look for others that do.
                return self.flush_one(class);
            }
            vectors.misses += 1;
            if vectors.misses < MISSES_PER_EVICTION {
                return None;
            }
            vectors.misses = 0;
            // Two rounds: the first may only take second chances away.
            for _ in 0..2 * CLASS_COUNT {
                self.advance_clock_hand(class);
                if self.has_room(cost) {
                    break;
                }
            }
        }
        if !self.has_room(cost) {
            return None;
        }
        let vector = self.arena().new_vector(class).ok()?;
        self.held_bytes += cost;
        Some(vector)
    }

    fn has_room(&self, cost: usize) -> bool {
        self.held_bytes() + cost <= self.arena().local_heap_bytes()
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
    pub(super) fn give_up(&mut self, class: SizeClass) {
        self.vectors[class.index()].refill_slots = 0;
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
