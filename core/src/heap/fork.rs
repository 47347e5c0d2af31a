//! Fork: explicit calls that make a heap consistent in the child. Nobody registers them but who knows the process: the core
//! has no idea what a process is.

use crate::base::error::PlatformError;
use crate::heap::Heap;
use crate::platform::Platform;

impl<P: Platform> Heap<P> {
    /// Before a fork: waits until no thread holds a lock of the heap, and keeps all out until [`Heap::fork_done`]; then makes
    /// what pages share private to each of the two processes, if the platform can ([`Facts::private_until_shared`]). Local
    /// heaps go on from their vectors meanwhile. Pages that another thread is giving back to the system just now are lost to
    /// the child. Takes a call of the system for each mapping that meshing made.
    ///
    /// The calling thread must not use the heap before it calls `fork_done`: it would wait for itself.
    ///
    /// [`Facts::private_until_shared`]: crate::Facts::private_until_shared
    ///
    /// # Errors
    /// The platform's, with [`Operation::Freeze`](crate::Operation::Freeze): the child must not use the heap. `fork_done` is
    /// called all the same.
    pub fn fork_prepare(&self) -> Result<(), PlatformError> {
        self.pass.lock_for_fork(self.platform());
        self.arena().lock_for_fork();
        self.platform().freeze()
    }

    /// Whether a fork took meshed pages apart which no pass has laid together again. They take memory of their own as they are written
    /// to, which [`Heap::statistics`] does not know of.
    pub fn has_to_thaw(&self) -> bool {
        self.pass.has_to_thaw() && self.arena().page_heap().mappings().in_use() > 0
    }

    /// After a fork, in the parent and in the child. In the child, local heaps of threads that are gone keep what they had:
    /// at most [`Options::local_heap_bytes`](crate::Options::local_heap_bytes) each.
    ///
    /// The child may use the heap only if the platform's memory is private to it: pages that are shared between processes
    /// would be used by both. What was meshed before takes memory of its own as it is written to, until the next pass lays it
    /// together again.
    ///
    /// # Safety
    /// [`Heap::fork_prepare`] must have been called by this thread, or by the one that it continues in the child, and this
    /// be the first call since then.
    pub unsafe fn fork_done(&self) {
        // SAFETY: by the caller's contract.
        unsafe { self.platform().fork_done() };
        // SAFETY: as above.
        unsafe { self.arena().unlock_after_fork() };
        // SAFETY: as above.
        unsafe { self.pass.unlock_after_fork() };
    }
}
