//! A program with a heap at which others may look while it runs: sessions come and go, and the heap is meshed in between.
//!
//!     cargo run --release -p meshheap-examples --example live_heap -- /tmp/heap.socket [ROUNDS]
//!     cargo run --release -p meshheap-examples --bin heap_view -- /tmp/heap.socket

use core::alloc::Layout;
use core::error::Error;
use core::ptr::NonNull;
use core::time::Duration;
use std::path::PathBuf;
use std::thread;

use meshheap::{Budget, BudgetOptions, Heap, Limits, LocalHeap, MeshBudget, Options, StepEnd};
use meshheap_examples::live::Server;
use meshheap_linux::HybridPlatform;

type Sessions = Heap<HybridPlatform>;

static BUDGET: Budget = Budget::new(BudgetOptions::new(1).physical_bytes(Limits::hard(1 << 30)));

/// Between two steps of the load, so that a person can follow.
const PAUSE: Duration = Duration::from_millis(200);

/// Objects that a session keeps, by their sizes.
const SIZES: [usize; 6] = [32, 64, 100, 300, 1000, 3000];

/// One session's objects.
struct Session(Vec<(NonNull<u8>, Layout)>);

impl Session {
    fn begin(local: &mut LocalHeap<&Sessions>, number: usize) -> Result<Self, meshheap::AllocError> {
        let sizes = SIZES.into_iter().cycle().skip(number % SIZES.len()).take(40);
        let object = |size| {
            let layout = Layout::from_size_align(size, 8).expect("small and aligned");
            Ok((local.alloc(layout)?, layout))
        };
        sizes.map(object).collect::<Result<_, _>>().map(Self)
    }

    fn end(self, local: &mut LocalHeap<&Sessions>) {
        for (object, layout) in self.0 {
            // SAFETY: the object is live, has this layout and is forgotten here.
            unsafe { local.dealloc(object, layout) };
        }
    }
}

fn run(heap: &Sessions, rounds: usize) -> Result<(), meshheap::AllocError> {
    let mut local = heap.local();
    let mut sessions = Vec::new();
    for round in 0..rounds {
        // A wave of sessions; most end soon, in no order.
        for number in 0..10_000 {
            sessions.push(Session::begin(&mut local, number)?);
        }
        thread::sleep(PAUSE);
        let mut number = round;
        while sessions.len() > 1500 + 100 * (round % 10) {
            number = (number * 7919 + 104_729) % sessions.len();
            sessions.swap_remove(number).end(&mut local);
        }
        local.flush();
        thread::sleep(PAUSE);
        // SAFETY: this is the only thread that uses objects of the heap.
        while unsafe { heap.mesh_at_safepoint(MeshBudget::time(Duration::from_millis(2))) }.end == StepEnd::Budget {
            thread::sleep(PAUSE / 50);
        }
        thread::sleep(PAUSE);
    }
    sessions.into_iter().for_each(|session| session.end(&mut local));
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let path: PathBuf = arguments.next().ok_or("usage: live_heap SOCKET [ROUNDS]")?.into();
    let rounds = arguments.next().and_then(|rounds| rounds.to_str()?.parse().ok()).unwrap_or(usize::MAX);
    let options = Options { arena_bytes: 4 << 30, ..Options::default() };
    let heap = Heap::with_budget(HybridPlatform::new(), options, &BUDGET)?;
    let server = Server::bind(&path)?;
    println!("look at it: heap_view {}", path.display());
    thread::scope(|scope| {
        let serving = scope.spawn(|| server.serve("live_heap", &heap));
        let ran = run(&heap, rounds);
        server.stop()?;
        serving.join().expect("the server does not panic")?;
        Ok(ran?)
    })
}
