//! Loom's witness that nobody writes to objects while pages are aliased: see `crate::model::note_write`.

#[cfg(all(loom, feature = "loom"))]
use crate::base::sync::UnsafeCell;

/// Read by who writes to objects, written by who aliases pages: loom panics if the two are not ordered. Nothing without loom.
#[derive(Debug)]
pub(super) struct Writes(#[cfg(all(loom, feature = "loom"))] UnsafeCell<()>);

#[cfg(all(loom, feature = "loom"))]
// SAFETY: the cell holds nothing, and loom checks its uses.
unsafe impl Sync for Writes {}

impl Writes {
    pub(super) fn new() -> Self {
        Self(
            #[cfg(all(loom, feature = "loom"))]
            UnsafeCell::new(()),
        )
    }

    /// This thread writes to an object now.
    #[cfg(feature = "loom")]
    pub(super) fn note_write(&self) {
        #[cfg(loom)]
        self.0.with(|_| ());
    }

    /// This thread aliases pages now; without a write barrier nobody may write meanwhile.
    pub(super) fn note_alias(&self, write_barrier: bool) {
        #[cfg(all(loom, feature = "loom"))]
        if !write_barrier {
            self.0.with_mut(|_| ());
        }
        let _ = write_barrier;
    }
}
