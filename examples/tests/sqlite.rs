//! The example `sqlite`, in small. One test: SQLite has one allocator for the whole process.

use core::time::Duration;

use meshheap::{MeshBudget, Options};
use meshheap_examples::sqlite::install;
use meshheap_examples::sqlite::workload::{Scale, run};

#[test]
fn databases_give_their_memory_back_when_idle_and_answer_as_before() {
    let installed = install(Options::default()).expect("SQLite was not used yet");
    assert!(install(Options::default()).is_err(), "it has one allocator");
    let scale = Scale { tenants: 12, rows: 2000 };
    let outcome = run(installed, scale, MeshBudget::time(Duration::from_millis(1))).expect("SQL that works");
    assert_eq!(outcome.answers[0], outcome.answers[1]);
    assert!(outcome.allocations > 10_000, "SQLite uses the heap: {}", outcome.allocations);
    let (live, before, after) = (outcome.after.taken_bytes, outcome.before.held_bytes, outcome.after.held_bytes);
    assert!(live < after && after < before * 3 / 4, "live {live}, before {before}, after {after}");
    installed.flush();
    let left = installed.heap().statistics();
    assert_eq!(left.misuses, 0);
    // All connections are closed: what is left is SQLite's own.
    assert!(left.taken_bytes < live / 4, "{} of {live}", left.taken_bytes);
}
