//! Race: two flushes empty one span.

use crate::base::sync::testing::{model, thread};
use crate::tests::world::{LAYOUT, World};

/// Two threads free the last two objects of a span, one each. The span is given back once.
///
/// Seen to fail: when `count_releases` decides on a live count that was read under an earlier hold of the class lock (I4:
/// the keeper counts a slot that is free, so it is never given back); when `release_one` reads the record before it takes
/// the lock (loom: concurrent accesses to the record).
#[test]
fn a_span_is_given_back_once() {
    model(|| {
        let world = World::new();
        let others = world.fill_depot();
        let objects = world.span_with(&[0, 2]);
        let other = {
            let (world, object) = (world.clone(), objects[0]);
            thread::spawn(move || {
                let mut local = world.0.local();
                // SAFETY: the object is live and is not used afterwards.
                unsafe { local.dealloc(object.start(), LAYOUT) };
            })
        };
        world.free(objects[1]);
        other.join().expect("the other does not panic");
        world.finish(others);
    });
}
