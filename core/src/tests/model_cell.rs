//! Race: a thread enters a cell while another ends or resets its heap.

use std::vec::Vec;

use crate::base::sync::testing::{Arc, model, thread};
use crate::tests::world::{LAYOUT, World};
use crate::{CellError, CellLocal, HeapCell, SimulatedPlatform};

type Cell = HeapCell<SimulatedPlatform>;

/// Starts a thread on whose stack there is room for heaps as values: loom's own are too small.
fn spawn_with_room<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<T> {
    thread::Builder::new().stack_size(256 << 10).spawn(body).expect("there is a thread")
}

fn cell() -> Arc<Cell> {
    let make = || {
        let Ok(heap) = Arc::try_unwrap(World::new().0) else { unreachable!("the world is ours alone") };
        Arc::new(HeapCell::new(heap))
    };
    spawn_with_room(make).join().expect("nothing fails")
}

/// What a worker finds: the heap, whole, until it leaves; or an error.
fn work(cell: &Cell, errors: &[CellError]) {
    let mut local = CellLocal::new(cell);
    for _ in 0..2 {
        match local.enter() {
            Ok(mut inside) => {
                let object = inside.alloc(LAYOUT).expect("the arena has room");
                // SAFETY: the object is live and is not used afterwards.
                unsafe { inside.dealloc(object, LAYOUT) };
            }
            Err(error) => assert!(errors.contains(&error), "{error:?}"),
        }
    }
}

/// A heap is ended, or not because somebody is inside; whoever is inside keeps it.
///
/// Seen to fail: when `enter` does not synchronise with the end (`Relaxed`: loom sees the heap read and replaced at once), nor
/// the end with those who left (the same); when `enter` looks at the generation without being inside.
#[test]
fn a_heap_is_ended_while_nobody_is_inside() {
    model(|| {
        let cell = cell();
        let worker = {
            let cell = cell.clone();
            thread::spawn(move || work(&cell, &[CellError::Stale, CellError::Ended, CellError::Busy]))
        };
        let end = {
            let cell = cell.clone();
            spawn_with_room(move || match cell.end() {
                Ok(heap) => drop(heap),
                Err(error) => assert_eq!(error, CellError::Busy),
            })
        };
        worker.join().expect("the worker does not panic");
        end.join().expect("the end does not panic");
        let left = cell.enter().map(|inside| inside.check_invariants());
        assert!(matches!(left, Ok(()) | Err(CellError::Ended)), "{left:?}");
    });
}

/// A handle with cached slots meets a reset: it is stale then, and gives none of them back.
///
/// Seen to fail: when a stale handle's drop flushes it.
#[test]
fn a_reset_makes_handles_stale() {
    model(|| {
        let cell = cell();
        let worker = {
            let cell = cell.clone();
            thread::spawn(move || work(&cell, &[CellError::Stale, CellError::Busy]))
        };
        let reset = cell.reset();
        assert!(matches!(reset, Ok(()) | Err(CellError::Busy)), "{reset:?}");
        worker.join().expect("the worker does not panic");
        let inside = cell.enter().expect("nobody ends it");
        inside.purge().expect("nothing fails");
        let live: Vec<_> = inside.objects().collect();
        assert!(live.is_empty(), "every slot is free: {live:?}");
        assert_eq!(inside.statistics().misuses, 0);
        inside.check_invariants();
    });
}
