//! How much one step may do, and what it did.

use core::time::Duration;

use crate::base::error::PlatformError;

/// The bounds of one step of meshing. A step does at least one unit of work, and stops at the first bound that it meets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct MeshBudget {
    /// Pages to free by meshing.
    pub pages: u32,
    /// Mappings to add.
    pub mappings: usize,
    /// Time, by the platform's clock. A step may exceed it by one unit of work, some 10 to 50 microseconds.
    pub time: Duration,
    /// Whether free pages with old content are given back as well. A program that is about to allocate again needs them.
    pub purge: bool,
}

impl MeshBudget {
    /// No bound but the heap's mapping budget: one step is a whole pass.
    pub const UNLIMITED: Self = Self { pages: u32::MAX, mappings: usize::MAX, time: Duration::MAX, purge: true };

    /// Bounded by time alone: the pause that the embedder can afford.
    #[must_use]
    pub const fn time(time: Duration) -> Self {
        Self { time, ..Self::UNLIMITED }
    }

    /// The same, freeing at most `pages` pages.
    #[must_use]
    pub const fn with_pages(self, pages: u32) -> Self {
        Self { pages, ..self }
    }

    /// The same, adding at most `mappings` mappings.
    #[must_use]
    pub const fn with_mappings(self, mappings: usize) -> Self {
        Self { mappings, ..self }
    }

    /// The same, leaving free pages with old content as they are.
    #[must_use]
    pub const fn without_purge(self) -> Self {
        Self { purge: false, ..self }
    }
}

/// What one step of meshing did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct MeshStep {
    /// Why it ended.
    pub end: StepEnd,
    /// Partial spans that it looked at.
    pub spans: usize,
    /// Groups that its search found among them.
    pub groups: usize,
    /// Pages that it freed by meshing.
    pub pages_freed: usize,
    /// Further pages that it gave back: free ones with old content, and empty ones inside spans.
    pub pages_purged: usize,
    /// Mappings that it added.
    pub mappings: usize,
    /// How long it took, in nanoseconds of the platform's clock.
    pub nanoseconds: u64,
}

/// Why a step of meshing ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StepEnd {
    /// The pass went through the whole heap; the next step begins another.
    PassDone,
    /// A bound of the step's budget was met; the next step goes on.
    Budget,
    /// The heap's mapping budget is used up: the pass is over, and meshes on only once mappings have come back.
    MappingsUsedUp,
    /// Another thread is in the middle of a step.
    Busy,
    /// The platform refused a call. The heap is whole; the next step begins another pass, or goes on behind what was refused.
    Refused(PlatformError),
    /// The platform cannot alias pages or purge them, or it has no write barrier and the step asked for one.
    Unsupported,
}
