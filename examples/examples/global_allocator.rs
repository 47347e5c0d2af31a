//! The process's heap as a Rust program's global allocator: a load comes and goes, and its memory with it.
//!
//!     cargo run --release --example global_allocator

use std::collections::HashMap;

use meshheap_linux::MeshHeap;
use meshheap_linux::memory::pss_bytes;

#[global_allocator]
static GLOBAL: MeshHeap = MeshHeap::new();

fn show(when: &str) {
    const MIB: usize = 1 << 20;
    let Some(statistics) = GLOBAL.statistics() else { return };
    let pss = pss_bytes().map_or_else(|| "?".to_owned(), |bytes| (bytes / MIB).to_string());
    println!(
        "{when:<22} {:>6} MiB in objects, {:>6} MiB held, {pss:>6} MiB Pss",
        statistics.taken_bytes / MIB,
        statistics.held_bytes / MIB,
    );
}

fn main() {
    show("at the start");
    let sessions: HashMap<u32, Vec<String>> =
        (0..100_000).map(|id| (id, (0..20).map(|n| format!("field {n} of session {id}")).collect())).collect();
    show("100,000 sessions");
    std::thread::scope(|scope| {
        for worker in 0..4_usize {
            let sessions = &sessions;
            scope.spawn(move || {
                let mine = sessions.values().skip(worker).step_by(4);
                let lengths: Vec<usize> = mine.map(|fields| fields.join(", ").len()).collect();
                assert!(lengths.iter().all(|&length| length > 0));
            });
        }
    });
    drop(sessions);
    show("all sessions closed");
    if let Some(bytes) = GLOBAL.purge() {
        println!("purge gave {} MiB back", bytes >> 20);
    }
    show("purged");
}
