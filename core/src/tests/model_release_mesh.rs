//! Race: objects are released while their spans are meshed.

use crate::base::sync::testing::{model, thread};
use crate::mesh::pair::{Outcome, Writers};
use crate::tests::world::World;

/// An object of the source and one of the keeper are freed while the source moves; its other object stays.
///
/// Seen to fail: when `link_member` links with the live count from before the copy (I4: the alias counts a slot that is
/// free); when it links without the class lock (loom: concurrent accesses to the record); when `Pair::hold` drops the lock
/// between looking at the two spans and holding them (a span that is gone is held).
#[test]
fn a_release_during_a_mesh_is_neither_lost_nor_doubled() {
    model(|| release_during_a_mesh(Writers::AtSafepoint));
}

/// The same with the calls of a write barrier: the slots that are copied are those that were live before them.
///
/// Seen to fail: when `own_bits` reads without the class lock (loom: concurrent accesses to a word of the bitmap).
#[test]
fn a_release_during_a_mesh_beside_writers_is_neither_lost_nor_doubled() {
    model(|| release_during_a_mesh(Writers::Running));
}

fn release_during_a_mesh(writers: Writers) {
    let world = World::new();
    let (keeper, source) = world.two_spans(&[0], &[1, 2]);
    let releaser = {
        let (world, first, second) = (world.clone(), source[0], keeper[0]);
        thread::spawn(move || {
            world.free(first);
            world.free(second);
        })
    };
    let outcome = world.mesh_with(writers, keeper[0], source[1]);
    assert!(matches!(outcome, Outcome::Meshed { .. } | Outcome::Stale), "{outcome:?}");
    releaser.join().expect("the releaser does not panic");
    world.finish([source[1]]);
}

/// The last objects of a source that has an alias are freed while both move to another keeper.
///
/// Seen to fail: when `settle` does not part the aliases that died while the span was busy (I4: an alias without a live
/// slot); when `first_alias` reads the source's record without the class lock (loom: concurrent accesses to the record).
#[test]
fn an_alias_that_dies_while_its_group_moves_is_parted() {
    model(|| {
        let world = World::new();
        let (first, second) = world.two_spans(&[0], &[1]);
        assert!(matches!(world.mesh(second[0], first[0]), Outcome::Meshed { .. }));
        // `second` keeps `first` as its alias; fill the group's free slots, so that a third span is made.
        let fill: std::vec::Vec<_> = (0..crate::tests::world::SLOTS - 2).map(|_| world.alloc()).collect();
        let third = world.span_with(&[3]);
        fill.into_iter().for_each(|object| world.free(object));
        let releaser = {
            let (world, object) = (world.clone(), first[0]);
            thread::spawn(move || world.free(object))
        };
        let outcome = world.mesh(third[0], second[0]);
        assert!(matches!(outcome, Outcome::Meshed { .. }), "{outcome:?}");
        releaser.join().expect("the releaser does not panic");
        world.finish([second[0], third[0]]);
    });
}
