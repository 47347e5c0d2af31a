//! Many objects of one layout at once: one call, one look at the class, and no more than a load and a store for each object
//! that is at hand.

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;

use crate::base::error::AllocError;
use crate::ds::size_class::of_layout;
use crate::local_heap::{HeapRef, LocalHeap};

/// A bulk that was allocated in part: see [`LocalHeap::alloc_many`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct BulkError {
    /// How many objects there are: the first so many of the bulk are live, and the caller's.
    pub made: usize,
    /// Why there are no more.
    pub error: AllocError,
}

impl fmt::Display for BulkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} objects were allocated, and then: {}", self.made, self.error)
    }
}

impl core::error::Error for BulkError {}

impl<H: HeapRef> LocalHeap<H> {
    /// Allocates an object for `layout` for each place of `objects`, whose old content does not matter.
    ///
    /// ```
    /// # #[cfg(feature = "simulated")]
    /// # fn main() -> Result<(), meshheap::BulkError> {
    /// # use core::alloc::Layout;
    /// # use core::ptr::NonNull;
    /// # let platform = meshheap::SimulatedPlatform::new(4096);
    /// # let mut options = meshheap::Options::default();
    /// # options.arena_bytes = 1 << 20;
    /// # let heap = meshheap::Heap::with_options(&platform, options).expect("there is memory");
    /// let mut local = heap.local();
    /// let mut objects = [NonNull::dangling(); 100];
    /// local.alloc_many(Layout::new::<u64>(), &mut objects)?;
    /// // SAFETY: the objects are live, have this layout and are not used any more.
    /// unsafe { local.dealloc_many(&objects, Layout::new::<u64>()) };
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "simulated"))]
    /// # fn main() {}
    /// ```
    ///
    /// O(objects), as by as many calls of [`LocalHeap::alloc`].
    ///
    /// # Errors
    /// [`BulkError`]: only the first [`BulkError::made`] objects were allocated. They are not freed again, as half of a bulk is
    /// often of use; whoever wants all or nothing frees them: `dealloc_many(&objects[..error.made], layout)`.
    pub fn alloc_many(&mut self, layout: Layout, objects: &mut [NonNull<u8>]) -> Result<(), BulkError> {
        let class = of_layout(layout);
        let mut made = 0;
        while made < objects.len() {
            if let Some(class) = class {
                made += self.stacks[class.index()].pop_many(&mut objects[made..]);
            }
            if made < objects.len() {
                objects[made] = self.alloc(layout).map_err(|error| BulkError { made, error })?;
                made += 1;
            }
        }
        Ok(())
    }

    /// Frees all of `objects`.
    ///
    /// # Safety
    /// As for [`LocalHeap::dealloc`], for each of them.
    pub unsafe fn dealloc_many(&mut self, objects: &[NonNull<u8>], layout: Layout) {
        for &object in objects {
            // SAFETY: the caller keeps the same contract.
            unsafe { self.dealloc(object, layout) };
        }
    }
}
