//! A local heap that charges every object: with a *stock* of bytes that are charged and not used, so that most calls touch no
//! shared counter.

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;

use crate::base::error::{AllocError, Misuse};
use crate::ds::size_class::{SIZES, of_layout};
use crate::heap::Heap;
use crate::heap::relief::with_relief;
use crate::local_heap::{HeapRef, LocalHeap};
use crate::platform::Platform;

/// A [`LocalHeap`] that charges the heap's budget [`Resource::Objects`](crate::Resource::Objects) as well: the bytes of each object
/// when it is allocated, its slot or its pages counted whole, until it is freed. Other handles count nothing, so that counting
/// costs nothing where it is not asked for.
///
/// The handle keeps up to `stock_bytes` that are charged and in no object: so far may [`Usage::used`](crate::Usage::used) exceed
/// the bytes of the objects, for each such handle. Before it fails, it uses the stock up, so that a single handle reaches the
/// limit to the byte.
///
/// Objects that are allocated here must be freed through a handle of this kind, or else they stay charged until the heap is
/// dropped or reset; and no others may be freed here.
pub struct CountedLocal<H: HeapRef> {
    local: LocalHeap<H>,
    /// Bytes charged and in no object.
    stock: usize,
    /// The most that is kept of them.
    stock_most: usize,
}

impl<H: HeapRef> fmt::Debug for CountedLocal<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountedLocal").field("local", &self.local).field("stock", &self.stock).finish_non_exhaustive()
    }
}

/// Bytes that an object of `layout` counts as; none if the size overflows.
#[inline]
fn counted_size<P: Platform>(heap: &Heap<P>, layout: Layout) -> Option<usize> {
    match of_layout(layout) {
        Some(class) => Some(SIZES[class.index()] as usize),
        None => layout.size().max(1).checked_next_multiple_of(heap.arena().map().page_size()),
    }
}

impl<H: HeapRef> CountedLocal<H> {
    /// A handle that allocates through `local`, and keeps a stock of up to `stock_bytes`: 64 KiB makes shared counters cost nothing
    /// to speak of, 0 charges each object by itself.
    pub const fn new(local: LocalHeap<H>, stock_bytes: usize) -> Self {
        Self { local, stock: 0, stock_most: stock_bytes }
    }

    /// The heap that it allocates from.
    pub fn heap(&self) -> &Heap<H::Platform> {
        self.local.heap()
    }

    /// Bytes that are charged and in no object.
    pub const fn stock(&self) -> usize {
        self.stock
    }

    /// As [`LocalHeap::alloc`].
    ///
    /// # Errors
    /// See [`AllocError`]; nothing is charged, and the same call may succeed later.
    #[inline]
    pub fn alloc(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        self.count(layout, |local| local.alloc(layout))
    }

    /// As [`LocalHeap::alloc_zeroed`].
    ///
    /// # Errors
    /// As for [`CountedLocal::alloc`].
    pub fn alloc_zeroed(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        self.count(layout, |local| local.alloc_zeroed(layout))
    }

    #[inline]
    fn count(
        &mut self,
        layout: Layout,
        allocate: impl FnOnce(&mut LocalHeap<H>) -> Result<NonNull<u8>, AllocError>,
    ) -> Result<NonNull<u8>, AllocError> {
        let bytes = counted_size(self.heap(), layout).ok_or(AllocError::TooLarge)?;
        self.take(bytes)?;
        let object = allocate(&mut self.local);
        if object.is_err() {
            self.put(bytes);
        }
        object
    }

    /// As [`LocalHeap::dealloc`].
    ///
    /// # Safety
    /// As for [`LocalHeap::dealloc`].
    #[inline]
    pub unsafe fn dealloc(&mut self, object: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller keeps the same contract.
        unsafe { self.local.dealloc(object, layout) };
        // The layout is that of a live object, so its size does not overflow.
        self.put(counted_size(self.heap(), layout).unwrap_or(0));
    }

    /// As [`LocalHeap::free`]. An object that is not small takes a lock to learn its size.
    ///
    /// # Errors
    /// As for [`LocalHeap::free`].
    ///
    /// # Safety
    /// As for [`LocalHeap::free`].
    pub unsafe fn free(&mut self, object: NonNull<u8>) -> Result<(), Misuse> {
        let bytes = self.heap().usable_size_of_live(object)?;
        // SAFETY: the caller keeps the same contract.
        unsafe { self.local.free(object) }?;
        self.put(bytes);
        Ok(())
    }

    /// As [`LocalHeap::realloc`].
    ///
    /// # Errors
    /// As for [`CountedLocal::alloc`]; the object is then as it was.
    ///
    /// # Safety
    /// As for [`LocalHeap::realloc`].
    pub unsafe fn realloc(
        &mut self,
        object: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Result<NonNull<u8>, AllocError> {
        let new_layout = Layout::from_size_align(new_size, layout.align()).map_err(|_| AllocError::TooLarge)?;
        let old = counted_size(self.heap(), layout).ok_or(AllocError::TooLarge)?;
        let new = counted_size(self.heap(), new_layout).ok_or(AllocError::TooLarge)?;
        self.take(new.saturating_sub(old))?;
        // SAFETY: the caller keeps the same contract.
        let resized = unsafe { self.local.realloc(object, layout, new_size) };
        self.put(if resized.is_ok() { old.saturating_sub(new) } else { new.saturating_sub(old) });
        resized
    }

    /// Gives the stock and all cached slots back, for a thread that will be idle for long.
    pub fn flush(&mut self) {
        self.keep_stock(0);
        self.local.flush();
    }

    /// Stock -> an object.
    #[inline]
    fn take(&mut self, bytes: usize) -> Result<(), AllocError> {
        if bytes > self.stock {
            self.charge(bytes)?;
        }
        self.stock -= bytes;
        Ok(())
    }

    /// An object -> stock.
    #[inline]
    fn put(&mut self, bytes: usize) {
        self.stock += bytes;
        if self.stock > self.stock_most {
            self.keep_stock(self.stock_most / 2);
        }
    }

    /// Charges what is missing for an object of `bytes` and half a stock, or else what is missing alone.
    #[cold]
    #[inline(never)]
    fn charge(&mut self, bytes: usize) -> Result<(), AllocError> {
        let missing = bytes - self.stock;
        let more = missing.saturating_add(self.stock_most / 2);
        if self.heap().arena().charge_objects(more).is_ok() {
            self.stock += more;
            return Ok(());
        }
        let attempt = |local: &mut Self| local.heap().arena().charge_objects(missing);
        with_relief(self, Self::heap, bytes, attempt)?;
        self.stock += missing;
        Ok(())
    }

    /// Uncharges all of the stock but `bytes`.
    #[cold]
    #[inline(never)]
    fn keep_stock(&mut self, bytes: usize) {
        let surplus = self.stock.saturating_sub(bytes);
        self.heap().arena().uncharge_objects(surplus);
        self.stock -= surplus;
    }
}

impl<H: HeapRef> Drop for CountedLocal<H> {
    fn drop(&mut self) {
        self.keep_stock(0);
    }
}
