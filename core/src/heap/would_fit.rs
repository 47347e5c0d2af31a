//! Whether an allocation would find memory: for whoever would rather collect garbage first.

use core::alloc::Layout;

use crate::ds::size_class::of_layout;
use crate::heap::Heap;
use crate::page_heap::Content;
use crate::platform::Platform;

impl<P: Platform> Heap<P> {
    /// Whether the arena has room for an object of `layout` now, as it is. Nothing is changed.
    ///
    /// If it says yes, an allocation that comes before any other succeeds, unless the platform refuses to commit fresh pages
    /// or a budget has no room, neither of which is asked. If it says no, an allocation has to make room first: by slots that
    /// wait in depots, pages that can be purged and joined, and in a local heap by what that caches. It may still find some; it
    /// surely fails for layouts that no arena of this size can hold.
    ///
    /// Takes the locks that an allocation takes. O(1) for slots where a span is partial; else it looks at the free runs.
    pub fn would_fit(&self, layout: Layout) -> bool {
        match of_layout(layout) {
            Some(class) => self.arena().has_room(class),
            None => {
                let fit = self.fit_for(layout, Content::Old);
                fit.is_ok_and(|fit| self.arena().page_heap().fits(self.arena().map(), fit))
            }
        }
    }
}
