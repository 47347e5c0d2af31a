//! Race: slots are claimed from a span and released to it while its empty pages are given back.

use core::alloc::Layout;

use crate::base::sync::testing::{model, thread};
use crate::ds::size_class::of_layout;
use crate::tests::world::{Object, World};

/// Long spans: two pages of two slots each under loom.
const LAYOUT: Layout = Layout::new::<[u64; 4]>();

/// A slot on the page that is given back is claimed and written; another is released.
///
/// Seen to fail: when `hold_hollow` does not hold the span (I6: a page without memory has a taken slot); when `hollow_span`
/// notes pages beside the class lock (the count of pages without memory goes wrong).
#[test]
fn a_page_that_is_given_back_holds_no_object() {
    model(|| {
        let world = World::new();
        let alloc = |world: &World| Object(world.0.alloc(LAYOUT).expect("the arena has room"));
        let class = of_layout(LAYOUT).expect("small");
        let cut = *world.0.arena().cut(class);
        let slots = cut.slots as usize;
        let objects: std::vec::Vec<_> = (0..slots).map(|_| alloc(&world)).collect();
        // The first page stays full, so that the next claim is on the other one.
        let kept = slots / cut.pages as usize;
        objects[kept..].iter().for_each(|&object| world.free(object));
        let user = {
            let (world, last) = (world.clone(), objects[0]);
            thread::spawn(move || {
                let object = alloc(&world);
                // SAFETY: the object is ours and holds a byte.
                unsafe { object.start().write(7) };
                world.free(last);
                object
            })
        };
        world.0.arena().hollow_span(class, world.page_of(objects[0])).expect("nothing fails");
        let object = user.join().expect("the user does not panic");
        // SAFETY: the object is live, and its user is gone.
        assert_eq!(unsafe { object.start().read() }, 7, "the page under an object stays");
        world.finish(objects[1..kept].iter().copied().chain([object]));
    });
}
