//! All vectors forgotten at once, for a heap that begins anew.

use crate::platform::Platform;
use crate::span::arena::{Arena, all_classes};
use crate::span::depot::Depot;

impl<P: Platform> Arena<P> {
    /// Forgets every vector, in depots and elsewhere, with the slots in it: these stay taken until they are released by other
    /// means.
    ///
    /// # Safety
    /// Nobody may use a vector of this arena afterwards, be it to give it back.
    pub(crate) unsafe fn forget_vectors(&mut self) {
        for class in all_classes() {
            self.class(class).depot = Depot::new(self.cut(class));
        }
        // SAFETY: depots hold no vectors any more, and by the caller's contract nobody else does.
        unsafe { self.metadata.get_mut().restart() };
    }
}
