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

use core::mem::MaybeUninit;
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

    /// Makes room for `count` more slots on top, for the caller to write; they are popped from the last to the first.
    ///
    /// # Safety
    /// There must be room, and every slot must be written before the vector is used.
    pub(crate) unsafe fn extend(&mut self, count: usize) -> &mut [MaybeUninit<Object>] {
        let length = self.length();
        debug_assert!(length + count <= self.capacity());
        #[expect(clippy::cast_possible_truncation, reason = "at most the capacity, a u32")]
        let count_u32 = count as u32;
        self.header_mut().length += count_u32;
        // SAFETY: by the caller's contract `length + count` slots lie in our storage.
        let first = unsafe { self.start().add(length) };
        // SAFETY: as above, and `&mut self` is exclusive.
        unsafe { core::slice::from_raw_parts_mut(first.cast().as_ptr(), count) }
    }

    /// Forgets all slots: they were taken over.
    pub(crate) fn clear(&mut self) {
        self.header_mut().length = 0;
    }
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
    use super::{Object, shuffle};
    use crate::base::rng::Rng;
    use core::ptr::NonNull;
    use quickcheck::quickcheck;
    use std::vec::Vec;

    fn objects(count: u8) -> Vec<Object> {
        (1..=usize::from(count)).map(|n| NonNull::new(core::ptr::without_provenance_mut(n)).expect("not 0")).collect()
    }

    quickcheck! {
        fn a_shuffle_loses_and_doubles_nothing(count: u8, seed: u64) -> bool {
            let mut shuffled = objects(count);
            shuffle(&mut shuffled, &mut Rng::new(seed, 0));
            shuffled.sort_unstable();
            shuffled == objects(count)
        }
    }
}
