//! Race: pages are on their way back, to be unaliased or purged, while pages are taken.

use crate::base::sync::testing::{model, thread};
use crate::mesh::pair::Outcome;
use crate::tests::world::{SLOTS, World};

/// The last object of an alias is freed, so that its pages are unaliased without a lock, while another thread takes a new
/// span: it never gets pages that are in transit.
///
/// Seen to fail: when `unalias` inserts the pages as free before the platform unaliased them (the platform refuses to commit
/// an alias); when `add_span` sets the kinds after it dropped the page-heap lock (loom: concurrent accesses to a record).
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

/// The last object of a span is freed and its page purged, without a lock, while another thread takes a page and writes to
/// it: it never gets the page that is being purged.
///
/// Seen to fail: when `purge_run` inserts the pages as clean before the platform purged them (the new object's bytes are
/// gone).
#[test]
fn pages_that_are_being_purged_are_nobodys() {
    model(|| {
        let world = World::new();
        let object = world.span_with(&[0])[0];
        let freer = {
            let world = world.clone();
            thread::spawn(move || {
                world.free(object);
                world.0.purge().expect("nothing fails");
            })
        };
        let other = world.alloc();
        // SAFETY: the object is this thread's and holds a word.
        unsafe { other.start().cast::<usize>().write(7) };
        freer.join().expect("the freer does not panic");
        // SAFETY: as above, and the word was written.
        assert_eq!(unsafe { other.start().cast::<usize>().read() }, 7);
        world.finish([other]);
    });
}
