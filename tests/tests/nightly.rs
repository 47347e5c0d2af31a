//! The standard library's own collections in a heap, by `core::alloc::Allocator`: needs a nightly compiler.
//!
//!     cargo +nightly test -p meshheap-tests --features nightly --test nightly

#![cfg(feature = "nightly")]
#![feature(allocator_api, btreemap_alloc)]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use meshheap::{LocalRef, SimulatedPlatform};
use meshheap_tests::scene::{PAGE, small_heap};
use meshheap_tests::sparse::mesh_all;

#[test]
fn the_standard_librarys_collections_live_in_a_heap() {
    let platform = SimulatedPlatform::new(PAGE);
    let heap = small_heap(&platform, 4096);
    let local = LocalRef::new(heap.local());
    {
        let mut tree = BTreeMap::new_in(&local);
        let mut queue = VecDeque::new_in(&local);
        for number in 0..3000_u32 {
            let mut text = Vec::new_in(&heap);
            text.extend_from_slice(number.to_string().as_bytes());
            tree.insert(number, Box::new_in(number, &heap));
            queue.push_back(text);
            if queue.len() > 100 {
                queue.pop_front();
            }
        }
        tree.retain(|number, _| number % 7 == 0);
        local.flush();
        mesh_all(&heap);
        heap.check_invariants();
        assert!(tree.iter().all(|(key, value)| *key == **value));
        assert_eq!((tree.len(), queue.len()), (429, 100));
        let shared = Arc::new_in([1_u64; 100], &heap);
        assert_eq!(Arc::clone(&shared).iter().sum::<u64>(), 100);
        assert!(heap.contains(core::ptr::NonNull::from(&*shared).cast()));
    }
    drop(local);
    heap.purge().expect("nothing fails");
    assert_eq!((heap.objects().count(), heap.statistics().misuses), (0, 0));
}
