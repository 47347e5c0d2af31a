//! What is still alive in a heap that is about to be dropped.

use core::fmt;

use crate::heap::Heap;
use crate::heap::inspect::{ClassUse, ObjectInfo, Objects};
use crate::platform::Platform;

/// Addresses that a report shows of each size.
const SHOWN: usize = 8;

/// What nobody freed: see [`Heap::leaks`]. Displayed, it is a report: a line for each size, with the
/// first few addresses.
#[derive(Clone, Copy)]
pub struct Leaks<'h, P: Platform> {
    heap: &'h Heap<P>,
}

impl<P: Platform> fmt::Debug for Leaks<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leaks").field("total", &self.total()).finish_non_exhaustive()
    }
}

/// Objects and their bytes; slots and large objects count whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct LeakTotal {
    /// Objects.
    pub objects: usize,
    /// Their bytes.
    pub bytes: usize,
}

impl<P: Platform> Heap<P> {
    /// What is still alive, for a heap that is about to be dropped or reset, at which nothing should be. The heap is not
    /// changed but for slots in depots, which go back to their spans.
    ///
    /// `&mut self` shows that no local heap borrows the heap and keeps slots that look alive; one that was leaked, or that
    /// is outside its [`HeapCell`](crate::HeapCell) without having been flushed or dropped, does.
    ///
    /// ```
    /// # #[cfg(feature = "simulated")]
    /// # fn main() -> Result<(), meshheap::AllocError> {
    /// # let platform = meshheap::SimulatedPlatform::new(4096);
    /// # let mut options = meshheap::Options::default();
    /// # options.arena_bytes = 1 << 20;
    /// let mut heap = meshheap::Heap::with_options(&platform, options)?;
    /// let forgotten = heap.alloc(core::alloc::Layout::new::<u64>())?;
    /// let leaks = heap.leaks();
    /// assert_eq!(leaks.objects().next().map(|object| object.start), Some(forgotten));
    /// println!("{leaks}");
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "simulated"))]
    /// # fn main() {}
    /// ```
    pub fn leaks(&mut self) -> Leaks<'_, P> {
        self.arena().drain_all();
        Leaks { heap: self }
    }
}

impl<'h, P: Platform> Leaks<'h, P> {
    /// Whether all was freed.
    pub fn is_empty(&self) -> bool {
        self.objects().next().is_none()
    }

    /// Each object, in address order.
    pub fn objects(&self) -> Objects<'h, P> {
        self.heap.objects()
    }

    /// The size classes that have some, by ascending slot size. Large objects are not among them.
    pub fn classes(&self) -> impl Iterator<Item = ClassUse> + use<'h, P> {
        self.heap.classes().filter(|class| class.taken > 0)
    }

    /// All of them. O(pages up to the last in use + objects).
    pub fn total(&self) -> LeakTotal {
        self.objects().fold(LeakTotal::default(), |total, object| LeakTotal {
            objects: total.objects + 1,
            bytes: total.bytes + object.size,
        })
    }

    /// A line for the objects that `belongs` chooses, if there are any.
    fn line(
        &self,
        f: &mut fmt::Formatter<'_>,
        name: fmt::Arguments<'_>,
        belongs: impl Fn(&ObjectInfo) -> bool,
    ) -> fmt::Result {
        let chosen = || self.objects().filter(&belongs);
        let (count, bytes) = chosen().fold((0, 0), |(count, bytes), object| (count + 1, bytes + object.size));
        if count == 0 {
            return Ok(());
        }
        write!(f, "\n  {count} {name}, {bytes} bytes:")?;
        chosen().take(SHOWN).try_for_each(|object| write!(f, " {:p}", object.start))?;
        f.write_str(if count > SHOWN { " ..." } else { "" })
    }
}

impl<P: Platform> fmt::Display for Leaks<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LeakTotal { objects, bytes } = self.total();
        write!(f, "{objects} objects were not freed ({bytes} bytes)")?;
        // One walk for each size that has leaks.
        for ClassUse { slot_size, .. } in self.classes() {
            let name = format_args!("in slots of {slot_size} bytes");
            self.line(f, name, |object| !object.is_large && object.size == slot_size)?;
        }
        self.line(f, format_args!("in pages of their own"), |object| object.is_large)
    }
}
