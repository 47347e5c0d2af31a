//! Race: refill, flush and depot.

use crate::base::sync::testing::{Arc, model, thread};
use crate::tests::world::{LAYOUT, Object, Witnesses, World};

/// One thread frees through a local heap until it flushes, another allocates through its own until it refills: from the
/// depot, or from spans. No slot has two holders, and who gets a slot sees what its last holder did.
///
/// Seen to fail: when `refill` takes the depot's vector under another lock than `flush` puts it (loom: causality violation
/// in the witness); when `claim` sets bits without the class lock.
#[test]
fn a_slot_goes_from_hand_to_hand() {
    model(|| {
        let world = World::new();
        let witnesses = Arc::new(Witnesses::new(&world));
        let objects: std::vec::Vec<_> = (0..5).map(|_| world.alloc()).collect();
        objects.iter().for_each(|&object| witnesses.hold(object));
        let freer = {
            let (world, witnesses) = (world.clone(), Arc::clone(&witnesses));
            thread::spawn(move || {
                let mut local = world.0.local();
                for object in objects {
                    witnesses.hold(object);
                    // SAFETY: the object is live and is not used afterwards.
                    unsafe { local.dealloc(object.start(), LAYOUT) };
                }
            })
        };
        let mut local = world.0.local();
        let object = Object(local.alloc(LAYOUT).expect("the arena has room"));
        witnesses.hold(object);
        freer.join().expect("the freer does not panic");
        drop(local);
        world.finish([object]);
    });
}
