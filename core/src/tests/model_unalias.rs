//! Race: a dead alias is on its way back while pages are taken.

use crate::base::sync::testing::{model, thread};
use crate::mesh::pair::Outcome;
use crate::tests::world::{SLOTS, World};

/// The last object of an alias is freed, so that its pages are unaliased without a lock, while another thread takes a new
/// span: it never gets pages that are in transit.
///
/// Seen to fail: when `give_back` inserts the pages of a dead alias as free before they are unaliased (the platform: an
/// alias is committed or unaliased twice).
#[test]
fn pages_in_transit_are_nobodys() {
    model(|| {
        let world = World::new();
        let (keeper, source) = world.two_spans(&[0], &[1]);
        assert!(matches!(world.mesh(keeper[0], source[0]), Outcome::Meshed { .. }));
        let fill: std::vec::Vec<_> = (0..SLOTS - 2).map(|_| world.alloc()).collect();
        let freer = {
            let (world, object) = (world.clone(), source[0]);
            thread::spawn(move || world.free(object))
        };
        let objects = [world.alloc(), world.alloc()];
        freer.join().expect("the freer does not panic");
        world.finish(fill.into_iter().chain(objects).chain([keeper[0]]));
    });
}
