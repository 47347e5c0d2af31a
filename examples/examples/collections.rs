//! Collections in a heap of their own, for each request a heap: hashbrown's map and allocator-api2's vectors. What a request
//! leaves behind goes at once, with its heap.
//!
//!     cargo run --release -p meshheap-examples --example collections

use core::alloc::Layout;

use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec as VecIn;
use hashbrown::HashMap;
use meshheap::{AllocError, Heap, LocalRef, Options};
use meshheap_linux::HybridPlatform;

type Tenant = Heap<HybridPlatform>;

/// Counts the words of a text, in memory of the tenant's.
fn count_words(tenant: &Tenant, text: &str) -> usize {
    // One thread's collections share a local heap: no locks for most allocations.
    let local = LocalRef::new(tenant.local());
    let mut words: HashMap<Box<[u8], &LocalRef<&Tenant>>, usize, _, _> = HashMap::new_in(&local);
    for word in text.split_whitespace() {
        let mut key = VecIn::with_capacity_in(word.len(), &local);
        key.extend_from_slice(word.as_bytes());
        *words.entry(key.into_boxed_slice()).or_default() += 1;
    }
    words.len()
}

fn main() -> Result<(), AllocError> {
    let options = Options { arena_bytes: 1 << 30, ..Options::default() };
    let mut tenant = Heap::with_options(HybridPlatform::new(), options)?;
    let text: String = (0..200_000_u64).map(|n| format!("word{} ", n * n % 50_021)).collect();
    for request in 1..=3 {
        let words = count_words(&tenant, &text);
        // Somebody forgets to free this.
        tenant.alloc(Layout::new::<[u64; 100]>())?;
        println!("request {request}: {words} words, and {}", tenant.leaks());
        tenant.reset();
        assert!(tenant.leaks().is_empty());
    }
    Ok(())
}
