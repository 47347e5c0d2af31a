//! bumpalo's arenas on the heap: it takes its chunks from the program's global allocator, which is `MeshHeap` here.

use bumpalo::Bump;
use bumpalo::collections::{String, Vec};
use meshheap_linux::MeshHeap;

#[global_allocator]
static GLOBAL: MeshHeap = MeshHeap::new();

fn taken_bytes() -> usize {
    GLOBAL.statistics().expect("the program runs on the heap").taken_bytes
}

#[test]
fn a_bump_arena_takes_its_chunks_from_the_heap_and_gives_them_back() {
    const TEXTS: usize = 50_000;
    let before = taken_bytes();
    let mut arena = Bump::new();
    let mut kept = Vec::new_in(&arena);
    for number in 0..TEXTS {
        let mut text = String::new_in(&arena);
        text.push_str(&number.to_string());
        kept.push(text.into_bump_str());
    }
    assert!(kept.iter().enumerate().all(|(number, text)| text.parse() == Ok(number)));
    let full = arena.allocated_bytes();
    let taken = taken_bytes() - before;
    assert!(taken >= full && full > TEXTS * size_of::<&str>(), "{taken} of {full} bytes are the heap's");
    drop(kept);
    arena.reset();
    let chunk = arena.allocated_bytes();
    assert!(chunk < full && taken_bytes() - before < taken, "a reset keeps one chunk");
    drop(arena);
    // What other threads of the test program hold meanwhile is little.
    assert!(taken_bytes().abs_diff(before) < 256 << 10);
}
