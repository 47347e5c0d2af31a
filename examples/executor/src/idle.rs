//! How workers park, and what is done while all of them are parked.
//!
//! A worker that finds no task counts itself as asleep, under the lock of `state`, and **then** looks through all queues once
//! more. Whoever puts a task into a queue looks **afterwards** whether anybody is asleep. The queue's own lock orders the two:
//! either the sleeper finds the task, or the other finds the sleeper.
//!
//! If all workers are asleep, the last of them has the lock: nobody can wake up, not even who was woken meanwhile, and other threads' wakers wait for the lock,
//! too. So nobody writes to a task: a **safepoint**, at which it meshes. It lets go of the lock after each step.

use core::any::Any;
use std::collections::VecDeque;

use crate::memory::Memory;
use crate::sync::{AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, lock};
use crate::task::TaskRef;

/// The parking place of an executor's workers.
pub(crate) struct Idle<M: Memory> {
    pub(crate) state: Mutex<State<M>>,
    wake: Condvar,
    /// Workers that sleep and that nobody has woken yet. Changed under the lock.
    waiting: AtomicUsize,
    workers: usize,
}

pub(crate) struct State<M: Memory> {
    /// Tasks that come from threads that are no workers.
    injector: VecDeque<TaskRef<M>>,
    /// Workers that are asleep, or about to be.
    asleep: usize,
    /// So many of them are woken, and have not noticed yet.
    woken: usize,
    /// Tasks ran since the last pass of meshing.
    to_mesh: bool,
    /// Workers leave when there is nothing to do.
    until_idle: bool,
    /// Workers leave.
    pub(crate) stopped: bool,
    /// The executor is gone.
    pub(crate) closed: bool,
    /// What the first task that panicked said.
    pub(crate) panic: Option<Box<dyn Any + Send>>,
}

impl<M: Memory> Idle<M> {
    pub(crate) fn new(workers: usize) -> Self {
        let state = State {
            injector: VecDeque::new(),
            asleep: 0,
            woken: 0,
            to_mesh: true,
            until_idle: false,
            stopped: false,
            closed: false,
            panic: None,
        };
        Self { state: Mutex::new(state), wake: Condvar::new(), waiting: AtomicUsize::new(0), workers }
    }

    /// Before workers start.
    pub(crate) fn start(&self, until_idle: bool) {
        let mut state = lock(&self.state);
        (state.until_idle, state.stopped) = (until_idle, false);
    }

    /// All workers leave as soon as their current poll is over.
    pub(crate) fn stop(&self, state: &mut State<M>) {
        state.stopped = true;
        self.wake.notify_all();
    }

    /// A task that no worker has in its queue.
    pub(crate) fn inject(&self, state: &mut State<M>, task: TaskRef<M>) {
        state.injector.push_back(task);
        self.wake_one(state);
    }

    /// The next of those.
    pub(crate) fn injected(&self) -> Option<TaskRef<M>> {
        lock(&self.state).injector.pop_front()
    }

    /// Whether a worker should be woken for a task that was put into a queue just now.
    pub(crate) fn anybody_waits(&self) -> bool {
        // Relaxed: ordered by the queue's lock, see above.
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Wakes a worker that nobody has woken yet.
    pub(crate) fn wake_one(&self, state: &mut State<M>) {
        if state.asleep > state.woken {
            state.woken += 1;
            self.publish(state);
            self.wake.notify_one();
        }
    }

    fn publish(&self, state: &State<M>) {
        self.waiting.store(state.asleep - state.woken, Ordering::Relaxed);
    }

    /// Waits for a task: an injected one, or one that `find` finds. None: it is time to leave.
    pub(crate) fn park(&self, memory: &M, find: impl Fn() -> Option<TaskRef<M>>) -> Option<TaskRef<M>> {
        let mut state = lock(&self.state);
        loop {
            state.asleep += 1;
            self.publish(&state);
            // From here on who pushes sees this worker asleep.
            let found = if state.stopped { None } else { state.injector.pop_front().or_else(&find) };
            if found.is_some() || state.stopped {
                state.to_mesh |= found.is_some();
                state.asleep -= 1;
                self.publish(&state);
                return found;
            }
            if state.asleep == self.workers {
                state = self.all_asleep(memory, state);
            } else {
                state = self.wake.wait(state).expect("nothing panics under this lock");
                state.woken -= usize::from(state.woken > 0);
            }
            state.asleep -= 1;
            self.publish(&state);
        }
    }

    /// The last worker to fall asleep has something to do.
    fn all_asleep<'s>(&'s self, memory: &M, mut state: MutexGuard<'s, State<M>>) -> MutexGuard<'s, State<M>> {
        if state.to_mesh {
            // SAFETY: by E3 nobody writes to a task while all workers are asleep and this thread has the lock.
            state.to_mesh = unsafe { memory.idle_step() };
            // Let those in who wait for the lock. Whoever wakes a worker may wake this one: it looks for tasks first.
            drop(state);
            return lock(&self.state);
        }
        if state.until_idle {
            self.stop(&mut state);
            return state;
        }
        state = self.wake.wait(state).expect("nothing panics under this lock");
        state.woken -= usize::from(state.woken > 0);
        state
    }
}
