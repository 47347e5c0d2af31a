//! Whether there is a slot for an allocation, without taking it.

use crate::base::units::SizeClass;
use crate::page_heap::Fit;
use crate::platform::Platform;
use crate::span::arena::Arena;
use crate::span::class_spans::ClassSpans;

impl ClassSpans {
    /// Whether a span has a free slot.
    fn has_free_slot(&self) -> bool {
        self.partial.iter().any(|list| list.get().is_some())
    }
}

impl<P: Platform> Arena<P> {
    /// Whether a span of `class` has a free slot, or there is a run for one.
    pub(crate) fn has_room(&self, class: SizeClass) -> bool {
        let guard = self.class(class);
        guard.spans.has_free_slot() || self.page_heap().fits(&self.map, Fit::anywhere(self.cut(class).pages))
    }
}
