//! The example `executor`, in small, and what its executor promises.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::alloc::System;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use meshheap::Heap;
use meshheap_examples::sessions::{Sessions, storm};
use meshheap_executor::{Executor, Global, HeapMemory};
use meshheap_linux::HybridPlatform;

type OnHeap = Executor<HeapMemory<HybridPlatform>>;

fn executor(workers: usize) -> OnHeap {
    Executor::new(HeapMemory::new(Heap::new(HybridPlatform::new()).expect("room")), workers)
}

/// Nothing is left in the heap once the executor is gone.
fn assert_empty(executor: OnHeap) {
    let heap = executor.memory().heap().clone();
    drop(executor);
    heap.purge().expect("Linux takes pages back");
    assert_eq!((heap.statistics().taken_bytes, heap.statistics().misuses), (0, 0));
}

#[test]
fn an_idle_executor_gives_memory_back_and_sessions_keep_what_they_hold() {
    let mut executor = executor(2);
    let sessions = Sessions::open(&executor, 10_000).expect("room");
    executor.run_until_idle();
    let full = executor.memory().heap().statistics().held_bytes;
    sessions.close_nine_in_ten();
    executor.run_until_idle();
    let idle = executor.memory().heap().statistics();
    assert!(idle.held_bytes < full / 3, "{} of {full}", idle.held_bytes);
    assert!(executor.memory().meshed().pages > 0 && idle.aliased_bytes > 0);
    let left = sessions.check(&mut executor).expect("sessions hold what they held");
    assert!((500..2000).contains(&left), "{left} are left");
    sessions.close_all();
    executor.run_until_idle();
    assert_empty(executor);
}

#[test]
fn every_task_runs_once_on_any_number_of_workers() {
    for workers in 1..=4 {
        let mut executor = executor(workers);
        assert_eq!(storm(&mut executor, 20_000), Ok(20_000));
        assert_empty(executor);
    }
    assert_eq!(storm(&mut Executor::new(Global(System), 2), 20_000), Ok(20_000));
}

#[test]
fn other_threads_spawn_and_wake_while_the_executor_runs() {
    let mut executor = executor(2);
    let (spawner, done) = (executor.spawner(), Arc::new(AtomicUsize::new(0)));
    let (wakers, waiting) = mpsc::channel();
    let theirs = done.clone();
    let outside = thread::spawn(move || {
        for _ in 0..200 {
            let (wakers, done, mut is_woken) = (wakers.clone(), theirs.clone(), false);
            let task = core::future::poll_fn(move |context| {
                if core::mem::replace(&mut is_woken, true) {
                    done.fetch_add(1, Ordering::Relaxed);
                    return core::task::Poll::Ready(());
                }
                wakers.send(context.waker().clone()).expect("somebody listens");
                core::task::Poll::Pending
            });
            spawner.spawn(task).expect("room");
        }
        drop(wakers);
        // Every waker comes, and is woken: when no task is left that holds a sender, this is the end.
        waiting.iter().for_each(core::task::Waker::wake);
        spawner.stop();
    });
    executor.run();
    outside.join().expect("no panic");
    executor.run_until_idle();
    assert_eq!(done.load(Ordering::Relaxed), 200);
    assert_empty(executor);
}

#[test]
fn a_task_that_panics_ends_the_run_and_loses_no_other_task() {
    let mut executor = executor(2);
    let done = Arc::new(AtomicUsize::new(0));
    executor.spawn(async { panic!("so be it") }).expect("room");
    for _ in 0..10 {
        let done = done.clone();
        executor
            .spawn(async move {
                done.fetch_add(1, Ordering::Relaxed);
            })
            .expect("room");
    }
    let ended = catch_unwind(core::panic::AssertUnwindSafe(|| executor.run_until_idle()));
    assert_eq!(ended.expect_err("it is thrown on").downcast_ref(), Some(&"so be it"));
    executor.run_until_idle();
    assert_eq!(done.load(Ordering::Relaxed), 10);
}

#[test]
fn wakers_may_outlive_the_executor() {
    let mut executor = executor(1);
    let (wakers, kept) = mpsc::channel();
    let held = Arc::new(());
    let theirs = held.clone();
    let task = core::future::poll_fn(move |context| {
        let _held = &theirs;
        wakers.send(context.waker().clone()).expect("somebody listens");
        core::task::Poll::<()>::Pending
    });
    executor.spawn(task).expect("room");
    executor.run_until_idle();
    let heap = executor.memory().heap().clone();
    drop(executor);
    let waker = kept.recv().expect("it was sent");
    waker.wake_by_ref();
    assert_eq!(Arc::strong_count(&held), 2, "the task waits");
    drop(waker);
    assert_eq!(Arc::strong_count(&held), 1, "the task is gone with its last waker");
    heap.purge().expect("Linux takes pages back");
    assert_eq!(heap.statistics().taken_bytes, 0);
}
