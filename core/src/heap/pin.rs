//! Pins: objects whose physical memory stays where it is.

use core::fmt;
use core::ptr::NonNull;

use crate::base::error::{Misuse, PlatformError};
use crate::base::sync::wait_a_little;
use crate::heap::{Heap, Located};
use crate::platform::Platform;
use crate::span::pins::PinOutcome;

/// Why an object was not pinned or unpinned. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PinError {
    /// The pointer is not the start of an object of the heap.
    Misuse(Misuse),
    /// The object is pinned already. Pins are not counted: one [`Heap::unpin`] ends it.
    AlreadyPinned,
    /// The object is not pinned, or not any more.
    NotPinned,
    /// The platform has no memory for the heap's notes of what is pinned.
    Platform(PlatformError),
}

impl fmt::Display for PinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misuse(misuse) => misuse.fmt(f),
            Self::AlreadyPinned => f.write_str("the object is pinned already"),
            Self::NotPinned => f.write_str("the object is not pinned"),
            Self::Platform(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for PinError {}

impl From<Misuse> for PinError {
    fn from(misuse: Misuse) -> Self {
        Self::Misuse(misuse)
    }
}

impl<P: Platform> Heap<P> {
    /// Keeps the physical memory behind an object's addresses what it is, until [`Heap::unpin`]: its span is not laid onto
    /// another, and if it was before, what it lies on stays. For memory that somebody writes to, or knows, by other means than
    /// its address, whom no write barrier can stop: devices (DMA), direct I/O under way (`O_DIRECT`), registered buffers of
    /// io_uring, futexes that processes share.
    ///
    /// When it returns, no mesh of the object's span is under way. Other spans may still be laid onto the pinned object's: that
    /// changes none of its bytes and none of its addresses. A fork may part the pages of parent and child, pinned or not.
    ///
    /// The object must be unpinned **before** it is freed or reallocated; else its slot stays pinned, whoever gets it next,
    /// until its span is free as a whole. Large objects are never meshed, and pinned all the same.
    ///
    /// A pinned object holds all objects of its span back from being meshed away. A heap of which much is pinned had better be
    /// one that never meshes ([`Options::never_mesh`](crate::Options::never_mesh)).
    /// [`Statistics::pinned_objects`](crate::Statistics::pinned_objects) counts them.
    ///
    /// O(1); waits for the mesh of one span (tens of microseconds) if that is under way, so it must not be called by who
    /// interrupts a mesh step: a signal handler, or a platform's own method. The first pin of a heap reserves a 128th of the
    /// arena's size for notes, which hold memory only where objects are pinned if the platform commits lazily.
    ///
    /// # Errors
    /// See [`PinError`].
    pub fn pin(&self, object: NonNull<u8>) -> Result<(), PinError> {
        let located = self.locate(object)?;
        self.arena.reserve_pins().map_err(PinError::Platform)?;
        let is_new = match located {
            Located::Small(class) => loop {
                match self.arena.pin_slot(class, object)? {
                    PinOutcome::Pinned => break true,
                    PinOutcome::WasPinned => break false,
                    // Bounded by the mesh of one pair.
                    PinOutcome::Busy => wait_a_little(self.platform()),
                }
            },
            Located::Large => {
                self.large_size(object)?;
                self.arena.map().page_of(object).is_some_and(|head| self.arena.pin_large(head))
            }
        };
        if is_new { Ok(()) } else { Err(PinError::AlreadyPinned) }
    }

    /// Ends what [`Heap::pin`] began. O(1).
    ///
    /// # Errors
    /// [`PinError::NotPinned`] if it is not pinned, or the pointer's own error.
    pub fn unpin(&self, object: NonNull<u8>) -> Result<(), PinError> {
        let was_pinned = match self.locate(object)? {
            Located::Small(class) => self.arena.unpin_slot(class, object),
            Located::Large => self.arena.map().page_of(object).is_some_and(|head| self.arena.unpin_large(head)),
        };
        if was_pinned { Ok(()) } else { Err(PinError::NotPinned) }
    }
}
