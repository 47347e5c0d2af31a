//! A state as a server's tenant: with a heap and a limit of its own, meshed in the pauses of its collections, and dropped at
//! once.

use core::time::Duration;
use std::time::Instant;

use meshheap::{AllocError, Heap, MeshBudget, Options};
use meshheap_linux::HybridPlatform;

use super::error::LuaError;
use super::memory::HeapMemory;
use super::state::State;

const TENANT: &[u8] = include_bytes!("../../scripts/lua/tenant.lua");

/// How a tenant's day is.
#[derive(Clone, Copy, Debug)]
pub struct Day {
    /// Requests.
    pub requests: usize,
    /// How much each request makes: 1 is some 5 MiB.
    pub scale: f64,
    /// Bytes that the tenant may hold.
    pub limit: usize,
    /// The longest step of meshing in one pause.
    pub step: Duration,
}

/// How it went.
#[derive(Clone, Debug)]
pub struct Evening {
    /// The longest pause for meshing.
    pub longest_step: Duration,
    /// The longest pause in all: a full collection and a step of meshing.
    pub longest_pause: Duration,
    /// Pages that came back in the pauses.
    pub pages_back: usize,
    /// Bytes that the heap held after the last request, at rest, and once the pauses had meshed it.
    pub held: [usize; 3],
    /// What the cache held when the limit was hit, and after that: the same.
    pub sums: [Option<i64>; 2],
    /// What the limit did to the request that was too greedy.
    pub limited: Result<Option<i64>, LuaError>,
    /// How long it took to drop the heap with the whole state.
    pub dropped_in: Duration,
    /// How many objects that were, in bytes.
    pub dropped_bytes: usize,
}

/// Why there was no day.
#[derive(Clone, Debug)]
pub enum NoDay {
    /// There is no room for a heap.
    Heap(AllocError),
    /// The script failed.
    Lua(LuaError),
}

impl From<LuaError> for NoDay {
    fn from(error: LuaError) -> Self {
        Self::Lua(error)
    }
}

/// The pauses of one tenant.
struct Pauses<'h> {
    heap: &'h Heap<HybridPlatform>,
    budget: MeshBudget,
    longest: Duration,
    longest_step: Duration,
    pages_back: usize,
}

impl Pauses<'_> {
    /// A collection, and a step of meshing while Lua does not run anyway.
    fn pause(&mut self, lua: &mut State<HeapMemory<'_>>) {
        let begun = Instant::now();
        lua.collect();
        let collected = begun.elapsed();
        // SAFETY: all objects of the heap are Lua's, and Lua runs on this thread only, which is here.
        let step = unsafe { self.heap.mesh_at_safepoint(self.budget) };
        self.longest = self.longest.max(begun.elapsed());
        self.longest_step = self.longest_step.max(begun.elapsed().saturating_sub(collected));
        self.pages_back += step.pages_freed + step.pages_purged;
    }
}

/// Serves a tenant from morning to evening.
///
/// # Errors
/// See [`NoDay`].
pub fn serve(day: &Day) -> Result<Evening, NoDay> {
    let heap = Heap::with_options(HybridPlatform::new(), Options::default()).map_err(NoDay::Heap)?;
    let mut lua = State::new(HeapMemory::new(&heap), day.limit, day.scale)?;
    lua.run(TENANT, "tenant.lua")?;
    let budget = MeshBudget::time(day.step);
    let zero = Duration::ZERO;
    let mut pauses = Pauses { heap: &heap, budget, longest: zero, longest_step: zero, pages_back: 0 };
    for _ in 0..day.requests {
        lua.call_integer(c"request")?;
        pauses.pause(&mut lua);
    }
    let busy = heap.statistics().held_bytes;
    lua.call_integer(c"rest")?;
    lua.collect();
    let at_rest = heap.statistics().held_bytes;
    for _ in 0..100 {
        pauses.pause(&mut lua);
    }
    let meshed = heap.statistics().held_bytes;
    let (longest_step, longest_pause, pages_back) = (pauses.longest_step, pauses.longest, pauses.pages_back);

    let before = lua.call_integer(c"checksum")?;
    let limited = lua.call_integer(c"hoard");
    lua.collect();
    let after = lua.call_integer(c"checksum")?;
    let dropped_bytes = lua.account().live();
    lua.leave_to_heap();
    let begun = Instant::now();
    drop(heap);
    Ok(Evening {
        longest_step,
        longest_pause,
        pages_back,
        held: [busy, at_rest, meshed],
        sums: [before, after],
        limited,
        dropped_in: begun.elapsed(),
        dropped_bytes,
    })
}
