//! What keeps a heap alive for a local heap.

use crate::heap::Heap;
use crate::platform::Platform;

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
