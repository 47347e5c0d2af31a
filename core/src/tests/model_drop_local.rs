//! Race: a local heap is dropped while a mesh pass runs.

use crate::base::sync::testing::{model, thread};
use crate::tests::world::{LAYOUT, World};
use crate::{MeshBudget, StepEnd};

/// A local heap with cached slots is dropped while whole steps run: its slots return to spans that are candidates, held, or
/// aliases by then.
///
/// Seen to fail: when `count_releases` treats a busy span like any other (I1: a list links a span that became an alias);
/// when `collect` reads candidates, or `Pair::settle` settles the keeper, without the class lock (loom: concurrent accesses
/// to a record or bitmap word).
#[test]
fn a_local_heap_may_go_during_a_pass() {
    model(|| {
        let world = World::new();
        let others = world.fill_depot();
        let (first, second) = world.two_spans(&[0, 1], &[2, 3]);
        let user = {
            let (world, freed) = (world.clone(), [first[1], second[1]]);
            thread::spawn(move || {
                let mut local = world.0.local();
                for object in freed {
                    // SAFETY: the object is live and is not used afterwards.
                    unsafe { local.dealloc(object.start(), LAYOUT) };
                }
            })
        };
        // SAFETY: the other thread writes to no object.
        let step = unsafe { world.0.mesh_at_safepoint(MeshBudget::UNLIMITED) };
        assert_eq!(step.end, StepEnd::PassDone);
        user.join().expect("the user does not panic");
        world.finish(others.into_iter().chain([first[0], second[0]]));
    });
}
