//! Allocation and free in the process's heap, as C knows them: no layouts, null for failure, and errno.
//!
//! Each call has a fast path, which is inlined into the exported functions, and a cold one, which keeps errno as it was: the
//! heap makes system calls, and `free` must not change it.

use core::alloc::Layout;
use core::ffi::c_int;
use core::ptr::{self, NonNull};

use core_heap::{AllocError, Heap, MeshBudget, Misuse, Options, Platform, Statistics};

use meshheap_linux::process::{HeapCell, ProcessHeap, ThreadHeap};
use meshheap_linux::{Meshing, PrivatePlatform, WriteBarrier};

use crate::{freed_mark, misuse, settings, thread_pointer};

/// What malloc aligns to: what `max_align_t` asks.
pub(crate) const MALLOC_ALIGN: usize = 16;

/// Larger objects are never at hand. The same bound as the heap's, so that one comparison does for both.
const CACHED_MOST_BYTES: usize = 32 << 10;

/// See [`Malloc::small_pages_bytes`].
const SMALL_PAGES_BYTES: usize = 16 << 20; // 16 MiB

/// Keys the statics of the process's heap.
pub(crate) struct Malloc;

static CELL: HeapCell = HeapCell::new();

// SAFETY: the cell is this type's alone, and the words of `thread_pointer` are each thread's own.
unsafe impl ProcessHeap for Malloc {
    #[inline]
    fn cell() -> &'static HeapCell {
        &CELL
    }

    fn options() -> Options {
        #[expect(clippy::cast_possible_truncation, reason = "as random as before")]
        freed_mark::set_key(PrivatePlatform::new().entropy() as usize);
        Options { on_misuse: Some(misuse::report), ..settings::options() }
    }

    fn meshing() -> Meshing {
        settings::meshing()
    }

    fn barrier() -> Option<WriteBarrier> {
        settings::barrier()
    }

    /// Programs are many and mostly small: an interpreter's process must not hold 2 MiB more for one huge page.
    fn mapping_eighths() -> usize {
        // Half: who runs a program on it may not know how many it takes itself.
        4
    }

    fn small_pages_bytes() -> Option<usize> {
        Some(SMALL_PAGES_BYTES)
    }

    #[inline]
    fn local_pointer() -> *mut ThreadHeap {
        thread_pointer::get()
    }

    fn set_local_pointer(local: *mut ThreadHeap) {
        thread_pointer::set(local);
    }

    fn is_inside() -> bool {
        thread_pointer::is_inside()
    }

    fn set_inside(inside: bool) {
        thread_pointer::set_inside(inside);
    }
}

fn errno() -> NonNull<c_int> {
    // SAFETY: takes no arguments.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the C library gives a pointer to this thread's own variable.
    unsafe { NonNull::new_unchecked(place) }
}

/// Sets errno and gives null: how a function of C fails.
#[cold]
pub(crate) fn fail(code: c_int) -> *mut u8 {
    // SAFETY: this thread's own variable.
    unsafe { errno().write(code) };
    ptr::null_mut()
}

/// Does something that may make system calls and take the heap's locks: keeps errno as it was.
fn slowly<T>(call: impl FnOnce() -> T) -> T {
    // SAFETY: this thread's own variable.
    let before = unsafe { errno().read() };
    // Making the heap calls functions of C that may allocate, so that calls nest.
    let was_inside = thread_pointer::is_inside();
    thread_pointer::set_inside(true);
    let outcome = CELL.with_locks(call);
    thread_pointer::set_inside(was_inside);
    // SAFETY: as above.
    unsafe { errno().write(before) };
    outcome
}

/// The layout of a request; none if no heap could serve it.
#[inline]
fn layout_of(size: usize, align: usize) -> Option<Layout> {
    Layout::from_size_align(size, align).ok()
}

/// `malloc`: `size` bytes. Null, with errno ENOMEM, if there are none.
#[inline]
pub(crate) fn allocate(size: usize) -> *mut u8 {
    allocate_cached(size).map_or_else(|| allocate_slow(size), NonNull::as_ptr)
}

/// The same if it takes a few instructions only.
#[inline]
fn allocate_cached(size: usize) -> Option<NonNull<u8>> {
    if size > CACHED_MOST_BYTES {
        return None;
    }
    // SAFETY: small, and the alignment is a power of two.
    at_hand(unsafe { Layout::from_size_align_unchecked(size, MALLOC_ALIGN) })
}

/// A slot that this thread has at hand, without its mark.
#[inline]
fn at_hand(layout: Layout) -> Option<NonNull<u8>> {
    let object = Malloc::local_at_hand()?.alloc_cached(layout)?;
    // SAFETY: the object is small, so a slot, and it is ours.
    unsafe { freed_mark::clear(object) };
    Some(object)
}

