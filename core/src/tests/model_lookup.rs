//! Race: pointers are looked up while a mesh makes their span an alias, and while pages change hands.

use crate::MisuseKind;
use crate::base::sync::testing::{model, thread};
use crate::mesh::pair::Outcome;
use crate::tests::world::{LAYOUT, World};

/// A live object is looked up through its own address while its span becomes an alias.
///
/// Seen to fail: when `check_taken` reads the bitmap without the class lock (loom: causality violation in the word); when
/// the mesh moves the source's bits into the keeper's bitmap, as the C++ original does, and the lookup reads its own.
#[test]
fn a_lookup_finds_its_object_before_during_and_after_a_mesh() {
    model(|| {
        let world = World::new();
        let (keeper, source) = world.two_spans(&[0], &[1]);
        let reader = {
            let (world, object) = (world.clone(), source[0]);
            thread::spawn(move || {
                assert_eq!(world.0.usable_size(object.start()), Ok(LAYOUT.size()));
                assert!(world.0.contains(object.start()));
            })
        };
        let outcome = world.mesh(keeper[0], source[0]);
        assert!(matches!(outcome, Outcome::Meshed { .. }), "{outcome:?}");
        reader.join().expect("the reader does not panic");
        world.finish([keeper[0], source[0]]);
    });
}

/// A stale pointer is looked up while its page goes from a span to a large object: the answer is that of some moment, and
/// nothing is touched that belongs to another.
///
/// Seen to fail: when `locate` reads the record to find a span's first page (loom: causality violation in the record),
/// which is why that distance has a byte of its own.
#[test]
fn a_stale_lookup_tells_a_misuse() {
    model(|| {
        let world = World::new();
        let object = world.span_with(&[0])[0];
        let reader = {
            let world = world.clone();
            thread::spawn(move || match world.0.usable_size(object.start()) {
                Ok(size) => assert!(size == LAYOUT.size() || size == 2 * LAYOUT.size() * crate::tests::world::SLOTS),
                Err(misuse) => {
                    let kinds =
                        [MisuseKind::NotOurs, MisuseKind::DoubleFree, MisuseKind::WrongLayout, MisuseKind::Interior];
                    assert!(kinds.contains(&misuse.kind), "{misuse:?}");
                }
            })
        };
        world.free(object);
        let pages = core::alloc::Layout::from_size_align(2 * LAYOUT.size() * crate::tests::world::SLOTS, 16);
        let large = world.0.alloc(pages.expect("valid")).expect("the arena has room");
        reader.join().expect("the reader does not panic");
        world.finish([crate::tests::world::Object(large)]);
    });
}
