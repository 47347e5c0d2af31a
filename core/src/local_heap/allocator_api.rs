//! A local heap as an allocator of collections (features `allocator-api2`, `allocator-api2-04`, `nightly`).

use core::alloc::Layout;
use core::cell::RefCell;
use core::ptr::NonNull;

use crate::heap::allocator_api::{Source, implement_allocators};
use crate::local_heap::{HeapRef, LocalHeap};

/// A [`LocalHeap`] that one thread's collections share, as `&LocalRef`: an `Allocator` without locks for most calls. It can
/// be sent to another thread as a whole, but not be shared between threads.
///
/// ```
/// # #[cfg(all(feature = "simulated", feature = "allocator-api2"))]
/// # fn main() -> Result<(), meshheap::AllocError> {
/// # let platform = meshheap::SimulatedPlatform::new(4096);
/// # let mut options = meshheap::Options::default();
/// # options.arena_bytes = 1 << 20;
/// # let heap = meshheap::Heap::with_options(&platform, options)?;
/// use allocator_api2::alloc::Allocator;
/// use core::alloc::Layout;
///
/// let local = meshheap::LocalRef::new(heap.local());
/// // Or `hashbrown::HashMap::new_in(&local)`, `allocator_api2::vec::Vec::new_in(&local)`, ...
/// let block = (&local).allocate(Layout::new::<u64>()).expect("there is memory");
/// // SAFETY: the block came from this allocator, with this layout.
/// unsafe { (&local).deallocate(block.cast(), Layout::new::<u64>()) };
/// # Ok(())
/// # }
/// # #[cfg(not(all(feature = "simulated", feature = "allocator-api2")))]
/// # fn main() {}
/// ```
#[derive(Debug)]
pub struct LocalRef<H: HeapRef> {
    /// Borrowed for single calls only, none of which calls back into collections.
    local: RefCell<LocalHeap<H>>,
}

impl<H: HeapRef> LocalRef<H> {
    /// An allocator over `local`.
    pub const fn new(local: LocalHeap<H>) -> Self {
        Self { local: RefCell::new(local) }
    }

    /// The local heap again, once no collection borrows the allocator any more.
    pub fn into_inner(self) -> LocalHeap<H> {
        self.local.into_inner()
    }

    /// Gives all cached slots back to the heap: before a sweep, or when the thread will be idle for long.
    pub fn flush(&self) {
        self.local.borrow_mut().flush();
    }
}

impl<H: HeapRef> Source for LocalRef<H> {
    #[inline]
    fn get(&self, layout: Layout, zeroed: bool) -> Option<NonNull<u8>> {
        let mut local = self.local.borrow_mut();
        if zeroed { local.alloc_zeroed(layout).ok() } else { local.alloc(layout).ok() }
    }

    #[inline]
    unsafe fn put(&self, object: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller keeps the same contract.
        unsafe { self.local.borrow_mut().dealloc(object, layout) };
    }

    unsafe fn resize(&self, object: NonNull<u8>, old: Layout, new: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the caller keeps the same contract.
        unsafe { self.local.borrow().heap().resize(object, old, new) }
    }
}

implement_allocators! {
    [H: HeapRef] LocalRef<H>,
    "Collections in the heap, as `&LocalRef<H>`, of one thread."
    ""
    "Growing and shrinking write to objects: not during another thread's [`crate::Heap::mesh_at_safepoint`]."
}
