//! Looks into a running heap: what arrives is what the heap holds, and it is shown.

use core::alloc::Layout;
use std::io::ErrorKind;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread;

use meshheap::{Budget, BudgetOptions, Heap, Limits, MeshBudget, Options, PageUse, StepEnd};
use meshheap_examples::heap_map::Cell;
use meshheap_examples::live::view::{Paint, draw};
use meshheap_examples::live::{Server, Snapshot, fetch};
use meshheap_linux::HybridPlatform;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

/// A name for a socket that no other test uses.
fn socket(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("meshheap-view-{}-{name}", std::process::id()))
}

const LIMIT: BudgetOptions = BudgetOptions::new(7).physical_bytes(Limits::hard(512 << 20));

/// A heap with 60 MiB of pages, meshed, under a budget of 512 MiB.
fn meshed_heap(budget: &'static Budget) -> Heap<HybridPlatform> {
    let options = Options { arena_bytes: 1 << 30, seed: Some(1), ..Options::default() };
    let heap = Heap::with_budget(HybridPlatform::new(), options, budget).expect("Linux has room");
    let mut local = heap.local();
    let layout = Layout::new::<[u64; 8]>();
    let objects: Vec<_> = (0..1_000_000).map(|_| local.alloc(layout).expect("room")).collect();
    for (number, object) in objects.into_iter().enumerate() {
        if number % 10 != 0 {
            // SAFETY: the object is live and is not used afterwards.
            unsafe { local.dealloc(object, layout) };
        }
    }
    local.alloc(Layout::from_size_align(1 << 20, 16).expect("valid")).expect("room");
    drop(local);
    // SAFETY: no other thread runs.
    while unsafe { heap.mesh_at_safepoint(MeshBudget::UNLIMITED) }.end == StepEnd::Budget {}
    heap
}

fn text_of(snapshot: &Snapshot) -> String {
    let mut terminal = Terminal::new(TestBackend::new(140, 40)).expect("never fails");
    terminal.draw(|frame| draw(frame, snapshot, Paint::Letters, "the last line")).expect("never fails");
    terminal.backend().to_string()
}

#[test]
fn what_is_fetched_is_what_the_heap_holds() {
    static BUDGET: Budget = Budget::new(LIMIT);
    let heap = meshed_heap(&BUDGET);
    let path = socket("fetched");
    let server = Server::bind(&path).expect("a socket");
    let snapshots = thread::scope(|scope| {
        let serving = scope.spawn(|| server.serve("test", &heap));
        // Somebody who goes away without reading is no trouble.
        drop(UnixStream::connect(&path).expect("the server is there"));
        let snapshots = [(); 2].map(|()| fetch(&path).expect("the server is there"));
        server.stop().expect("the server is there");
        serving.join().expect("no panic").expect("the socket is whole");
        snapshots
    });
    let [first, second] = snapshots;
    assert!(first == second, "nothing happened in between");
    let statistics = heap.statistics();
    assert_eq!(first.figure("held_bytes"), statistics.held_bytes);
    assert_eq!(first.figure("mappings"), statistics.mappings);
    let (mut aliases, mut large) = (0, 0);
    heap.walk_pages(|run, used| match used {
        PageUse::Alias { .. } => aliases += run.count as usize,
        PageUse::Large => large += run.count as usize,
        _ => {}
    });
    let map = first.map();
    assert!(aliases > 1000 && large > 0);
    assert_eq!((map.count(|cell| cell == Cell::Alias), map.count(|cell| cell == Cell::Large)), (aliases, large));
    let class = first.classes.iter().find(|class| class.slot_size == 64).expect("objects of 64 bytes");
    assert_eq!(class.taken, 100_000);
    assert_eq!(first.budgets.len(), 1, "one resource has a limit");
    assert_eq!((first.budgets[0].id, first.budgets[0].hard), (7, 512 << 20));
    assert!(first.budgets[0].used > 0);
    assert!(first.picture().svg().contains("test"));
    drop(server);
    assert!(!path.exists(), "the socket goes with its server");
    assert_eq!(fetch(&path).expect_err("nobody serves").kind(), ErrorKind::NotFound);
}

#[test]
fn the_view_shows_occupancy_aliases_and_limits_in_any_terminal() {
    static BUDGET: Budget = Budget::new(LIMIT);
    let snapshot = Snapshot::of("test", &meshed_heap(&BUDGET));
    let text = text_of(&snapshot);
    for wanted in ["MiB held for", "of them aliases", "mappings", "#7 physical", "512.0 MiB", "size classes", "alias"] {
        assert!(text.contains(wanted), "{wanted} in\n{text}");
    }
    let row = text.lines().find(|line| line.contains("100 000")).expect("the row of the 64-byte objects");
    assert!(row.contains(" 64 "), "{row}");
    let map = text.lines().filter(|line| line.contains('│')).filter_map(|line| line.split('│').nth(1));
    let letters: String = map.collect();
    assert!(letters.contains('a') && letters.contains(|letter: char| letter.is_ascii_digit()), "{text}");
    for (width, height) in [(1, 1), (20, 5), (63, 8), (300, 100)] {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("never fails");
        terminal.draw(|frame| draw(frame, &snapshot, Paint::Colours, "")).expect("never fails");
    }
}

#[test]
fn a_socket_that_was_left_behind_is_replaced_and_one_that_is_served_is_not() {
    let path = socket("left");
    drop(UnixListener::bind(&path).expect("a socket"));
    assert!(path.exists(), "nobody removed it");
    let server = Server::bind(&path).expect("nobody serves it");
    assert_eq!(Server::bind(&path).expect_err("it is served").kind(), ErrorKind::AddrInUse);
    drop(server);
    assert!(!path.exists());
}
