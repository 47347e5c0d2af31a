//! The experiment of the example `lua`, in small.

use core::time::Duration;

use meshheap::Heap;
use meshheap_examples::heap_map::{Cell, Panel, pair};
use meshheap_examples::lua::experiment::{Failure, Outcome, Script, Settings, run};
use meshheap_examples::lua::programs::{PROGRAMS, measure};
use meshheap_examples::lua::tenant::{Day, serve};
use meshheap_examples::lua::{HeapMemory, LuaError, Mimalloc, SystemMemory, run_on_system};
use meshheap_linux::HybridPlatform;

const SETTINGS: Settings = Settings { limit: usize::MAX, step: Duration::from_millis(1), mapping_budget: None };

fn script(text: &'static str) -> Script {
    Script { source: text.as_bytes().into(), name: "test.lua".to_owned(), scale: 1.0 }
}

fn quietly(script: &Script, settings: &Settings) -> Result<Outcome, Failure> {
    run(script, settings, &mut |_| ())
}

/// The numbers of the line for machines: live, before, after.
fn parse(line: &str) -> Option<[usize; 3]> {
    let mut words = line.strip_prefix("lua: ")?.split(' ');
    let mut next = |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=')?.parse().ok();
    let numbers = [next("live")?, next("before")?, next("after")?];
    next("longest_step_us")?;
    Some(numbers)
}

#[test]
fn the_service_gets_its_memory_back() {
    let outcome = quietly(&Script::service(0.02), &SETTINGS).expect("the script runs");
    let [live, before, after] = parse(&outcome.to_string()).expect("the last line has its form");
    assert!(live < after && after < before, "live {live}, before {before}, after {after}");
    assert!(outcome.checksum.is_some(), "the service has a checksum");
    assert!(outcome.mesh.pages_freed > 0);
    assert_eq!(outcome.after.heap.misuses, 0);
    assert_eq!(outcome.after.map.count(|cell| cell == Cell::Alias), outcome.after.heap.aliased_bytes / 4096);
}

#[test]
fn the_same_script_holds_the_same_on_the_system_allocator() {
    let small = Script::service(0.002);
    let system = run_on_system(&small, usize::MAX).expect("the script runs");
    let ours = quietly(&small, &SETTINGS).expect("the script runs");
    // Ours has called `checksum`, which leaves Lua's stack a little larger.
    assert!(ours.before.live.abs_diff(system.live) < 4096, "{} and {}", ours.before.live, system.live);
}

#[test]
fn a_limit_in_the_middle_of_a_run_leaves_the_heap_usable() {
    let settings = Settings { limit: 2 << 20, ..SETTINGS };
    match quietly(&Script::service(0.1), &settings) {
        Err(Failure::Script { error: LuaError::OutOfMemory(_), taken, usable, .. }) => {
            assert!(usable);
            assert_eq!(taken, 0, "nothing is lost");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_limit_too_small_for_any_state_is_an_error() {
    for limit in [0, 1000, 10_000] {
        let outcome = quietly(&script("return 1"), &Settings { limit, ..SETTINGS });
        assert!(matches!(outcome, Err(Failure::Script { usable: true, .. })), "{outcome:?}");
    }
}

#[test]
fn a_wrong_script_is_told_in_lua_s_words() {
    let error = |text| match quietly(&script(text), &SETTINGS) {
        Err(Failure::Script { error, taken: 0, usable: true, .. }) => error,
        other => panic!("{other:?}"),
    };
    assert!(matches!(error("local = 3"), LuaError::Syntax(text) if text.starts_with("test.lua:1:")));
    assert!(matches!(error("\n\nerror('so be it')"), LuaError::Raised(text) if text.contains("test.lua:3: so be it")));
    assert!(matches!(error("error({})"), LuaError::Raised(_)));
    assert!(matches!(error("function checksum() error('late') end"), LuaError::Raised(text) if text.contains("late")));
}

#[test]
fn a_tenant_is_meshed_in_pauses_and_survives_its_limit_and_goes_at_once() {
    let day = Day { requests: 4, scale: 0.3, limit: 6 << 20, step: Duration::from_millis(1) };
    let evening = serve(&day).expect("the script works");
    let [busy, at_rest, meshed] = evening.held;
    assert!(2 * meshed < at_rest && at_rest <= busy + (1 << 20), "{:?}", evening.held);
    assert!(evening.pages_back > 100);
    assert!(matches!(evening.limited, Err(LuaError::OutOfMemory(_))), "{:?}", evening.limited);
    assert!(evening.sums[0].is_some() && evening.sums[0] == evening.sums[1], "{:?}", evening.sums);
    assert!(evening.dropped_bytes > 100_000, "it was dropped with all that it held");
}

#[test]
fn programs_compute_the_same_on_every_memory() {
    let heap = Heap::new(HybridPlatform::new()).expect("room");
    for program in &PROGRAMS {
        let (ours, _) = measure(program, HeapMemory::new(&heap), 0.05).expect("it runs");
        let (system, _) = measure(program, SystemMemory, 0.05).expect("it runs");
        let (mimalloc, _) = measure(program, Mimalloc, 0.05).expect("it runs");
        assert!(ours > 0 && (ours, ours) == (system, mimalloc), "{}: {ours}, {system}, {mimalloc}", program.name);
    }
    heap.purge().expect("Linux takes pages back");
    assert_eq!(heap.statistics().taken_bytes, 0);
}

#[test]
fn a_map_becomes_a_picture() {
    let outcome = quietly(&Script::service(0.01), &SETTINGS).expect("the script runs");
    let panel = |map| Panel { caption: "then", map, live: 1 << 20, held: 3 << 20, metadata: 1 << 18, dirty: 0 };
    let picture = pair("a < b", &panel(&outcome.before.map), &panel(&outcome.after.map));
    assert!(picture.svg().contains("a &lt; b"));
    assert!(picture.png().expect("it can be drawn").starts_with(b"\x89PNG"));
}
