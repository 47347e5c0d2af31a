//! Race: an object is pinned while its span is meshed.

use crate::base::sync::testing::{model, thread};
use crate::base::units::PageIndex;
use crate::heap::pin::PinError;
use crate::mesh::pair::Outcome;
use crate::tests::world::{Object, World};
use crate::{Heap, PageState, SimulatedPlatform};

/// The page whose memory an object's address shows.
fn shown(heap: &Heap<SimulatedPlatform>, world: &World, object: Object) -> PageIndex {
    let page = world.page_of(object);
    match heap.platform().state(page) {
        PageState::Own => page,
        PageState::Alias(target) => target,
    }
}

/// An object of the source is pinned while the source moves: whatever memory is behind it when `pin` returns stays.
///
/// Seen to fail: when `pin_slot` pins what is busy; when `Pair::hold` drops the lock between looking at the pins and holding
/// the spans.
#[test]
fn what_is_pinned_does_not_move_any_more() {
    model(|| {
        let world = World::new();
        let (keeper, source) = world.two_spans(&[0], &[1]);
        let pinner = {
            let (world, object) = (world.clone(), source[0]);
            thread::spawn(move || {
                world.0.pin(object.start()).expect("it is live, and not pinned");
                shown(&world.0, &world, object)
            })
        };
        let outcome = world.mesh(keeper[0], source[0]);
        assert!(matches!(outcome, Outcome::Meshed { .. } | Outcome::Stale), "{outcome:?}");
        let then = pinner.join().expect("the pinner does not panic");
        assert_eq!(shown(&world.0, &world, source[0]), then);
        world.0.unpin(source[0].start()).expect("it is pinned");
        world.finish([keeper[0], source[0]]);
    });
}

/// Two threads pin the first objects of a heap at once: both are pinned, by one plane.
///
/// Seen to fail: when `reserve_pins` puts its plane in the place of one that another thread put there first (a pin is gone).
#[test]
fn two_threads_pin_for_the_first_time() {
    model(|| {
        let world = World::new();
        let objects = world.span_with(&[0, 1]);
        let pinner = {
            let (world, object) = (world.clone(), objects[0]);
            thread::spawn(move || world.0.pin(object.start()))
        };
        assert_eq!(world.0.pin(objects[1].start()), Ok(()));
        assert_eq!(pinner.join().expect("the pinner does not panic"), Ok(()));
        for object in &objects {
            assert_eq!(world.0.pin(object.start()), Err(PinError::AlreadyPinned));
            assert_eq!(world.0.unpin(object.start()), Ok(()));
        }
        world.finish(objects);
    });
}
