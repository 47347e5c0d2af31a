//! A heap that begins anew, in the memory that it has.

use crate::base::units::{PageIndex, PageRun};
use crate::heap::Heap;
use crate::platform::Platform;

impl<P: Platform> Heap<P> {
    /// Frees all objects at once. The heap is then as if it were new, but keeps its memory for what comes: free pages that
    /// nobody needs go back to the system as after any other free, or all at once by [`Heap::purge`]. Counters and peaks in
    /// [`Heap::statistics`] go on.
    ///
    /// `&mut self` shows that no local heap, no collection and no walk borrows the heap. One that was leaked
    /// ([`core::mem::forget`]) is no obstacle: what it cached is free, too. For a heap in an `Arc`, [`Arc::get_mut`] says
    /// whether handles are left; where it must be reset in spite of them, put it into a [`HeapCell`](crate::HeapCell).
    ///
    /// O(pages up to the last in use), and one call of the platform for each alias: some 50 nanoseconds a span, however many
    /// objects there are. It cannot fail: aliases that the platform refuses to unalias are tried again later.
    ///
    /// As after a drop, whoever has kept a pointer to an object must not use it any more.
    ///
    /// ```
    /// # #[cfg(feature = "simulated")]
    /// # fn main() -> Result<(), meshheap::AllocError> {
    /// # use core::alloc::Layout;
    /// # let platform = meshheap::SimulatedPlatform::new(4096);
    /// # let mut options = meshheap::Options::default();
    /// # options.arena_bytes = 1 << 20;
    /// let mut heap = meshheap::Heap::with_options(&platform, options)?;
    /// for request in 0..3 {
    ///     let mut local = heap.local();
    ///     local.alloc(Layout::new::<[u64; 100]>())?; // ... and nobody frees it
    ///     drop(local);
    ///     heap.reset();
    ///     assert_eq!(heap.statistics().taken_bytes, 0);
    /// }
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "simulated"))]
    /// # fn main() {}
    /// ```
    ///
    /// [`Arc::get_mut`]: https://doc.rust-lang.org/alloc/sync/struct.Arc.html#method.get_mut
    pub fn reset(&mut self) {
        self.pass.abandon(&self.arena);
        let used = self.arena.page_heap().counts().frontier;
        if used > 0 {
            self.arena.forget_pins(PageRun::new(PageIndex::new(0), used));
        }
        // SAFETY: `&mut self` shows that no local heap will be used any more: those that borrow the heap are gone or leaked,
        // and those that know it by address (`HeapCell`) look at the generation first.
        unsafe { self.arena.forget_vectors() };
        // SAFETY: no object is used afterwards, and no free slot waits in a vector.
        unsafe { self.release_unmarked(|_, _| 0) };
        // Empty spans that are kept for speed, and dead aliases that were refused before.
        self.arena.drain_all();
        self.arena.retry_parted();
        self.arena.uncharge_all_objects();
    }
}
