//! Locks, atomics and threads: the standard library's, or loom's in models.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicUsize, Ordering};
#[cfg(loom)]
pub(crate) use loom::{
    sync::atomic::{AtomicUsize, Ordering},
    sync::{Condvar, Mutex, MutexGuard},
    thread_local,
};
#[cfg(loom)]
pub(crate) use meshheap::model::spawn;
#[cfg(not(loom))]
pub(crate) use std::{
    sync::{Condvar, Mutex, MutexGuard},
    thread::spawn,
    thread_local,
};

/// Locks. No task runs under a lock here, so none is ever poisoned.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics under this lock")
}
