//! Race: two flushes empty one span.

use crate::base::sync::testing::{model, thread};
use crate::tests::world::{LAYOUT, World};

/// Two threads free the last two objects of a span, one each. The span is given back once.
///
/// Seen to fail: when `count_release` decides on a live count read before the class lock was taken (I1: the span is given
/// back twice, or never).
#[test]
fn a_span_is_given_back_once() {
    model(|| {
        let world = World::new();
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
        world.finish([]);
    });
}
