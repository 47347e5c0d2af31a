//! A shuffle vector: a stack of free slots of one class, as pointers, that a local heap owns or that lies full in a depot.
//!
//! ```text
//! pool memory:  [ header: next, length, capacity ][ slot ][ slot ][ slot ] ... capacity
//!                                                  ^ pushed first, oldest    ^ popped first
//! ```
//!
//! The slots that it holds have their bits set (I3), so a mesh pass treats them as live.
//!
//! # Why this way
//! Pointers in an array beat a list through the objects: a pop touches no object, free objects hold nothing that a stray
//! write could corrupt, and pages under free objects may be given back. Whole vectors change hands (Bonwick and Adams'
//! magazines, USENIX 2001), so nothing is copied.

use core::ptr::NonNull;

use crate::base::rng::Rng;

/// The start of an object.
pub(crate) type Object = NonNull<u8>;

/// The head of a vector's storage; `capacity` slots lie behind it.
#[derive(Debug)]
#[repr(C)]
struct Header {
    next: Option<ShuffleVector>,
    length: u32,
    capacity: u32,
}

/// An owned vector. Its storage goes back to the pool by [`ShuffleVector::storage`].
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct ShuffleVector(NonNull<Header>);

// SAFETY: a vector owns its storage, and the slots in it are nobody else's (I3).
unsafe impl Send for ShuffleVector {}

impl ShuffleVector {
    /// Bytes of storage for `capacity` slots.
    pub(crate) const fn bytes(capacity: usize) -> usize {
        size_of::<Header>() + capacity * size_of::<Object>()
    }

    /// An empty vector in `storage`.
    ///
    /// # Safety
    /// `storage` must be [`ShuffleVector::bytes`] of `capacity` long, 8-byte aligned and the vector's alone.
    pub(crate) unsafe fn new(storage: NonNull<u8>, capacity: u32) -> Self {
        let header = storage.cast::<Header>();
        // SAFETY: by the caller's contract the storage holds a header and is ours.
        unsafe { header.write(Header { next: None, length: 0, capacity }) };
        Self(header)
    }

    /// Gives the storage up, to be freed. The vector must be empty: its slots would be lost.
    pub(crate) fn storage(self) -> (NonNull<u8>, usize) {
        debug_assert_eq!(self.length(), 0);
        (self.0.cast(), Self::bytes(self.capacity()))
    }

    fn header(&self) -> &Header {
        // SAFETY: the vector owns its header, initialised in `new`.
        unsafe { self.0.as_ref() }
    }

    fn header_mut(&mut self) -> &mut Header {
        // SAFETY: as in `header`, and `&mut self` is exclusive.
        unsafe { self.0.as_mut() }
    }

    /// Slots it holds.
    pub(crate) fn length(&self) -> usize {
        self.header().length as usize
    }

    /// Slots it can hold.
    pub(crate) fn capacity(&self) -> usize {
        self.header().capacity as usize
    }

    /// Where its first slot lies.
    pub(crate) fn start(&self) -> NonNull<Object> {
        // SAFETY: the slots lie right behind the header in the same storage.
        unsafe { self.0.add(1) }.cast()
    }

    /// Says how many slots it holds, after they were written or popped through [`ShuffleVector::start`].
    ///
    /// # Safety
    /// The first `length` slots must have been written and `length` must not exceed the capacity.
    pub(crate) unsafe fn set_length(&mut self, length: usize) {
        debug_assert!(length <= self.capacity());
        #[expect(clippy::cast_possible_truncation, reason = "at most the capacity, a u32")]
        let length = length as u32;
        self.header_mut().length = length;
    }

    /// The slots, oldest first.
    pub(crate) fn objects(&self) -> &[Object] {
        // SAFETY: the first `length` slots are initialised (see `set_length`).
        unsafe { core::slice::from_raw_parts(self.start().as_ptr(), self.length()) }
    }

    /// The slots, to be put in another order.
    pub(crate) fn objects_mut(&mut self) -> &mut [Object] {
        // SAFETY: as in `objects`, and `&mut self` is exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.start().as_ptr(), self.length()) }
    }

    /// Adds a slot; false if the vector is full.
    pub(crate) fn push(&mut self, object: Object) -> bool {
        let length = self.length();
        if length == self.capacity() {
            return false;
        }
        // SAFETY: `length` is below the capacity, so the slot lies in our storage.
        let slot = unsafe { self.start().add(length) };
        // SAFETY: as above.
        unsafe { slot.write(object) };
        self.header_mut().length += 1;
        true
    }

    /// Forgets all slots: they were taken over.
    pub(crate) fn clear(&mut self) {
        self.header_mut().length = 0;
    }
}

/// Puts `objects`, which ascend, in the order in which they will be popped from the end: ascending from a random start.
/// Spans of one program pattern become rotations of each other, and rotations of a regular set fit together.
pub(crate) fn rotate(objects: &mut [Object], rng: &mut Rng) {
    if objects.len() < 2 {
        return;
    }
    objects.reverse();
    #[expect(clippy::cast_possible_truncation, reason = "a vector holds far fewer than 2^32 slots")]
    let start = rng.below(objects.len() as u32) as usize;
    objects.rotate_left(start);
}

/// Puts `objects` in a random order (Fisher and Yates), so that the next address cannot be guessed.
pub(crate) fn shuffle(objects: &mut [Object], rng: &mut Rng) {
    for last in (1..objects.len()).rev() {
        #[expect(clippy::cast_possible_truncation, reason = "a vector holds far fewer than 2^32 slots")]
        let other = rng.below(last as u32 + 1) as usize;
        objects.swap(last, other);
    }
}

/// A stack of vectors, linked through their headers: what a depot keeps.
#[derive(Debug, Default)]
pub(crate) struct VectorStack {
    top: Option<ShuffleVector>,
    count: usize,
}

impl VectorStack {
    pub(crate) fn push(&mut self, mut vector: ShuffleVector) {
        vector.header_mut().next = self.top.take();
        self.top = Some(vector);
        self.count += 1;
    }

    pub(crate) fn pop(&mut self) -> Option<ShuffleVector> {
        let mut vector = self.top.take()?;
        self.top = vector.header_mut().next.take();
        self.count -= 1;
        Some(vector)
    }

    pub(crate) const fn count(&self) -> usize {
        self.count
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Object, rotate, shuffle};
    use crate::base::rng::Rng;
    use core::ptr::NonNull;
    use quickcheck::quickcheck;
    use std::vec::Vec;

    fn objects(count: u8) -> Vec<Object> {
        (1..=usize::from(count)).map(|n| NonNull::new(core::ptr::without_provenance_mut(n)).expect("not 0")).collect()
    }

    fn sorted(mut objects: Vec<Object>) -> Vec<Object> {
        objects.sort_unstable();
        objects
    }

    quickcheck! {
        fn both_orders_lose_and_double_nothing(count: u8, seed: u64) -> bool {
            let (mut rotated, mut shuffled) = (objects(count), objects(count));
            rotate(&mut rotated, &mut Rng::new(seed, 0));
            shuffle(&mut shuffled, &mut Rng::new(seed, 0));
            sorted(rotated) == objects(count) && sorted(shuffled) == objects(count)
        }

        fn a_rotation_ascends_from_its_start_when_popped(count: u8, seed: u64) -> bool {
            let mut rotated = objects(count);
            rotate(&mut rotated, &mut Rng::new(seed, 0));
            let popped: Vec<usize> = rotated.iter().rev().map(|object| object.addr().get()).collect();
            let descents = popped.windows(2).filter(|pair| pair[0] > pair[1]).count();
            descents <= 1
        }
    }
}
