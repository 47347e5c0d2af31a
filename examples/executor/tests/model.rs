//! The executor's races, on its real source and the heap's, in every interleaving. Run by `.ci/loom`.
//!
//! A test of your own looks like these: feature `loom` of meshheap, `RUSTFLAGS="--cfg loom"`, `meshheap::model`.
#![cfg(loom)]

use core::alloc::Layout;
use core::pin::Pin;
use core::ptr::NonNull;
use core::task::{Context, Poll, Waker};
use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicBool, Ordering};
use meshheap::{Heap, SimulatedPlatform, model};
use meshheap_executor::{Executor, HeapMemory, Memory, Spawner};

type Tasks = HeapMemory<SimulatedPlatform>;

/// Most of the tests' tasks are as large as this.
const TASK: Layout = Layout::new::<[usize; 6]>();

/// An executor with two workers, and two objects whose spans, where tasks will lie as well, can be meshed.
struct Model {
    executor: Executor<Tasks>,
    pair: [NonNull<u8>; 2],
}

impl Model {
    fn new() -> Self {
        let heap = model::heap();
        let pair = model::meshable_pair(&heap, TASK);
        Self { executor: Executor::new(HeapMemory::new(heap), 2), pair }
    }

    fn witness(&self) -> Arc<Witness> {
        let heap = self.executor.memory().heap().clone();
        Arc::new(Witness { cell: UnsafeCell::new(Seen::default()), heap })
    }

    /// Runs until all workers sleep, and checks that they meshed.
    fn run(&mut self) {
        self.executor.run_until_idle();
        assert!(self.executor.memory().meshed().pages > 0, "idle workers mesh");
    }

    /// Checks that every task was freed, once.
    fn finish(self) {
        let heap = self.executor.memory().heap().clone();
        drop(self.executor);
        for object in self.pair {
            // SAFETY: it is live, and nobody uses it.
            unsafe { heap.dealloc(object, TASK) };
        }
        model::assert_empty(&heap);
    }
}

/// What a task touches in each poll and when it is dropped: loom sees two threads that do so at once, one that does not see
/// what the last did, and a mesh step meanwhile.
struct Witness {
    cell: UnsafeCell<Seen>,
    heap: Arc<Heap<SimulatedPlatform>>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Seen {
    polls: usize,
    drops: usize,
}

// SAFETY: the tests are about just this: a witness is touched by one thread at a time, and loom checks it.
unsafe impl Sync for Witness {}

impl Witness {
    fn touch(&self, change: impl FnOnce(&mut Seen)) {
        model::note_write(&self.heap);
        // SAFETY: loom checks that nobody else does.
        self.cell.with_mut(|seen| change(unsafe { &mut *seen }));
    }

    fn seen(&self) -> Seen {
        // SAFETY: as above.
        self.cell.with(|seen| unsafe { *seen })
    }
}

/// A task that counts its polls in its own memory, too.
struct Touching<F> {
    witness: Arc<Witness>,
    polls: usize,
    poll: F,
}

impl<F: FnMut(&mut Context<'_>) -> Poll<()> + Unpin> Future for Touching<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.witness.touch(|seen| seen.polls += 1);
        self.polls += 1;
        (self.poll)(context)
    }
}

impl<F> Drop for Touching<F> {
    fn drop(&mut self) {
        self.witness.touch(|seen| seen.drops += 1);
        assert_eq!(self.polls, self.witness.seen().polls, "what a task wrote to its memory is there");
    }
}

fn spawn<M: Memory, F>(spawner: &Spawner<M>, witness: &Arc<Witness>, poll: F)
where
    F: FnMut(&mut Context<'_>) -> Poll<()> + Unpin + Send + 'static,
{
    let future = Touching { witness: witness.clone(), polls: 0, poll };
    spawner.spawn(future).expect("the heap has room");
}

/// Race: a task is spawned by one worker, into its own queue and from its own heap, and stolen, run and freed by the other,
/// while the first goes to sleep; the last one up meshes.
///
/// Seen to fail: when a worker meshes that is not the last to fall asleep (loom: a task writes beside the mesh step).
#[test]
fn a_task_is_spawned_stolen_and_freed_once() {
    model::explore(|| {
        let mut model = Model::new();
        let (parent, child) = (model.witness(), model.witness());
        let (spawner, inner) = (model.executor.spawner(), child.clone());
        spawn(&model.executor.spawner(), &parent, move |_| {
            spawn(&spawner, &inner, |_| Poll::Ready(()));
            Poll::Ready(())
        });
        model.run();
        model.finish();
        let once = Seen { polls: 1, drops: 1 };
        assert_eq!((parent.seen(), child.seen()), (once, once));
    });
}

/// A place where a task leaves its waker for another.
type Place = Arc<Mutex<Option<Waker>>>;

fn leave_waker(place: &Place, context: &Context<'_>) {
    *place.lock().expect("no panic") = Some(context.waker().clone());
}

fn take_waker(place: &Place) -> Option<Waker> {
    place.lock().expect("no panic").take()
}

/// Race: a task is woken by another worker while it runs, or rests, or is just about to. Nothing but the wake orders the two.
///
/// Seen to fail: when `rest` does not look at `SCHEDULED` (the wake is lost); when `rest` is relaxed (the next poll does not see
/// what the last did); when `schedule` puts a running task into a queue (two workers poll it).
#[test]
fn a_wake_is_never_lost() {
    model::explore(|| {
        let mut model = Model::new();
        let (waiting, waking) = (model.witness(), model.witness());
        let (place, flag) = (Place::default(), Arc::new(AtomicBool::new(false)));
        let (theirs, theirs_to_read, witness) = (place.clone(), flag.clone(), waiting.clone());
        spawn(&model.executor.spawner(), &waiting, move |context| {
            leave_waker(&theirs, context);
            // The poll is not over yet.
            witness.touch(|_| ());
            if theirs_to_read.load(Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending }
        });
        spawn(&model.executor.spawner(), &waking, move |_| {
            flag.store(true, Ordering::Relaxed);
            if let Some(waker) = take_waker(&place) {
                waker.wake();
            }
            Poll::Ready(())
        });
        model.run();
        model.finish();
        let (waited, woke) = (waiting.seen(), waking.seen());
        assert!(waited.drops == 1 && (1..=2).contains(&waited.polls), "{waited:?}");
        assert_eq!(woke, Seen { polls: 1, drops: 1 });
    });
}

/// Race: the last reference of a task that nobody will wake is dropped by another worker, which frees it, while its own
/// worker puts it to rest.
///
/// Seen to fail: when `release` or `rest` is relaxed (the future is dropped beside its last poll, as loom sees it).
#[test]
fn a_task_without_wakers_is_freed_once() {
    model::explore(|| {
        let mut model = Model::new();
        let (waiting, dropping) = (model.witness(), model.witness());
        let place = Place::default();
        let (theirs, witness) = (place.clone(), waiting.clone());
        spawn(&model.executor.spawner(), &waiting, move |context| {
            leave_waker(&theirs, context);
            witness.touch(|_| ());
            Poll::Pending
        });
        let theirs = place.clone();
        spawn(&model.executor.spawner(), &dropping, move |_| {
            drop(take_waker(&theirs));
            Poll::Ready(())
        });
        model.run();
        // If the other task came too early, this thread drops the waker, and the executor frees the task with itself.
        drop(take_waker(&place));
        model.finish();
        let once = Seen { polls: 1, drops: 1 };
        assert_eq!((waiting.seen(), dropping.seen()), (once, once));
    });
}