#[cold]
#[inline(never)]
fn allocate_slow(size: usize) -> *mut u8 {
    allocate_aligned(size, MALLOC_ALIGN).map_or_else(|| fail(libc::ENOMEM), NonNull::as_ptr)
}

/// `size` bytes aligned to `align`, a power of two. Errno stays as it was, even if there are none.
pub(crate) fn allocate_aligned(size: usize, align: usize) -> Option<NonNull<u8>> {
    let layout = layout_of(size, align.max(MALLOC_ALIGN))?;
    at_hand(layout).or_else(|| allocate_aligned_slow(layout))
}

#[cold]
#[inline(never)]
fn allocate_aligned_slow(layout: Layout) -> Option<NonNull<u8>> {
    let object = slowly(|| {
        let object = match Malloc::local() {
            Some(local) => local.alloc(layout),
            None => Malloc::heap().ok_or(AllocError::OutOfMemory)?.alloc(layout),
        };
        CELL.start_thread_if_wanted();
        object
    });
    object.ok().inspect(|&object| unmark(object))
}

/// Takes the mark from a fresh object, if it is a slot.
fn unmark(object: NonNull<u8>) {
    if is_slot(object) == Ok(true) {
        // SAFETY: the slot is ours.
        unsafe { freed_mark::clear(object) };
    }
}

/// Whether a pointer is the start of a slot, rather than of a large object. Only slots carry marks.
fn is_slot(object: NonNull<u8>) -> Result<bool, Misuse> {
    let heap = Malloc::heap().ok_or(misuse::foreign(object))?;
    Ok(heap.slot_size(object)?.is_some())
}

/// Whether a pointer is the start of a slot that was freed.
fn is_freed_slot(object: NonNull<u8>) -> Result<bool, Misuse> {
    // SAFETY: asked for starts of slots only.
    Ok(is_slot(object)? && unsafe { freed_mark::is_freed(object) })
}

/// `calloc`: `size` bytes of zeros. Null, with errno ENOMEM, if there are none.
#[inline]
pub(crate) fn allocate_zeroed(size: usize) -> *mut u8 {
    let Some(object) = allocate_cached(size) else { return allocate_zeroed_slow(size) };
    // SAFETY: the object is ours and holds `size` bytes.
    unsafe { object.write_bytes(0, size) };
    object.as_ptr()
}

#[cold]
#[inline(never)]
fn allocate_zeroed_slow(size: usize) -> *mut u8 {
    let Some(layout) = layout_of(size, MALLOC_ALIGN) else { return fail(libc::ENOMEM) };
    let object = slowly(|| match Malloc::local() {
        Some(local) => local.alloc_zeroed(layout),
        None => Malloc::heap().ok_or(AllocError::OutOfMemory)?.alloc_zeroed(layout),
    });
    let Ok(object) = object else { return fail(libc::ENOMEM) };
    if size < MALLOC_ALIGN {
        // The mark may lie behind the zeros that were asked for.
        unmark(object);
    }
    object.as_ptr()
}

/// `free`.
///
/// # Safety
/// `object` must be null, or a live object that is not used afterwards, or a pointer that the heap is allowed to refuse.
#[inline]
pub(crate) unsafe fn release(object: *mut u8) {
    let Some(object) = NonNull::new(object) else { return };
    let freed = Malloc::local_at_hand().is_some_and(|local| {
        // SAFETY: asked for starts of slots only.
        let is_live = || !unsafe { freed_mark::is_freed(object) };
        // SAFETY: by the caller's contract the object is live, unless its mark says no.
        unsafe { local.free_cached_if(object, is_live) }
    });
    if freed {
        // SAFETY: the slot waits in this thread's own vector.
        unsafe { freed_mark::set(object) };
    } else {
        // SAFETY: as the caller's.
        unsafe { release_slow(object) };
    }
}

/// # Safety
/// As for [`release`].
#[cold]
#[inline(never)]
unsafe fn release_slow(object: NonNull<u8>) {
    // SAFETY: as the caller's.
    let outcome = slowly(|| unsafe { try_release(object) });
    if let Err(misuse) = outcome {
        misuse::report(misuse);
    }
}

/// # Safety
/// As for [`release`].
unsafe fn try_release(object: NonNull<u8>) -> Result<(), Misuse> {
    if is_slot(object)? {
        // SAFETY: the start of a slot.
        if unsafe { freed_mark::is_freed(object) } {
            return Err(misuse::freed(object));
        }
        // Before the slot can become another thread's.
        // SAFETY: by the caller's contract the object is live and given up.
        unsafe { freed_mark::set(object) };
    }
    match Malloc::local() {
        // SAFETY: as above.
        Some(local) => unsafe { local.free(object) },
        // SAFETY: as above.
        None => Malloc::heap().map_or(Ok(()), |heap| unsafe { heap.free(object) }),
    }
}

