//! Fork: explicit calls that make a heap consistent in the child. Nobody registers them but who knows the process: the core
//! has no idea what a process is.

use crate::heap::Heap;
use crate::platform::Platform;

impl<P: Platform> Heap<P> {
    /// Before a fork: waits until no thread holds a lock of the heap, and keeps all out until [`Heap::fork_done`]. Local heaps
    /// go on from their vectors meanwhile. Pages that another thread is giving back to the system just now are lost to the
    /// child.
    ///
    /// The calling thread must not use the heap before it calls `fork_done`: it would wait for itself.
    pub fn fork_prepare(&self) {
        self.pass.lock_for_fork(self.platform());
        self.arena().lock_for_fork();
    }

    /// After a fork, in the parent and in the child. In the child, local heaps of threads that are gone keep what they had:
    /// at most [`Options::local_heap_bytes`](crate::Options::local_heap_bytes) each.
    ///
    /// The child may use the heap only if the platform's memory is private to it: pages that are shared between processes
    /// would be used by both.
    ///
    /// # Safety
    /// [`Heap::fork_prepare`] must have been called by this thread, or by the one that it continues in the child, and this
    /// be the first call since then.
    pub unsafe fn fork_done(&self) {
        // SAFETY: by the caller's contract.
        unsafe { self.arena().unlock_after_fork() };
        // SAFETY: as above.
        unsafe { self.pass.unlock_after_fork() };
    }
}
