//! A script fragments a heap, meshing gives the memory back, and every object is still where it was.

use core::fmt;
use core::time::Duration;
use std::borrow::Cow;
use std::time::Instant;

use meshheap::{AllocError, Heap, MeshBudget, Options, Platform, Statistics};
use meshheap_linux::HybridPlatform;
use meshheap_linux::memory::pss_bytes;

use super::error::LuaError;
use super::memory::HeapMemory;
use super::state::State;
use crate::heap_map::HeapMap;
use crate::meshing::{MeshReport, mesh_until_settled};

/// Mappings that meshing leaves to the rest of the process. A heap's own default leaves three quarters of them.
const MAPPINGS_FOR_OTHERS: usize = 4096;

/// The script that runs by default: see its own comment.
pub const SERVICE: &str = include_str!("../../scripts/service.lua");

/// What to run.
#[derive(Clone, Debug)]
pub struct Script {
    /// Its text.
    pub source: Cow<'static, [u8]>,
    /// What messages call it.
    pub name: String,
    /// The global `scale` that it may go by.
    pub scale: f64,
}

impl Script {
    /// The default script, building `scale` times some 250 MiB.
    #[must_use]
    pub fn service(scale: f64) -> Self {
        Self { source: SERVICE.as_bytes().into(), name: "service.lua".to_owned(), scale }
    }
}

/// How to run it.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Bytes that Lua may hold.
    pub limit: usize,
    /// How long one step of meshing may take.
    pub step: Duration,
    /// Mappings that meshing may use; none: all that the system allows but for a few, since this process needs no others.
    pub mapping_budget: Option<usize>,
}

/// The heap at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Bytes that Lua holds.
    pub live: usize,
    /// The heap's own figures.
    pub heap: Statistics,
    /// What the system says that the process takes; none where it does not say.
    pub pss: Option<usize>,
    /// Every page.
    pub map: HeapMap,
}

/// What the script did.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// The most that Lua held at one time, in bytes.
    pub peak: usize,
    /// Objects made.
    pub allocations: usize,
    /// Objects resized.
    pub reallocations: usize,
    /// How long the script took.
    pub time: Duration,
}

/// How it went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What the script did.
    pub workload: Workload,
    /// The heap after the script and a collection.
    pub before: Snapshot,
    /// The heap after meshing.
    pub after: Snapshot,
    /// What meshing did.
    pub mesh: MeshReport,
    /// What the script's function `checksum` gave, before meshing and after; none if there is no such function.
    pub checksum: Option<i64>,
}

/// The line for machines.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after) = (self.before.heap.held_bytes, self.after.heap.held_bytes);
        let longest = self.mesh.longest.as_micros();
        write!(f, "lua: live={} before={before} after={after} longest_step_us={longest}", self.after.live)
    }
}

/// Why it did not go to its end.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The system has no room for a heap.
    NoHeap(AllocError),
    /// The script failed, and this is what its heap was like once its state was closed.
    Script {
        /// What Lua said.
        error: LuaError,
        /// Bytes in objects afterwards.
        taken: usize,
        /// Bytes that the heap held afterwards.
        held: usize,
        /// Whether another Lua state ran on the heap after that.
        usable: bool,
    },
    /// The checksum changed: an object is not what it was. Never happens unless the heap is at fault.
    Changed {
        /// The checksum before meshing.
        before: Option<i64>,
        /// The checksum after meshing.
        after: Option<i64>,
    },
}

/// What is going on, for those who want to watch.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The script ended; the heap is as it left it.
    Collected(&'a Workload, &'a Snapshot),
    /// A step of meshing is over.
    Stepped(&'a MeshReport),
    /// All steps are over.
    Meshed,
}

/// Runs `script` on a heap of its own, meshes, and compares. `watch` is told what is going on.
///
/// # Errors
/// See [`Failure`]; everything is given back in any case.
pub fn run(script: &Script, settings: &Settings, watch: &mut dyn FnMut(Event<'_>)) -> Result<Outcome, Failure> {
    let heap = new_heap(settings).map_err(Failure::NoHeap)?;
    let failed = |error| script_failure(&heap, error);

    let (lua, workload) = start(&heap, script, settings).map_err(failed)?;
    let (mut lua, before_sum) = checksum(lua).map_err(failed)?;
    let before = snapshot(&heap, &mut lua);
    watch(Event::Collected(&workload, &before));

    let budget = MeshBudget::time(settings.step);
    // SAFETY: all objects of the heap are Lua's, and Lua runs on this thread only, which is here.
    let mesh = unsafe { mesh_until_settled(&heap, budget, |report| watch(Event::Stepped(report))) };
    watch(Event::Meshed);
    let after = snapshot(&heap, &mut lua);

    let (_lua, after_sum) = checksum(lua).map_err(failed)?;
    if before_sum == after_sum {
        Ok(Outcome { workload, before, after, mesh, checksum: before_sum })
    } else {
        Err(Failure::Changed { before: before_sum, after: after_sum })
    }
}

fn new_heap(settings: &Settings) -> Result<Heap<HybridPlatform>, AllocError> {
    let platform = HybridPlatform::new();
    let available = platform.facts().mapping_limit.map(|limit| limit.saturating_sub(MAPPINGS_FOR_OTHERS));
    let mapping_budget = settings.mapping_budget.or(available);
    Heap::with_options(platform, Options { mapping_budget, ..Options::default() })
}

type LuaOn<'h> = State<HeapMemory<'h>>;

/// Runs the script to its end. If it fails, its state is closed.
fn start<'h>(
    heap: &'h Heap<HybridPlatform>,
    script: &Script,
    settings: &Settings,
) -> Result<(LuaOn<'h>, Workload), LuaError> {
    let started = Instant::now();
    let mut lua = State::new(HeapMemory::new(heap), settings.limit, script.scale)?;
    lua.run(&script.source, &script.name)?;
    lua.collect();
    let account = lua.account();
    let workload = Workload {
        peak: account.peak(),
        allocations: account.allocations(),
        reallocations: account.reallocations(),
        time: started.elapsed(),
    };
    Ok((lua, workload))
}

/// What is to be said of `heap` when the state that ran on it is closed.
fn script_failure(heap: &Heap<HybridPlatform>, error: LuaError) -> Failure {
    let purged = heap.purge();
    let Statistics { taken_bytes: taken, held_bytes: held, .. } = heap.statistics();
    let probe = b"local t = {} for i = 1, 1000 do t[i] = ('x'):rep(i) end";
    let second = State::new(HeapMemory::new(heap), usize::MAX, 1.0).and_then(|mut lua| lua.run(probe, "probe"));
    Failure::Script { error, taken, held, usable: purged.is_ok() && second.is_ok() }
}

/// The script's checksum, if it has one. If that fails, the state is closed.
fn checksum(mut lua: LuaOn<'_>) -> Result<(LuaOn<'_>, Option<i64>), LuaError> {
    let sum = lua.call_integer(c"checksum")?;
    lua.collect();
    Ok((lua, sum))
}

fn snapshot(heap: &Heap<HybridPlatform>, lua: &mut LuaOn<'_>) -> Snapshot {
    lua.account().memory_mut().flush();
    Snapshot { live: lua.account().live(), heap: heap.statistics(), pss: pss_bytes(), map: HeapMap::of(heap) }
}
