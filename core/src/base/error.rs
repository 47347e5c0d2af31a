//! What can go wrong, as values: small, `Copy`, without strings or allocation.

use core::fmt;

use crate::base::budget::OverBudget;

/// Why an allocation was not made. Every object is as it was before the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AllocError {
    /// The arena has no free run of pages that is long enough. Other local heaps may hold as much as
    /// [`Options::local_heap_bytes`](crate::Options::local_heap_bytes) each until they are flushed.
    OutOfMemory,
    /// The size or the alignment exceeds the whole arena, or the size overflows when it is rounded up.
    TooLarge,
    /// The region for the heap's own metadata is full.
    MetadataExhausted,
    /// The platform's pages are smaller than 4 KiB, larger than 64 KiB or no power of two: no heap can be made.
    PageSize,
    /// The platform refused a call.
    Platform(PlatformError),
    /// A budget has no room for the memory, nor had it after the heap gave back what it could and the budget's hook was called.
    OverBudget(OverBudget),
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfMemory => f.write_str("out of memory: no free run of pages in the arena is long enough"),
            Self::TooLarge => f.write_str("the size or alignment exceeds the heap's whole arena"),
            Self::MetadataExhausted => f.write_str("out of memory for the heap's metadata"),
            Self::PageSize => {
                f.write_str("the platform's pages are smaller than 4 KiB, larger than 64 KiB or no power of two")
            }
            Self::Platform(error) => error.fmt(f),
            Self::OverBudget(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for AllocError {}

impl From<OverBudget> for AllocError {
    fn from(error: OverBudget) -> Self {
        Self::OverBudget(error)
    }
}

impl From<PlatformError> for AllocError {
    fn from(error: PlatformError) -> Self {
        Self::Platform(error)
    }
}

/// A call that the platform refused, with the platform's own code (an errno on Linux). The failed call changed nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlatformError {
    /// Which call.
    pub operation: Operation,
    /// Why, in the platform's own numbers.
    pub code: i32,
}

impl fmt::Display for PlatformError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the platform refused to {:?} (code {})", self.operation, self.code)
    }
}

impl core::error::Error for PlatformError {}

/// The platform's calls that can fail.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// Set address space aside.
    Reserve,
    /// Make reserved memory usable.
    Commit,
    /// Give physical pages back.
    Purge,
    /// Show another page's memory.
    Alias,
    /// Show a page's own memory again.
    Unalias,
    /// Forbid or allow writes.
    Protect,
    /// Move pages' content.
    Relocate,
    /// Make private pages fit to be shown at other addresses.
    Share,
    /// Make shared pages private before a fork.
    Freeze,
}

/// A pointer that the heap cannot accept back, and what it was found to be. Nothing was freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Misuse {
    /// The address that was handed in.
    pub address: usize,
    /// What is wrong with it.
    pub kind: MisuseKind,
}

/// The ways in which a pointer can be wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MisuseKind {
    /// It does not point into this heap, or to pages that hold no objects.
    NotOurs,
    /// It points into an object, not to its start.
    Interior,
    /// Its object is free already.
    DoubleFree,
    /// The layout that came with it belongs to another size class than the object.
    WrongLayout,
    /// Its object is gone with an earlier generation of the heap: see [`HeapCell`](crate::HeapCell).
    Stale,
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            MisuseKind::NotOurs => "does not belong to this heap",
            MisuseKind::Interior => "points into an object, not to its start",
            MisuseKind::DoubleFree => "was freed already",
            MisuseKind::WrongLayout => "was allocated with another layout",
            MisuseKind::Stale => "is of an earlier generation of the heap",
        };
        write!(f, "{:#x} {what}", self.address)
    }
}

impl core::error::Error for Misuse {}
