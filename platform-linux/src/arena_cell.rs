//! Where a platform keeps its arena of shared memory, if it has one just now.

use core::cell::UnsafeCell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, Ordering};

use crate::arena::Arena;
use crate::errno::Errno;

/// There is no arena. The cell is empty.
const FREE: u8 = 0;
/// One thread reserves or releases: the cell is that thread's.
const CHANGING: u8 = 1;
/// The cell holds the arena, and does not change.
const LIVE: u8 = 2;

/// At most one arena at a time.
#[derive(Debug)]
pub(crate) struct ArenaCell {
    /// Whose `arena` is: FREE, CHANGING or LIVE.
    phase: AtomicU8,
    /// Written only while CHANGING, read only while LIVE.
    arena: UnsafeCell<Option<Arena>>,
}

// SAFETY: `arena` is written only by the thread that moved `phase` to CHANGING, and read only while LIVE; the contracts of
// `get` and `release` keep it LIVE for as long as it is read.
unsafe impl Sync for ArenaCell {}

impl ArenaCell {
    pub(crate) const fn new() -> Self {
        Self { phase: AtomicU8::new(FREE), arena: UnsafeCell::new(None) }
    }

    /// FREE -> LIVE, with what `make` makes. Returns where it starts.
    pub(crate) fn reserve(&self, make: impl FnOnce() -> Result<Arena, Errno>) -> Result<NonNull<u8>, Errno> {
        // Acquire: pairs with the Release of whoever freed the cell last.
        if self.phase.compare_exchange(FREE, CHANGING, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return Err(Errno(libc::EBUSY));
        }
        let reserved = make();
        let phase = if reserved.is_ok() { LIVE } else { FREE };
        let done = reserved.map(|arena| {
            let base = arena.base();
            // SAFETY: in the phase CHANGING, which this thread began, the cell is its own.
            unsafe { *self.arena.get() = Some(arena) };
            base
        });
        // Release: pairs with the Acquire of whoever finds the phase LIVE and reads the cell.
        self.phase.store(phase, Ordering::Release);
        done
    }

    /// LIVE -> FREE, after `end` has ended the arena.
    ///
    /// # Safety
    /// Nothing may use the arena or its memory any more.
    pub(crate) unsafe fn release(&self, base: NonNull<u8>, bytes: usize, end: impl FnOnce(Arena)) {
        // Acquire: pairs with the Release of `reserve`.
        let live = self.phase.compare_exchange(LIVE, CHANGING, Ordering::Acquire, Ordering::Relaxed).is_ok();
        debug_assert!(live, "there is no arena to release");
        if !live {
            return;
        }
        // SAFETY: in the phase CHANGING, which this thread began, the cell is its own.
        let arena = unsafe { (*self.arena.get()).take() };
        debug_assert!(arena.as_ref().is_some_and(|arena| arena.is(base, bytes)), "this is not the arena's reservation");
        if let Some(arena) = arena {
            end(arena);
        }
        // Release: pairs with the Acquire of the next `reserve`.
        self.phase.store(FREE, Ordering::Release);
    }

    /// Where the live arena starts and how long it is, if there is one. Not to be called while it is released.
    pub(crate) fn addresses(&self) -> Option<(usize, usize)> {
        // Acquire: as in `get`.
        if self.phase.load(Ordering::Acquire) != LIVE {
            return None;
        }
        // SAFETY: the cell does not change while LIVE.
        unsafe { &*self.arena.get() }.as_ref().map(Arena::addresses_of_base)
    }

    /// The live arena.
    ///
    /// # Safety
    /// It must not be released while the reference is used.
    pub(crate) unsafe fn get(&self) -> Result<&Arena, Errno> {
        // Acquire: pairs with the Release of `reserve`.
        let live = self.phase.load(Ordering::Acquire) == LIVE;
        debug_assert!(live, "there is no arena");
        // SAFETY: the cell does not change while LIVE, and by the caller's contract it stays so.
        let arena = if live { unsafe { &*self.arena.get() } } else { &None };
        arena.as_ref().ok_or(Errno(libc::EINVAL))
    }
}
