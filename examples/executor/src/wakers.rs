//! Wakers. A worker of the task's executor touches the task directly. **Any other thread takes the lock of `idle` first** (E3):
//! so it never writes to a task while the executor meshes. If it drops a task's last reference, it hands it to a worker:
//! futures are dropped, and tasks freed, by workers alone.

use core::mem::ManuallyDrop;
use core::task::{RawWaker, RawWakerVTable, Waker};
use std::sync::Arc;

use crate::executor::Shared;
use crate::idle::State;
use crate::memory::Memory;
use crate::sync::{MutexGuard, Ordering, lock};
use crate::task::{REFERENCE, SCHEDULED, TaskRef};
use crate::worker::{Worker, with_current};

struct Functions<M>(M);

impl<M: Memory> Functions<M> {
    const TABLE: RawWakerVTable = RawWakerVTable::new(clone::<M>, wake::<M>, wake_by_ref::<M>, drop_reference::<M>);
}

/// A waker that borrows its caller's reference.
pub(crate) fn borrowed<M: Memory>(task: TaskRef<M>) -> ManuallyDrop<Waker> {
    let raw = RawWaker::new(task.as_ptr(), &Functions::<M>::TABLE);
    // SAFETY: the functions below keep the contract of `RawWaker`; the waker is never dropped.
    ManuallyDrop::new(unsafe { Waker::from_raw(raw) })
}

/// Runs `inside` if this thread is a worker of the task's executor, else `outside` with the lock of `idle`. The executor
/// outlives the call even if the task does not.
fn touch<M: Memory, R>(
    task: TaskRef<M>,
    inside: impl FnOnce(&Worker<M>) -> R,
    outside: impl FnOnce(&Shared<M>, MutexGuard<'_, State<M>>) -> R,
) -> R {
    let shared = Arc::as_ptr(&task.header().shared);
    with_current(shared, |worker| match worker {
        Some(worker) => inside(worker),
        None => {
            let shared = Arc::clone(&task.header().shared);
            let idle = lock(&shared.idle.state);
            outside(&shared, idle)
        }
    })
}

unsafe fn clone<M: Memory>(pointer: *const ()) -> RawWaker {
    // SAFETY: a waker's pointer is a live task's.
    let task = unsafe { TaskRef::<M>::from_ptr(pointer) };
    // Relaxed: a reference is made of one that exists.
    let count = || task.header().state.fetch_add(REFERENCE, Ordering::Relaxed);
    touch(task, |_| count(), |_, _idle| count());
    RawWaker::new(pointer, &Functions::<M>::TABLE)
}

unsafe fn wake<M: Memory>(pointer: *const ()) {
    // SAFETY: the caller gives its reference up only below.
    unsafe { wake_by_ref::<M>(pointer) };
    // SAFETY: the caller gives its reference up.
    unsafe { drop_reference::<M>(pointer) };
}

unsafe fn wake_by_ref<M: Memory>(pointer: *const ()) {
    // SAFETY: a waker's pointer is a live task's.
    let task = unsafe { TaskRef::<M>::from_ptr(pointer) };
    let inside = |worker: &Worker<M>| {
        if task.schedule() {
            worker.push(task);
        }
    };
    touch(task, inside, |shared, mut idle| {
        if !idle.closed && task.schedule() {
            shared.idle.inject(&mut idle, task);
        }
    });
}

unsafe fn drop_reference<M: Memory>(pointer: *const ()) {
    // SAFETY: a waker's pointer is a live task's.
    let task = unsafe { TaskRef::<M>::from_ptr(pointer) };
    let outside = |shared: &Shared<M>, mut idle: MutexGuard<'_, State<M>>| {
        // The last reference becomes that of a queue: a worker polls the task once more, in vain, and frees it.
        let next = |state| if state / REFERENCE == 1 { state | SCHEDULED } else { state - REFERENCE };
        let old = task.header().state.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |state| Some(next(state)));
        let is_last = old.expect("the closure always has an answer") / REFERENCE == 1;
        match (is_last, idle.closed) {
            (true, false) => shared.idle.inject(&mut idle, task),
            (true, true) => {
                drop(idle);
                Worker::new(shared.itself(), 0).destroy(task);
            }
            (false, _) => {}
        }
    };
    touch(task, |worker| worker.release(task), outside);
}
