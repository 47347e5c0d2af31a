//! A task: one object of the heap, with a header and the future behind it.
//!
//! ```text
//!             spawn                     poll: ready
//!   (none) ─▶ SCHEDULED ──▶ RUNNING ──────────────▶ DONE ─▶ the last reference goes: freed
//!                 ▲            │ poll: pending
//!                 └── wake ── (0) or, if it was woken while it ran, SCHEDULED at once
//! ```
//!
//! The state and the count of references share a word. The queues hold one reference a scheduled task, each waker one.
//!
//! # The contract
//! * **E1** A scheduled task is in one queue, once; whoever takes it out owns that reference.
//! * **E2** The future is touched only by who holds `RUNNING`, and by who dropped the last reference.
//! * **E3** While all workers are parked, nobody writes to a header unless they hold the lock of `idle`.

use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::mem::ManuallyDrop;
use core::pin::Pin;
use core::ptr::NonNull;
use core::task::{Context, Poll};
use std::sync::Arc;

use crate::executor::Shared;
use crate::memory::Memory;
use crate::sync::{AtomicUsize, Ordering};

pub(crate) const SCHEDULED: usize = 1;
pub(crate) const RUNNING: usize = 2;
/// The future is dropped.
pub(crate) const DONE: usize = 4;
/// One reference.
pub(crate) const REFERENCE: usize = 8;

/// What each task starts with.
#[repr(C)]
pub(crate) struct Header<M: Memory> {
    pub(crate) state: AtomicUsize,
    pub(crate) future: &'static FutureFunctions,
    /// Keeps the memory alive as long as anybody has a waker.
    pub(crate) shared: ManuallyDrop<Arc<Shared<M>>>,
}

/// What is known of the future behind the header, without its type.
pub(crate) struct FutureFunctions {
    layout: Layout,
    poll: unsafe fn(NonNull<()>, &mut Context<'_>) -> Poll<()>,
    drop: unsafe fn(NonNull<()>),
}

#[repr(C)]
struct Task<M: Memory, F> {
    header: Header<M>,
    future: UnsafeCell<ManuallyDrop<F>>,
}

impl<M: Memory, F: Future<Output = ()>> Task<M, F> {
    const FUNCTIONS: FutureFunctions = FutureFunctions {
        layout: Layout::new::<Self>(),
        poll: |task, context| {
            // SAFETY: the task is a live one of this type, and by E2 nobody else touches the future.
            let future = unsafe { Self::future(task) };
            // SAFETY: a task is never moved (`Memory`), and its future is dropped where it is.
            unsafe { Pin::new_unchecked(&mut **future) }.poll(context)
        },
        drop: |task| {
            // SAFETY: as above.
            let future = unsafe { Self::future(task) };
            // SAFETY: DONE, or the last reference, shows that this happens once.
            unsafe { ManuallyDrop::drop(future) };
        },
    };

    /// # Safety
    /// The task is a live one of this type, and nobody else touches its future.
    unsafe fn future<'a>(task: NonNull<()>) -> &'a mut ManuallyDrop<F> {
        // SAFETY: the caller's contract.
        let task = unsafe { task.cast::<Self>().as_ref() };
        // SAFETY: as above.
        unsafe { &mut *task.future.get() }
    }
}

/// A reference to a live task.
pub(crate) struct TaskRef<M: Memory>(NonNull<Header<M>>);

impl<M: Memory> Clone for TaskRef<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Memory> Copy for TaskRef<M> {}

// SAFETY: futures are `Send` (`Executor::spawn`), and what several threads touch of a header is atomic.
unsafe impl<M: Memory> Send for TaskRef<M> {}

impl<M: Memory> TaskRef<M> {
    /// The layout of a task of this future.
    pub(crate) const fn layout<F: Future<Output = ()>>() -> Layout {
        Layout::new::<Task<M, F>>()
    }

    /// A scheduled task with one reference.
    ///
    /// # Safety
    /// `object` holds [`TaskRef::layout`], and is the caller's.
    pub(crate) unsafe fn write<F>(object: NonNull<u8>, shared: Arc<Shared<M>>, future: F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let header = Header {
            state: AtomicUsize::new(SCHEDULED | REFERENCE),
            future: &Task::<M, F>::FUNCTIONS,
            shared: ManuallyDrop::new(shared),
        };
        let task = object.cast::<Task<M, F>>();
        // SAFETY: the caller's contract.
        unsafe { task.write(Task { header, future: UnsafeCell::new(ManuallyDrop::new(future)) }) };
        Self(task.cast())
    }

    pub(crate) fn as_ptr(self) -> *const () {
        self.0.as_ptr().cast_const().cast()
    }

    /// # Safety
    /// `pointer` is from [`TaskRef::as_ptr`], and the task is live.
    pub(crate) unsafe fn from_ptr(pointer: *const ()) -> Self {
        // SAFETY: it was made of one that is not null.
        Self(unsafe { NonNull::new_unchecked(pointer.cast_mut().cast()) })
    }

    pub(crate) fn header<'a>(self) -> &'a Header<M> {
        // SAFETY: who has a `TaskRef` owns a reference, or borrows one, while the task is used: it is live.
        unsafe { self.0.as_ref() }
    }

    /// Polls the future.
    ///
    /// # Safety
    /// The caller has set `RUNNING` (E2), and the task is not done.
    pub(crate) unsafe fn poll(self, context: &mut Context<'_>) -> Poll<()> {
        // SAFETY: as above.
        unsafe { (self.header().future.poll)(self.0.cast(), context) }
    }

    /// Drops the future.
    ///
    /// # Safety
    /// As for [`TaskRef::poll`], or the last reference is gone; and the caller sees to it that nobody does so again.
    pub(crate) unsafe fn drop_future(self) {
        // SAFETY: as above.
        unsafe { (self.header().future.drop)(self.0.cast()) };
    }

    /// Ends the task's life, but for its memory, which is returned.
    ///
    /// # Safety
    /// The last reference is gone, and the future is dropped.
    pub(crate) unsafe fn retire(self) -> (NonNull<u8>, Layout, Arc<Shared<M>>) {
        let header = self.header();
        // SAFETY: the header is not used afterwards.
        let shared = unsafe { core::ptr::read(&raw const header.shared) };
        (self.0.cast(), header.future.layout, ManuallyDrop::into_inner(shared))
    }

    /// Gives one reference up. True: it was the last. AcqRel: whoever ends the task's life must see all that others did
    /// with their references, and makes its own visible to it.
    pub(crate) fn release(self) -> bool {
        self.header().state.fetch_sub(REFERENCE, Ordering::AcqRel) / REFERENCE == 1
    }

    /// Whether it has to be put into a queue now: the queue's reference is counted. Pairs with the worker's exchange that
    /// starts the task: what the waking thread did is seen by the poll, even if the task was scheduled already.
    pub(crate) fn schedule(self) -> bool {
        let next = |state| match state {
            _ if state & (SCHEDULED | DONE) != 0 => state,
            _ if state & RUNNING != 0 => state | SCHEDULED,
            _ => (state | SCHEDULED) + REFERENCE,
        };
        let state = &self.header().state;
        let old = state.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |state| Some(next(state)));
        let old = old.expect("the closure always has an answer");
        old & (SCHEDULED | DONE | RUNNING) == 0
    }
}
