//! The bare array that the heap is compared with.

use core::ptr::NonNull;

/// As many slots as a vector of 64-byte objects has.
const SLOTS: usize = 64;

/// A stack of pointers in an array.
pub(crate) struct Array {
    slots: [NonNull<u8>; SLOTS],
    length: usize,
}

impl Array {
    /// Half full of `object`.
    pub(crate) const fn new(object: NonNull<u8>) -> Self {
        Self { slots: [object; SLOTS], length: SLOTS / 2 }
    }

    /// None if it is empty.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<NonNull<u8>> {
        let length = self.length.checked_sub(1)?;
        let object = *self.slots.get(length)?;
        self.length = length;
        Some(object)
    }

    /// None if it is full.
    #[inline]
    pub(crate) fn push(&mut self, object: NonNull<u8>) -> Option<()> {
        *self.slots.get_mut(self.length)? = object;
        self.length += 1;
        Some(())
    }

    /// # Safety
    /// The array must not be empty.
    #[inline]
    pub(crate) unsafe fn pop_unchecked(&mut self) -> NonNull<u8> {
        self.length -= 1;
        // SAFETY: by the caller's contract the length was not 0, and it is never above the number of slots.
        unsafe { *self.slots.get_unchecked(self.length) }
    }

    /// # Safety
    /// The array must not be full.
    #[inline]
    pub(crate) unsafe fn push_unchecked(&mut self, object: NonNull<u8>) {
        // SAFETY: by the caller's contract there is a slot left.
        unsafe { *self.slots.get_unchecked_mut(self.length) = object };
        self.length += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{Array, SLOTS};
    use core::ptr::NonNull;

    #[test]
    fn it_says_when_it_is_empty_and_full() {
        let mut array = Array::new(NonNull::dangling());
        assert_eq!((0..).take_while(|_| array.pop().is_some()).count(), SLOTS / 2);
        assert_eq!((0..).take_while(|_| array.push(NonNull::dangling()).is_some()).count(), SLOTS);
    }
}
