//! A table of one element a page (or a few), in memory that the platform gave: zero everywhere until written, and committed
//! only where touched on platforms that commit lazily.

use core::ptr::NonNull;

/// Types of which all-zero bytes are a value: what a fresh table holds.
///
/// # Safety
/// All-zero bytes must be a valid value of the type. Loom's types are not plain bytes: under loom, `zero` must give the value
/// that stands for it, and each element is written once.
pub(crate) unsafe trait ZeroValid {
    /// The value that zeroed memory holds.
    #[cfg(all(loom, feature = "loom"))]
    fn zero() -> Self;
}

/// A fixed-length table over raw memory. It does not own the memory.
#[derive(Debug)]
pub(crate) struct Table<T> {
    start: NonNull<T>,
    length: usize,
}

// SAFETY: a table is a shared slice of `T`: it may go where `&[T]` may.
unsafe impl<T: Sync> Send for Table<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Table<T> {}

impl<T: ZeroValid> Table<T> {
    /// A table of `length` elements in the zeroed memory at `memory`.
    ///
    /// # Safety
    /// `memory` must be zeroed, aligned for `T`, large enough, used by nothing else, and outlive the table.
    pub(crate) unsafe fn new(memory: NonNull<u8>, length: usize) -> Self {
        let start = memory.cast::<T>();
        #[cfg(all(loom, feature = "loom"))]
        for index in 0..length {
            // SAFETY: by the caller's contract the memory holds `length` elements.
            let element = unsafe { start.add(index) };
            // SAFETY: as above, and nothing else uses it.
            unsafe { element.write(T::zero()) };
        }
        Self { start, length }
    }

    /// Bytes that a table of `length` elements takes.
    pub(crate) const fn bytes(length: usize) -> usize {
        length * size_of::<T>()
    }

    /// The element `index`. Panics if there is none.
    #[inline]
    pub(crate) fn at(&self, index: usize) -> &T {
        assert!(index < self.length, "table index out of range");
        // SAFETY: by the check above the element exists.
        let element = unsafe { self.start.add(index) };
        // SAFETY: as above; it holds a valid value, by `new`'s contract and `ZeroValid`.
        unsafe { element.as_ref() }
    }

    /// The element `index`, without a look at the table's length.
    ///
    /// # Safety
    /// There must be one.
    #[inline]
    pub(crate) unsafe fn at_unchecked(&self, index: usize) -> &T {
        debug_assert!(index < self.length, "table index out of range");
        // SAFETY: by the caller's contract the element exists.
        let element = unsafe { self.start.add(index) };
        // SAFETY: as above; it holds a valid value, by `new`'s contract and `ZeroValid`.
        unsafe { element.as_ref() }
    }

    /// Runs the destructors of loom's elements; plain ones have none.
    pub(crate) fn destroy(&mut self) {
        #[cfg(all(loom, feature = "loom"))]
        for index in 0..self.length {
            // SAFETY: each element was written in `new` and is dropped only here.
            let element = unsafe { self.start.add(index) };
            // SAFETY: as above; `&mut self` shows that nothing else uses the table.
            unsafe { element.drop_in_place() };
        }
        self.length = 0;
    }
}
