//! What can go wrong with one workload on one allocator.

use core::fmt;

/// Why there are no figures.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    UnknownWorkload,
    UnknownAllocator,
    /// Cargo's last words.
    NotBuilt(String),
    /// The library is not there, or the system's loader does not take it.
    NotLoaded(String),
    /// How the process ended.
    Crashed(String),
    TimedOut,
    /// The checksum differs from the baseline's: the allocator broke an object.
    WrongResult,
}

impl Failure {
    /// A word or two, for a table's cell.
    pub(crate) const fn label(&self) -> &'static str {
        match self {
            Self::UnknownWorkload | Self::UnknownAllocator => "unknown",
            Self::NotBuilt(_) => "not built",
            Self::NotLoaded(_) => "not loaded",
            Self::Crashed(_) => "crashed",
            Self::TimedOut => "timed out",
            Self::WrongResult => "wrong result",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBuilt(detail) | Self::NotLoaded(detail) | Self::Crashed(detail) => {
                write!(f, "{}: {detail}", self.label())
            }
            Self::UnknownWorkload | Self::UnknownAllocator | Self::TimedOut | Self::WrongResult => {
                f.write_str(self.label())
            }
        }
    }
}
