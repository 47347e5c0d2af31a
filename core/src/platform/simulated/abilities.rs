//! What a simulated platform can do: each method gives one that can do less, or has another limit. See the crate docs for the
//! tour.

use super::SimulatedPlatform;

impl SimulatedPlatform {
    /// The same without `alias` and `unalias`: calling them panics.
    #[must_use]
    pub fn without_alias(mut self) -> Self {
        self.facts.can_alias = false;
        self
    }

    /// The same without `purge`: calling it panics.
    #[must_use]
    pub fn without_purge(mut self) -> Self {
        self.facts.can_purge = false;
        self
    }

    /// The same without `protect`: calling it panics.
    #[must_use]
    pub fn without_protect(mut self) -> Self {
        self.facts.can_protect = false;
        self
    }

    /// The same with the word, though not the deed, of a write barrier: there is no MMU to stop anybody.
    ///
    /// # Safety
    /// No thread may write to objects while [`crate::Heap::mesh`] runs.
    #[must_use]
    pub unsafe fn with_write_barrier(mut self) -> Self {
        self.facts.write_barrier = true;
        self
    }

    /// The same with pages that are private until they are shared: see [`Facts::private_until_shared`](crate::Facts::private_until_shared).
    #[must_use]
    pub fn private_until_shared(mut self) -> Self {
        self.facts.private_until_shared = true;
        self
    }

    /// The same with memory that is held from the start.
    #[must_use]
    pub fn without_lazy_commit(mut self) -> Self {
        self.facts.lazy_commit = false;
        self
    }

    /// The same with a limit of mappings, as counted by [`SimulatedPlatform::mappings`]. As on Linux, a change that would
    /// exceed it fails, and once it is reached every `alias`, `unalias` and `protect` fails, also one that would merge.
    #[must_use]
    pub fn with_mapping_limit(mut self, limit: usize) -> Self {
        self.facts.mapping_limit = Some(limit);
        self
    }

    /// The same with another number for `entropy` to return.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
}
