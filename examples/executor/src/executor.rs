//! The executor itself.

use core::fmt;
use std::sync::{Arc, Weak};

use meshheap::AllocError;

use crate::idle::Idle;
use crate::memory::Memory;
use crate::sync::{Mutex, lock, spawn};
use crate::task::TaskRef;
use crate::worker::{Queue, Worker, with_current};

/// What all workers and tasks of an executor share.
pub(crate) struct Shared<M: Memory> {
    pub(crate) memory: M,
    pub(crate) queues: Box<[Queue<M>]>,
    pub(crate) idle: Idle<M>,
    itself: Weak<Self>,
}

impl<M: Memory> Shared<M> {
    pub(crate) fn itself(&self) -> Arc<Self> {
        self.itself.upgrade().expect("the caller got here through an `Arc`")
    }

    fn spawn<F>(self: &Arc<Self>, future: F) -> Result<(), AllocError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        with_current(Arc::as_ptr(self), |worker| match worker {
            Some(worker) => worker.spawn(future),
            None => self.spawn_outside(future),
        })
    }

    fn spawn_outside<F>(self: &Arc<Self>, future: F) -> Result<(), AllocError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // E3: the task is written under the lock.
        let mut idle = lock(&self.idle.state);
        if idle.closed {
            return Ok(());
        }
        let layout = TaskRef::<M>::layout::<F>();
        let object = self.memory.alloc_outside(layout).ok_or(AllocError::OutOfMemory)?;
        // SAFETY: it was allocated for this.
        let task = unsafe { TaskRef::write(object, self.clone(), future) };
        self.idle.inject(&mut idle, task);
        Ok(())
    }
}

/// An executor whose tasks lie in a memory of type `M`. Dropping it drops the tasks that are scheduled; one that waits lives
/// until its wakers are gone.
pub struct Executor<M: Memory>(Arc<Shared<M>>);

impl<M: Memory> fmt::Debug for Executor<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor").field("workers", &self.0.queues.len()).finish_non_exhaustive()
    }
}

impl<M: Memory> Executor<M> {
    /// An executor with `workers` workers, at least one.
    #[must_use]
    pub fn new(memory: M, workers: usize) -> Self {
        let queues = (0..workers.max(1)).map(|_| Mutex::new(Default::default())).collect();
        let shared =
            |itself: &Weak<_>| Shared { memory, queues, idle: Idle::new(workers.max(1)), itself: itself.clone() };
        Self(Arc::new_cyclic(shared))
    }

    /// Where tasks lie.
    #[must_use]
    pub fn memory(&self) -> &M {
        &self.0.memory
    }

    /// A handle to spawn tasks with, for tasks and other threads.
    #[must_use]
    pub fn spawner(&self) -> Spawner<M> {
        Spawner(self.0.clone())
    }

    /// See [`Spawner::spawn`].
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn spawn<F>(&self, future: F) -> Result<(), AllocError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.0.spawn(future)
    }

    /// Runs tasks until none is scheduled and the memory is meshed. Tasks that wait for a waker stay: wake them, and run
    /// again. The calling thread is one of the workers.
    ///
    /// # Panics
    /// A task panicked: the others are left where they are, and what it said is thrown on.
    pub fn run_until_idle(&mut self) {
        self.run_workers(true);
    }

    /// Runs tasks, and meshes whenever all workers are idle, until [`Spawner::stop`].
    ///
    /// # Panics
    /// As for [`Executor::run_until_idle`].
    pub fn run(&mut self) {
        self.run_workers(false);
    }

    fn run_workers(&mut self, until_idle: bool) {
        self.0.idle.start(until_idle);
        let start = |index| {
            let shared = self.0.clone();
            spawn(move || Worker::new(shared, index).work())
        };
        let others: Vec<_> = (1..self.0.queues.len()).map(start).collect();
        Worker::new(self.0.clone(), 0).work();
        for other in others {
            other.join().expect("a worker catches its tasks' panics");
        }
        let panic = lock(&self.0.idle.state).panic.take();
        if let Some(panic) = panic {
            std::panic::resume_unwind(panic);
        }
    }
}

impl<M: Memory> Drop for Executor<M> {
    fn drop(&mut self) {
        lock(&self.0.idle.state).closed = true;
        Worker::new(self.0.clone(), 0).drop_all();
    }
}

/// Spawns tasks into an executor.
pub struct Spawner<M: Memory>(Arc<Shared<M>>);

impl<M: Memory> fmt::Debug for Spawner<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawner").finish_non_exhaustive()
    }
}

impl<M: Memory> Clone for Spawner<M> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<M: Memory> Spawner<M> {
    /// A new task. On a worker of the executor it comes from the worker's local heap and goes into its queue. If the executor
    /// is gone, the future is dropped.
    ///
    /// # Errors
    /// There is no memory for it; the future is dropped.
    pub fn spawn<F>(&self, future: F) -> Result<(), AllocError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.0.spawn(future)
    }

    /// Ends [`Executor::run`].
    pub fn stop(&self) {
        self.0.idle.stop(&mut lock(&self.0.idle.state));
    }
}
