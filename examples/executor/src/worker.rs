//! A worker: a queue, a local heap, and the loop that polls.

use core::cell::{Cell, RefCell};
use core::task::{Context, Poll};
use std::collections::VecDeque;
use std::sync::Arc;

use meshheap::AllocError;

use crate::executor::Shared;
use crate::memory::Memory;
use crate::sync::{Mutex, Ordering, lock, thread_local};
use crate::task::{DONE, REFERENCE, RUNNING, SCHEDULED, TaskRef};
use crate::wakers;

/// So many tasks of its own a worker runs between two looks at the injected ones.
const TASKS_PER_LOOK: usize = 64;

/// Which executor this thread works for, and its worker.
type Current = (*const (), *const ());

#[cfg(not(loom))]
thread_local!(static CURRENT: Cell<Current> = const { Cell::new((core::ptr::null(), core::ptr::null())) });
#[cfg(loom)]
thread_local!(static CURRENT: Cell<Current> = Cell::new((core::ptr::null(), core::ptr::null())));

/// A queue of scheduled tasks.
pub(crate) type Queue<M> = Mutex<VecDeque<TaskRef<M>>>;

pub(crate) struct Worker<M: Memory> {
    shared: Arc<Shared<M>>,
    index: usize,
    local: RefCell<M::Local>,
}

/// Calls `use_it` with this thread's worker, if that is one of the executor `shared`.
pub(crate) fn with_current<M: Memory, R>(shared: *const Shared<M>, use_it: impl FnOnce(Option<&Worker<M>>) -> R) -> R {
    let (executor, worker) = CURRENT.with(Cell::get);
    let worker = (executor == shared.cast()).then_some(worker.cast::<Worker<M>>());
    // SAFETY: `Worker::current` put it there, for an executor of this type, and takes it away before the worker goes.
    use_it(worker.map(|worker| unsafe { &*worker }))
}

/// While it lives, a worker is the current one.
struct CurrentGuard(Current);

impl Drop for CurrentGuard {
    fn drop(&mut self) {
        CURRENT.with(|current| current.set(self.0));
    }
}

impl<M: Memory> Worker<M> {
    pub(crate) fn new(shared: Arc<Shared<M>>, index: usize) -> Self {
        let local = RefCell::new(shared.memory.local());
        Self { shared, index, local }
    }

    fn current(&self) -> CurrentGuard {
        let this = (Arc::as_ptr(&self.shared).cast(), (&raw const *self).cast());
        CurrentGuard(CURRENT.with(|current| current.replace(this)))
    }

    /// Polls tasks until the executor stops.
    pub(crate) fn work(&self) {
        let _current = self.current();
        let mut ran = 0;
        loop {
            ran += 1;
            let injected = (ran % TASKS_PER_LOOK == 0).then(|| self.shared.idle.injected()).flatten();
            let task = injected.or_else(|| self.pop()).or_else(|| self.steal());
            let Some(task) = task.or_else(|| self.park()) else { return };
            self.run(task);
        }
    }

    fn park(&self) -> Option<TaskRef<M>> {
        self.shared.memory.rest(&mut self.local.borrow_mut());
        self.shared.idle.park(&self.shared.memory, || self.pop().or_else(|| self.steal()))
    }

    fn queue(&self) -> &Queue<M> {
        &self.shared.queues[self.index]
    }

    fn pop(&self) -> Option<TaskRef<M>> {
        lock(self.queue()).pop_front()
    }

    /// Half of the tasks of the first worker that has some: one to run, the others into the own queue.
    fn steal(&self) -> Option<TaskRef<M>> {
        let workers = self.shared.queues.len();
        let victims = (1..workers).map(|step| &self.shared.queues[(self.index + step) % workers]);
        for victim in victims {
            let mut theirs = lock(victim);
            let half = theirs.len().div_ceil(2);
            let mut taken: VecDeque<_> = theirs.drain(..half).collect();
            drop(theirs);
            let first = taken.pop_front();
            if first.is_some() {
                if !taken.is_empty() {
                    lock(self.queue()).append(&mut taken);
                }
                return first;
            }
        }
        None
    }