/// `realloc` of a live object to a size that is not 0. Null, with errno ENOMEM, if there is no memory; the object is then as
/// it was.
///
/// # Safety
/// As for [`release`]; if the result is not null, only that may be used.
#[inline]
pub(crate) unsafe fn resize(object: NonNull<u8>, size: usize) -> *mut u8 {
    match live_slot(object) {
        Some(usable) if size > usable => {
            // SAFETY: as the caller's.
            unsafe { move_to_new(object, usable, size) }
        }
        // A slot of which more than half is used stays.
        Some(usable) if size > usable / 2 => object.as_ptr(),
        // SAFETY: as the caller's.
        _ => unsafe { resize_slow(object, size) },
    }
}

/// Bytes of a slot that is not marked as freed; none for other pointers. Takes no lock.
#[inline]
fn live_slot(object: NonNull<u8>) -> Option<usize> {
    let usable = Malloc::cell().made()?.slot_size(object).ok()??;
    // SAFETY: it is the start of a slot.
    (!unsafe { freed_mark::is_freed(object) }).then_some(usable)
}

/// A new object of `size` bytes, with the first `kept` bytes of the old one, which is freed, or fewer if it is smaller.
///
/// # Safety
/// As for [`resize`]; the object must hold `kept` bytes.
unsafe fn move_to_new(object: NonNull<u8>, kept: usize, size: usize) -> *mut u8 {
    let moved = allocate(size);
    if !moved.is_null() {
        // SAFETY: both objects hold that much, and they are two.
        unsafe { moved.copy_from_nonoverlapping(object.as_ptr(), kept.min(size)) };
        // SAFETY: the caller gave the object up.
        unsafe { release(object.as_ptr()) };
    }
    moved
}

/// # Safety
/// As for [`resize`].
#[cold]
#[inline(never)]
unsafe fn resize_slow(object: NonNull<u8>, size: usize) -> *mut u8 {
    // SAFETY: as the caller's.
    match slowly(|| unsafe { resize_without_copy(object, size) }) {
        Err(misuse) => {
            misuse::report(misuse);
            fail(libc::EINVAL)
        }
        Ok(Resized::WithoutCopy(resized)) => resized.as_ptr(),
        // SAFETY: as the caller's.
        Ok(Resized::MustMove { usable }) => unsafe { move_to_new(object, usable, size) },
    }
}

enum Resized {
    /// It is this one now, the same or another, with the same content.
    WithoutCopy(NonNull<u8>),
    /// Of the object's `usable` bytes as many as fit must be copied.
    MustMove { usable: usize },
}

/// # Safety
/// As for [`resize`].
unsafe fn resize_without_copy(object: NonNull<u8>, size: usize) -> Result<Resized, Misuse> {
    if is_freed_slot(object)? {
        return Err(misuse::freed(object));
    }
    let heap = Malloc::heap().ok_or(misuse::foreign(object))?;
    // SAFETY: by the caller's contract the object is live.
    if let Some(resized) = unsafe { heap.resize_live(object, size) }? {
        return Ok(Resized::WithoutCopy(resized));
    }
    Ok(Resized::MustMove { usable: heap.usable_size_of_live(object)? })
}

/// Bytes that a live object can hold.
pub(crate) fn usable_size(object: NonNull<u8>) -> Result<usize, Misuse> {
    let heap = Malloc::heap().ok_or(misuse::foreign(object))?;
    match heap.slot_size(object)? {
        Some(size) => Ok(size),
        None => slowly(|| heap.usable_size_of_live(object)),
    }
}

/// The heap's figures, without what this thread keeps for its next allocations; all zero if there is no heap.
pub(crate) fn statistics() -> Statistics {
    slowly(|| {
        if let Some(local) = Malloc::local_at_hand() {
            local.flush();
        }
        Malloc::cell().made().map(Heap::statistics).unwrap_or_default()
    })
}

/// Forks so far whose children share meshed pages with this process: see [`HeapCell::refused_forks`].
pub(crate) fn refused_forks() -> usize {
    Malloc::cell().refused_forks()
}

/// Meshes the heap and gives all free pages back to the system, and what this thread keeps. Returns how many bytes.
pub(crate) fn give_back() -> usize {
    slowly(|| {
        if let Some(local) = Malloc::local_at_hand() {
            local.flush();
        }
        // The first step may only end a pass that is under way, and was planned while less was free.
        let steps = if matches!(settings::meshing(), Meshing::OnRequest | Meshing::Off) { 1 } else { 2 };
        let step = || Malloc::cell().mesh(MeshBudget::UNLIMITED);
        let pages: usize = (0..steps).filter_map(|_| step()).map(|step| step.pages_freed + step.pages_purged).sum();
        pages * settings::page_bytes() + Malloc::cell().made().and_then(|heap| heap.purge().ok()).unwrap_or(0)
    })
}
