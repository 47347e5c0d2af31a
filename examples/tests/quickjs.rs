//! The example `quickjs`, in small.

use core::time::Duration;

use meshheap::MeshBudget;
use meshheap_examples::quickjs::experiment::{hit_limit, residue, run};
use meshheap_examples::quickjs::programs::PROGRAMS;
use meshheap_examples::quickjs::{Engine, JsError, Source};

#[test]
fn programs_compute_the_same_on_every_allocator() {
    for program in &PROGRAMS {
        let sum = |source| run(program, source, 1).expect("it runs").sum;
        let ours = sum(Source::heap());
        assert!(ours > 0.0, "{}: {ours}", program.name);
        assert_eq!((ours, ours), (sum(Source::System), sum(Source::Mimalloc)), "{}", program.name);
    }
}

#[test]
fn a_service_gets_its_memory_back_in_the_pause_of_a_collection() {
    let residue = residue(8, MeshBudget::time(Duration::from_millis(1))).expect("it runs");
    assert_eq!(residue.sums[0], residue.sums[1], "every object is what it was");
    let (live, before, after) = (residue.after.taken_bytes, residue.before.held_bytes, residue.after.held_bytes);
    assert!(live < after && 2 * after < before, "live {live}, before {before}, after {after}");
    assert_eq!(residue.after.misuses, 0);
}

#[test]
fn a_limit_is_an_error_and_the_runtime_goes_on() {
    let limited = hit_limit(8 << 20, &PROGRAMS[2], 1).expect("room for a runtime");
    assert_eq!(limited.error, JsError::OutOfMemory);
    assert!(limited.held <= 9 << 20, "held {}", limited.held);
    let free = run(&PROGRAMS[2], Source::heap(), 1).expect("it runs").sum;
    assert_eq!(limited.next, Ok(free));
}

#[test]
fn a_limit_too_small_for_a_runtime_is_an_error() {
    for limit in [0, 4096, Source::MIN_LIMIT - 1] {
        let engine = Engine::new(Source::Heap { limit });
        assert!(matches!(engine, Err(JsError::NoEngine(_))), "{engine:?}");
    }
}

#[test]
fn what_a_program_throws_is_told_and_two_runtimes_on_one_thread_keep_apart() {
    let [mut first, mut second] = [(); 2].map(|()| Engine::new(Source::heap()).expect("room"));
    first.load("let x = []; function run(n) { x.push('a'.repeat(n)); return x.length; }").expect("it parses");
    second.load("function run() { throw new Error('so be it'); }").expect("it parses");
    for expected in [1.0, 2.0, 3.0] {
        assert_eq!(second.call("run", 0), Err(JsError::Thrown("so be it".to_owned())));
        assert_eq!(first.call("run", 10_000), Ok(expected));
    }
    assert!(matches!(second.load("let = 3"), Err(JsError::Thrown(_))));
    second.drop_at_once();
    first.collect();
    assert_eq!(first.call("run", 10), Ok(4.0));
    assert_eq!(first.heap().expect("it has one").statistics().misuses, 0);
}
