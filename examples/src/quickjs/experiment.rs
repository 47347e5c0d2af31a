//! What a heap a runtime is good for, measured.

use core::time::Duration;
use std::time::Instant;

use cpu_time::ProcessTime;
use meshheap::{MeshBudget, Statistics};
use meshheap_linux::memory::pss_bytes;

use super::programs::{HOARD, Program, SERVICE};
use super::{Engine, JsError, Source};
use crate::lua::SystemMemory;
use crate::meshing::MeshReport;
use crate::rival::Figures;

/// How a program went.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// What it computed.
    pub sum: f64,
    /// CPU time of the program, a collection, and the runtime's end.
    pub cpu: Duration,
}

/// Runs `program` from beginning to end in a runtime of its own.
///
/// # Errors
/// It throws.
pub fn run(program: &Program, source: Source, scale: u32) -> Result<Run, JsError> {
    let begun = ProcessTime::now();
    let mut engine = Engine::new(source)?;
    engine.load(program.text)?;
    let sum = engine.call("run", scale)?;
    drop(engine);
    Ok(Run { sum, cpu: begun.elapsed() })
}

/// What the service left.
#[derive(Clone, Copy, Debug)]
pub struct Residue {
    /// The heap after the service's collection, and after meshing.
    pub before: Statistics,
    /// See `before`.
    pub after: Statistics,
    /// The process's Pss then, where the system tells.
    pub pss: [Option<usize>; 2],
    /// What meshing did.
    pub mesh: MeshReport,
    /// What the service's `checksum` gave, before meshing and after.
    pub sums: [f64; 2],
    /// How long it took to drop the runtime, with all its objects.
    pub dropped_in: Duration,
}

/// Runs the service, collects, and meshes in the pause.
///
/// # Errors
/// The service throws.
pub fn residue(scale: u32, budget: MeshBudget) -> Result<Residue, JsError> {
    let mut engine = Engine::new(Source::heap())?;
    engine.load(SERVICE.text)?;
    engine.call("run", scale)?;
    let first = engine.call("checksum", 0)?;
    engine.collect();
    let statistics = |engine: &Engine| engine.heap().map(meshheap::Heap::statistics).unwrap_or_default();
    let (before, pss_before) = (statistics(&engine), pss_bytes());
    let mesh = engine.mesh(budget).ok_or(JsError::NoEngine(None))?;
    let (after, pss_after) = (statistics(&engine), pss_bytes());
    let sums = [first, engine.call("checksum", 0)?];
    let begun = Instant::now();
    engine.drop_at_once();
    Ok(Residue { before, after, pss: [pss_before, pss_after], mesh, sums, dropped_in: begun.elapsed() })
}

/// The same on malloc, for a process of its own: Pss after the collection and after `malloc_trim(0)`, and how long it took to
/// drop the runtime.
///
/// # Errors
/// As for [`residue`].
pub fn residue_on_system(scale: u32) -> Result<Figures, JsError> {
    let mut engine = Engine::new(Source::System)?;
    engine.load(SERVICE.text)?;
    engine.call("run", scale)?;
    let sum = engine.call("checksum", 0)?;
    engine.collect();
    let mut figures = Figures::default();
    let mut note = |name, bytes: Option<usize>| figures.set(name, bytes.unwrap_or(0) as u64);
    note("collected", pss_bytes());
    SystemMemory.trim();
    note("trimmed", pss_bytes());
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checksums are small and positive")]
    figures.set("sum", sum as u64);
    let begun = Instant::now();
    drop(engine);
    figures.set_time("dropped_in", begun.elapsed());
    Ok(figures)
}

/// What a program that wants more than its runtime may have comes to.
#[derive(Clone, Debug)]
pub struct Limited {
    /// Its end.
    pub error: JsError,
    /// Bytes that the heap held then.
    pub held: usize,
    /// What another program computed in the same runtime afterwards.
    pub next: Result<f64, JsError>,
}

/// Runs a program that never has enough, with a limit, and then `next` in the same runtime.
///
/// # Errors
/// The limit does not suffice for a runtime.
pub fn hit_limit(limit: usize, next: &Program, scale: u32) -> Result<Limited, JsError> {
    let mut engine = Engine::new(Source::Heap { limit })?;
    engine.load(HOARD.text)?;
    let ended = engine.call("run", 0);
    let error = ended.err().ok_or(JsError::NoEngine(None))?;
    let held = engine.heap().map_or(0, |heap| heap.statistics().held_bytes);
    engine.collect();
    let next = engine.load(next.text).and_then(|()| engine.call("run", scale));
    Ok(Limited { error, held, next })
}
