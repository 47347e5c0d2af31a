//! Race: objects are released while a row of their spans is meshed.

use crate::base::sync::testing::{model, thread};
use crate::mesh::pair::Outcome;
use crate::tests::world::World;

/// The last object of one span of the source and an object of the keeper's other span are freed while the row moves.
///
/// Seen to fail: when `link_source` links without the class lock (loom: concurrent accesses to the record); when `settle` settles the
/// first span of the keeper only (I1: a mesh is at work on the other); when `Pair::hold` drops the lock between looking at the spans
/// and holding them (a span that is gone is held).
#[test]
fn a_release_during_the_mesh_of_a_row_is_neither_lost_nor_doubled() {
    model(|| {
        let world = World::new();
        let rows = world.spans(&[&[0], &[0, 1], &[2], &[2]]);
        let releaser = {
            let (world, source, keeper) = (world.clone(), rows[2][0], rows[1][0]);
            thread::spawn(move || {
                world.free(source);
                world.free(keeper);
            })
        };
        let outcome = world.mesh_rows(rows[0][0], rows[2][0]);
        assert!(matches!(outcome, Outcome::Meshed { .. } | Outcome::Stale), "{outcome:?}");
        releaser.join().expect("the releaser does not panic");
        world.finish([rows[0][0], rows[1][1], rows[3][0]]);
    });
}
