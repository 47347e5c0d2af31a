//! A conservative mark-sweep collector: whatever looks like a reference to an object is one.
//!
//! It asks the heap alone: [`Heap::object_at`] which object a word points into, be it to its start or not, `MarkBits` for the
//! marks, and [`Heap::sweep_unmarked`] to free all that has none, a bitmap word at a time.

use core::hint::black_box;
use core::ptr::{self, NonNull};

use meshheap::{AllocError, Heap, MarkBits};
use meshheap_linux::LinuxPlatform;

use crate::memory::store::object_bytes;
use crate::memory::word::Word;

/// The collector of one store.
#[derive(Debug)]
pub(super) struct Conservative<'heap> {
    heap: &'heap Heap<LinuxPlatform>,
    marks: MarkBits<'heap, LinuxPlatform>,
    /// The stack that may hold references ends here: it grows down.
    stack_top: usize,
}

impl<'heap> Conservative<'heap> {
    pub(super) fn new(heap: &'heap Heap<LinuxPlatform>) -> Result<Self, AllocError> {
        Ok(Self { heap, marks: heap.marks()?, stack_top: 0 })
    }

    /// From now on references lie on the stack below `top` only.
    pub(super) const fn enter(&mut self, top: usize) {
        self.stack_top = top;
    }

    /// Frees every object that neither the stack nor `roots` reach. Returns the bytes of those that stay.
    ///
    /// # Safety
    /// Every object of the heap is a live one of a store; no local heap holds slots; and what is not reached is not used any
    /// more.
    #[inline(never)]
    pub(super) unsafe fn collect(&mut self, roots: impl Iterator<Item = Word>) -> usize {
        // Slots that wait for their next use look taken, but hold no object: back to their spans.
        self.heap.drain_depots();
        let mut marking = Marking { heap: self.heap, marks: &self.marks, pending: Vec::new(), live_bytes: 0 };
        roots.for_each(|word| marking.reach(word.bits()));
        let registers = black_box(callee_saved_registers());
        registers.into_iter().for_each(|word| marking.reach(word));
        // SAFETY: the stack of this thread, from this frame up to one that is still there.
        unsafe { marking.reach_stack((&raw const registers).addr(), self.stack_top) };
        // SAFETY: the caller's contract.
        unsafe { marking.finish() };
        let live_bytes = marking.live_bytes;
        // SAFETY: the caller's contract; nothing was freed since the first mark.
        unsafe { self.heap.sweep_unmarked(&mut self.marks) };
        live_bytes
    }

    /// Frees every object.
    ///
    /// # Safety
    /// Nothing uses any of them, and no local heap holds slots.
    pub(super) unsafe fn free_all(&mut self) {
        // SAFETY: the caller's contract; nothing has a mark.
        unsafe { self.heap.sweep_unmarked(&mut self.marks) };
    }
}

/// One collection, while it marks.
struct Marking<'m, 'heap> {
    heap: &'heap Heap<LinuxPlatform>,
    marks: &'m MarkBits<'heap, LinuxPlatform>,
    /// Marked, and not looked into yet. A list of its own: a chain of a million pairs must not need a million stack frames.
    pending: Vec<NonNull<u8>>,
    live_bytes: usize,
}

impl Marking<'_, '_> {
    /// A word that may be a reference.
    fn reach(&mut self, word: usize) {
        let Some(pointer) = NonNull::new(ptr::with_exposed_provenance_mut(word)) else { return };
        // Most words do not point into the heap: the address tells.
        if let Ok(found) = self.heap.object_at(pointer)
            && found.is_taken
            && self.marks.mark(found.start)
        {
            self.pending.push(found.start);
        }
    }

    /// Every word of the stack between two addresses.
    ///
    /// # Safety
    /// It is this thread's, and in use.
    unsafe fn reach_stack(&mut self, from: usize, to: usize) {
        let word = size_of::<usize>();
        for address in (from.next_multiple_of(word)..to.saturating_sub(word - 1)).step_by(word) {
            // SAFETY: the caller's contract. A frame may have words that were never written: what they hold does no harm.
            let word = unsafe { ptr::with_exposed_provenance::<usize>(address).read_volatile() };
            self.reach(word);
        }
    }

    /// Looks into every object that was reached, and what that reaches.
    ///
    /// # Safety
    /// Every object of the heap is a live one of a store.
    unsafe fn finish(&mut self) {
        while let Some(object) = self.pending.pop() {
            // SAFETY: the caller's contract.
            let bytes = unsafe { object_bytes(object) };
            self.live_bytes += bytes;
            let words = object.cast::<usize>().as_ptr();
            for index in 0..bytes / size_of::<usize>() {
                // SAFETY: so many bytes of the object are initialised, and it is aligned to words.
                let word = unsafe { words.wrapping_add(index).read() };
                self.reach(word);
            }
        }
    }
}

/// What functions must not lose for their callers: a value of a caller may be there and nowhere else.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn callee_saved_registers() -> [usize; 6] {
    let mut saved = [0_usize; 6];
    // SAFETY: stores six registers into six words.
    unsafe {
        core::arch::asm!(
            "mov [{saved}], rbx", "mov [{saved} + 8], rbp", "mov [{saved} + 16], r12",
            "mov [{saved} + 24], r13", "mov [{saved} + 32], r14", "mov [{saved} + 40], r15",
            saved = in(reg) saved.as_mut_ptr(), options(nostack, preserves_flags),
        );
    }
    saved
}

/// What functions must not lose for their callers: a value of a caller may be there and nowhere else.
#[cfg(target_arch = "aarch64")]
#[inline(never)]
fn callee_saved_registers() -> [usize; 10] {
    let mut saved = [0_usize; 10];
    // SAFETY: stores ten registers into ten words.
    unsafe {
        core::arch::asm!(
            "stp x19, x20, [{saved}]", "stp x21, x22, [{saved}, #16]", "stp x23, x24, [{saved}, #32]",
            "stp x25, x26, [{saved}, #48]", "stp x27, x28, [{saved}, #64]",
            saved = in(reg) saved.as_mut_ptr(), options(nostack, preserves_flags),
        );
    }
    saved
}