    /// Puts a scheduled task into the own queue.
    pub(crate) fn push(&self, task: TaskRef<M>) {
        lock(self.queue()).push_back(task);
        let idle = &self.shared.idle;
        if idle.anybody_waits() {
            idle.wake_one(&mut lock(&idle.state));
        }
    }

    pub(crate) fn spawn<F>(&self, future: F) -> Result<(), AllocError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let layout = TaskRef::<M>::layout::<F>();
        let object = self.shared.memory.alloc(&mut self.local.borrow_mut(), layout).ok_or(AllocError::OutOfMemory)?;
        // SAFETY: it was allocated for this.
        let task = unsafe { TaskRef::write(object, self.shared.clone(), future) };
        self.push(task);
        Ok(())
    }

    fn run(&self, task: TaskRef<M>) {
        let state = &task.header().state;
        // AcqRel: what was done before the task was scheduled, and in its last poll, comes before this one.
        let old = state.fetch_xor(SCHEDULED | RUNNING, Ordering::AcqRel);
        if old & DONE != 0 {
            return self.release(task);
        }
        let waker = wakers::borrowed(task);
        let poll = || {
            // SAFETY: RUNNING was set here, and the task is not done.
            let polled = unsafe { task.poll(&mut Context::from_waker(&waker)) };
            if polled.is_ready() {
                // SAFETY: as above; DONE is set below.
                unsafe { task.drop_future() };
            }
            polled
        };
        match self.guarded(poll) {
            Poll::Ready(()) => {
                state.fetch_or(DONE, Ordering::AcqRel);
                self.release(task);
            }
            Poll::Pending => self.rest(task),
        }
    }

    /// A task that panics is over, and its future is forgotten. What it said is kept for whoever runs the executor.
    #[cfg(not(loom))]
    fn guarded(&self, poll: impl FnOnce() -> Poll<()>) -> Poll<()> {
        std::panic::catch_unwind(core::panic::AssertUnwindSafe(poll)).unwrap_or_else(|panic| {
            let mut idle = lock(&self.shared.idle.state);
            idle.panic.get_or_insert(panic);
            self.shared.idle.stop(&mut idle);
            Poll::Ready(())
        })
    }

    /// In a model, a panic is the model's result.
    #[cfg(loom)]
    fn guarded(&self, poll: impl FnOnce() -> Poll<()>) -> Poll<()> {
        poll()
    }

    /// After a poll that was pending.
    fn rest(&self, task: TaskRef<M>) {
        let next = |state| match state & SCHEDULED {
            0 => (state & !RUNNING) - REFERENCE,
            _ => state & !RUNNING,
        };
        let state = &task.header().state;
        // AcqRel: the next poll, on whatever worker, comes after this one; and so does the end of the task, here or there.
        let old = state.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |state| Some(next(state)));
        let old = old.expect("the closure always has an answer");
        if old & SCHEDULED != 0 {
            self.push(task);
        } else if old / REFERENCE == 1 {
            self.destroy(task);
        }
    }

    /// Gives one reference up.
    pub(crate) fn release(&self, task: TaskRef<M>) {
        if task.release() {
            self.destroy(task);
        }
    }

    /// Ends a task without references.
    pub(crate) fn destroy(&self, task: TaskRef<M>) {
        // Relaxed: the last reference was given up with AcqRel.
        if task.header().state.load(Ordering::Relaxed) & DONE == 0 {
            // SAFETY: the last reference is gone, and the task is not done.
            unsafe { task.drop_future() };
        }
        // SAFETY: as above; the future is dropped.
        let (object, layout, shared) = unsafe { task.retire() };
        // SAFETY: it was allocated with this layout by this executor, and nobody knows it any more.
        unsafe { shared.memory.dealloc(&mut self.local.borrow_mut(), object, layout) };
    }

    /// Drops every scheduled task. For the end of an executor: no other worker runs.
    pub(crate) fn drop_all(&self) {
        let _current = self.current();
        while let Some(task) = self.shared.idle.injected().or_else(|| self.pop()).or_else(|| self.steal()) {
            let old = task.header().state.fetch_or(DONE, Ordering::AcqRel);
            if old & DONE == 0 {
                // SAFETY: nobody runs it, and DONE was set here.
                unsafe { task.drop_future() };
            }
            self.release(task);
        }
    }
}
