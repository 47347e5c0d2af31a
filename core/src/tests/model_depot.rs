//! Race: refill, flush and depot.

use crate::base::sync::testing::{Arc, model, thread};
use crate::tests::world::{LAYOUT, Object, Witnesses, World};

/// One thread frees through a local heap and flushes it, another allocates through its own until it refills: from the
/// depot, or from spans. No slot has two holders, and who gets a slot sees what its last holder did.
///
/// Both threads have their vectors before they use the objects that count, so that nothing but the flush and the refill
/// orders the two.
///
/// Seen to fail: when `try_refill` takes the depot's vector under the metadata lock instead of the class lock, or `flush`
/// puts it without one (loom: concurrent accesses to the witness); when `try_refill` claims from spans after it dropped the
/// class lock (loom: concurrent accesses to a record or bitmap word).
#[test]
fn a_slot_goes_from_hand_to_hand() {
    model(|| {
        let world = World::new();
        let witnesses = Arc::new(Witnesses::new(&world));
        let mut local = world.0.local();
        // Under loom a refill takes two slots of a span's four: all four are taken, and the next allocation refills again.
        let mine = [world.alloc(), world.alloc()];
        let cached = [(); 2].map(|()| Object(local.alloc(LAYOUT).expect("the arena has room")));
        let freer = {
            let (world, witnesses) = (world.clone(), Arc::clone(&witnesses));
            thread::spawn(move || {
                let mut local = world.0.local();
                let objects = [(); 2].map(|()| Object(local.alloc(LAYOUT).expect("the arena has room")));
                for object in objects {
                    witnesses.hold(object);
                    // SAFETY: the object is live and is not used afterwards.
                    unsafe { local.dealloc(object.start(), LAYOUT) };
                }
                // The drop flushes.
            })
        };
        let object = Object(local.alloc(LAYOUT).expect("the arena has room"));
        witnesses.hold(object);
        freer.join().expect("the freer does not panic");
        drop(local);
        world.finish(mine.into_iter().chain(cached).chain([object]));
    });
}
