//! A word in freed objects, by which a second free is seen at once.
//!
//! The heap itself finds a double free when the slot is released, which may be after it was handed out twice. Here each freed
//! small object carries a mark in its second word until it is handed out again. The mark depends on the address and on a number
//! that the program cannot know, so that no live object carries it by chance, and no copy of a freed object does.
//!
//! A program that writes to a freed object removes the mark; then the heap's own check remains.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

/// The number that makes marks of this process. Odd, so that a mark is never zero: addresses are even.
static KEY: AtomicUsize = AtomicUsize::new(1);

/// Sets the number that makes marks, before the first object is handed out.
pub(crate) fn set_key(number: usize) {
    // Relaxed: set before the heap is published.
    KEY.store(number | 1, Ordering::Relaxed);
}

fn mark_of(object: NonNull<u8>) -> usize {
    // Relaxed: whoever has an object of the heap has acquired the heap.
    object.addr().get() ^ KEY.load(Ordering::Relaxed)
}

/// The word of an object that carries the mark; every slot has at least two words.
fn word(object: NonNull<u8>) -> NonNull<usize> {
    // SAFETY: within the slot; and aligned, as slots are to 16 bytes.
    unsafe { object.cast::<usize>().add(1) }
}

/// Whether the object was freed and has not been handed out since.
///
/// # Safety
/// `object` must be the start of a slot.
#[inline]
pub(crate) unsafe fn is_freed(object: NonNull<u8>) -> bool {
    // SAFETY: by the caller's contract the word can be read.
    unsafe { word(object).read() == mark_of(object) }
}

/// Marks an object as freed.
///
/// # Safety
/// `object` must be the start of a slot that the calling thread may write to.
#[inline]
pub(crate) unsafe fn set(object: NonNull<u8>) {
    // SAFETY: by the caller's contract.
    unsafe { word(object).write(mark_of(object)) };
}

/// Takes the mark from an object that is handed out.
///
/// # Safety
/// As for [`set`].
#[inline]
pub(crate) unsafe fn clear(object: NonNull<u8>) {
    // SAFETY: by the caller's contract.
    unsafe { word(object).write(0) };
}
