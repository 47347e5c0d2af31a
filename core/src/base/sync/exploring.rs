//! What `crate::model` needs of loom, and what takes its place without.

#[cfg(all(loom, feature = "loom"))]
pub use loom::thread::JoinHandle;
#[cfg(not(all(loom, feature = "loom")))]
pub use std::thread::JoinHandle;

/// Steps of one interleaving, at the most: loom's own default is too little for a heap's locks.
#[cfg(all(loom, feature = "loom"))]
const MAX_BRANCHES: usize = 20_000;

/// Words of a thread's stack. Loom's own default, 4,096, is too little for a mesh pass, or for a panic's backtrace.
#[cfg(all(loom, feature = "loom"))]
const STACK_WORDS: usize = 1 << 16;

/// See `crate::model::explore`.
#[cfg(all(loom, feature = "loom"))]
pub(crate) fn explore(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.max_branches = builder.max_branches.max(MAX_BRANCHES);
    let body = alloc::sync::Arc::new(body);
    builder.check(move || {
        let body = body.clone();
        spawn(move || body()).join().expect("a panic ends the model");
    });
}

/// See `crate::model::spawn`.
#[cfg(all(loom, feature = "loom"))]
pub(crate) fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let thread = loom::thread::Builder::new().stack_size(STACK_WORDS).spawn(body);
    thread.expect("loom refuses no thread, but panics")
}

/// See `crate::model::explore`.
#[cfg(not(all(loom, feature = "loom")))]
pub(crate) fn explore(body: impl Fn() + Sync + Send + 'static) {
    body();
}

/// See `crate::model::spawn`.
#[cfg(not(all(loom, feature = "loom")))]
pub(crate) fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    std::thread::spawn(body)
}
