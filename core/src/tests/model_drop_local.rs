//! Race: a local heap is dropped while a mesh pass runs.

use crate::base::sync::testing::{model, thread};
use crate::tests::world::{LAYOUT, World};
use crate::{MeshBudget, StepEnd};

/// A local heap with cached slots is dropped while whole steps run: its slots return to spans that are candidates, held, or
/// aliases by then.
///
/// Seen to fail: when `hold` does not take a span off its list (a claim or a release finds a busy span linked); when
/// `count_release` frees an empty span that is busy.
#[test]
fn a_local_heap_may_go_during_a_pass() {
    model(|| {
        let world = World::new();
        let (first, second) = world.two_spans(&[0, 1], &[2]);
        let user = {
            let (world, freed) = (world.clone(), first[1]);
            thread::spawn(move || {
                let mut local = world.0.local();
                // SAFETY: the object is live and is not used afterwards.
                unsafe { local.dealloc(freed.start(), LAYOUT) };
            })
        };
        // SAFETY: the other thread writes to no object.
        let step = unsafe { world.0.mesh_at_safepoint(MeshBudget::UNLIMITED) };
        assert_eq!(step.end, StepEnd::PassDone);
        user.join().expect("the user does not panic");
        world.finish([first[0], second[0]]);
    });
}
