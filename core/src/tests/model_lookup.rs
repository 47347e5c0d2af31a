//! Race: pointers are looked up while a mesh makes their span an alias, and while pages change hands.

use core::alloc::Layout;

use crate::MisuseKind;
use crate::base::sync::testing::{model, thread};
use crate::mesh::pair::Outcome;
use crate::tests::world::{LAYOUT, Object, SLOTS, World};

/// A live object is looked up through its own address while its span becomes an alias and its neighbour is freed.
///
/// Seen to fail: when `usable_size` checks the bitmap without the class lock (loom: concurrent accesses to the word); when
/// `Heap::locate` reads the record of the span, which the mesh rewrites (the same for the record), which is why a page's
/// way to its span's first page has a byte of its own; when `link_member` moves the source's bits into the keeper's bitmap,
/// as the C++ original does (the object is told to be free).
#[test]
fn a_lookup_finds_its_object_before_during_and_after_a_mesh() {
    model(|| {
        let world = World::new();
        let (keeper, source) = world.two_spans(&[0], &[1, 2]);
        let reader = {
            let (world, object) = (world.clone(), source[0]);
            thread::spawn(move || {
                assert_eq!(world.0.usable_size(object.start()), Ok(LAYOUT.size()));
                assert!(world.0.contains(object.start()));
            })
        };
        let outcome = world.mesh(keeper[0], source[0]);
        assert!(matches!(outcome, Outcome::Meshed { .. }), "{outcome:?}");
        world.free(source[1]);
        reader.join().expect("the reader does not panic");
        world.finish([keeper[0], source[0]]);
    });
}

/// A stale pointer is looked up while its page goes from a span to an object of a whole page (a large one under loom): the
/// answer is that of some moment, and nothing is touched that belongs to another.
///
/// Seen to fail: when `usable_size` checks the bitmap without the class lock, or `large_size` reads the record without the
/// page-heap lock (loom: concurrent accesses to the word or record).
#[test]
fn a_stale_lookup_tells_a_misuse() {
    model(|| {
        let world = World::new();
        let page = Layout::from_size_align(LAYOUT.size() * SLOTS, 16).expect("valid");
        let object = world.span_with(&[0])[0];
        let reader = {
            let world = world.clone();
            thread::spawn(move || match world.0.usable_size(object.start()) {
                Ok(size) => assert!(size == LAYOUT.size() || size == page.size()),
                Err(misuse) => {
                    let kinds =
                        [MisuseKind::NotOurs, MisuseKind::DoubleFree, MisuseKind::WrongLayout, MisuseKind::Interior];
                    assert!(kinds.contains(&misuse.kind), "{misuse:?}");
                }
            })
        };
        world.free(object);
        let other = Object(world.0.alloc(page).expect("the arena has room"));
        assert_eq!(world.page_of(other), world.page_of(object), "a used page is taken first");
        reader.join().expect("the reader does not panic");
        world.finish([other]);
    });
}
