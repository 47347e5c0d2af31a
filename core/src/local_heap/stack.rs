//! The hot end of a shuffle vector: what a pop and a push touch.

use crate::ds::shuffle_vector::Object;

/// The hot end of a class's vector: `start <= top <= end` point into its slots; all three are equal if there is none.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub(super) struct Stack {
    /// Behind the slot that is popped next.
    pub(super) top: *mut Object,
    /// The first slot.
    pub(super) start: *mut Object,
    /// Behind the last slot that fits.
    pub(super) end: *mut Object,
}

impl Stack {
    pub(super) const NONE: Self =
        Self { top: core::ptr::null_mut(), start: core::ptr::null_mut(), end: core::ptr::null_mut() };

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Object> {
        if self.top == self.start {
            return None;
        }
        // SAFETY: `start < top`, so the slot below `top` exists and was written (L1).
        self.top = unsafe { self.top.sub(1) };
        // SAFETY: as above.
        Some(unsafe { self.top.read() })
    }

    /// Pops as many as there are, and as `objects` has places. Returns how many.
    #[inline]
    pub(super) fn pop_many(&mut self, objects: &mut [Object]) -> usize {
        // SAFETY: both point into the same vector's slots, or are the same (L1).
        let count = objects.len().min(unsafe { self.top.offset_from_unsigned(self.start) });
        for object in &mut objects[..count] {
            // SAFETY: so many slots lie below `top`, and were written (L1).
            self.top = unsafe { self.top.sub(1) };
            // SAFETY: as above.
            *object = unsafe { self.top.read() };
        }
        count
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.top == self.end
    }

    #[inline]
    pub(super) fn push(&mut self, object: Object) -> bool {
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
