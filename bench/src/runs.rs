//! `runs`: how much a large heap of mixed sizes gives back when mappings are scarce.
//!
//! Objects of 64 to 1024 bytes fill the heap in random order of sizes; most are freed at random; then the heap meshes with
//! all mappings that the system allows a process. What one mapping saves is what counts.

use core::alloc::Layout;
use core::ptr::NonNull;

use anyhow::{Context, ensure};
use comfy_table::Cell;
use meshheap::{Facts, Heap, MeshBudget, Options, Platform, StepEnd};
use meshheap_linux::{LinuxPlatform, memory};
use serde::Serialize;

use crate::measure::{mib, progress};
use crate::report::{Report, table};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Bytes of all objects before most are freed, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 4096)]
    heap_mib: usize,
    /// How many objects are left, in per cent
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0)]
    left: f64,
    /// The seed of all placement and of the choice of survivors
    #[arg(long, default_value_t = 2019)]
    seed: u64,
}

/// Sizes of the objects, each equally often.
const SIZES: core::ops::RangeInclusive<usize> = 64..=1024;

/// The least that the standard heap has to give back, in MiB. The C++ Mesh gives back 85 to 100.
const LEAST_FREED_MIB: f64 = 1024.0;

/// The most CPU time for the search, in seconds.
const MOST_SEARCH_S: f64 = 2.0;

/// Mappings left to the rest of the process.
const OTHER_MAPPINGS: usize = 512;

/// What meshing came to.
#[derive(Serialize)]
struct Outcome {
    heap_mib: f64,
    live_mib: f64,
    held_before_mib: f64,
    held_mib: f64,
    freed_mib: f64,
    pages_meshed: usize,
    mappings: usize,
    mapping_budget: usize,
    /// In user mode: the search and the copies.
    user_s: f64,
    system_s: f64,
    passes: u32,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Report> {
    let outcome = mesh(args)?;
    let mut report = Report::new("runs");
    let mut figures = table([
        "heap MiB",
        "live",
        "held before",
        "held after",
        "freed",
        "mappings",
        "pages a mapping",
        "user s",
        "system s",
    ]);
    let per_mapping = outcome.pages_meshed as f64 / outcome.mappings.max(1) as f64;
    figures.add_row(vec![
        Cell::new(format!("{:.0}", outcome.heap_mib)),
        Cell::new(format!("{:.0}", outcome.live_mib)),
        Cell::new(format!("{:.0}", outcome.held_before_mib)),
        Cell::new(format!("{:.0}", outcome.held_mib)),
        Cell::new(format!("{:.0}", outcome.freed_mib)),
        Cell::new(format!("{} of {}", outcome.mappings, outcome.mapping_budget)),
        Cell::new(format!("{per_mapping:.2}")),
        Cell::new(format!("{:.2}", outcome.user_s)),
        Cell::new(format!("{:.2}", outcome.system_s)),
    ]);
    report.add_table("Meshing a large heap of 64 to 1024 bytes with all mappings of a process", figures);
    if args.heap_mib == 4096 && args.left == 10.0 {
        // Limits are upper bounds: what is still missing of the least that has to come back.
        report.judge("MiB missing of what has to be given back", (LEAST_FREED_MIB - outcome.freed_mib).max(0.0), 0.0);
        report.judge("seconds of CPU for search and copies", outcome.user_s, MOST_SEARCH_S);
    }
    report.add_rows("runs", &outcome)?;
    Ok(report)
}

fn mesh(args: &Args) -> anyhow::Result<Outcome> {
    let platform = LinuxPlatform::new();
    let Facts { mapping_limit, .. } = platform.facts();
    let others = memory::mapping_count().unwrap_or(0) + OTHER_MAPPINGS;
    let budget = mapping_limit.context("the system does not tell how many mappings there may be")? - others;
    let options = Options { seed: Some(args.seed), mapping_budget: Some(budget), ..Options::default() };
    let heap = Heap::with_options(platform, options)?;
    let survivors = populate(&heap, args)?;
    let before = heap.statistics();
    let start = cpu()?;
    let mut passes = 0;
    loop {
        passes += 1;
        // SAFETY: nobody else knows of the heap, and this thread writes to no object meanwhile.
        let step = unsafe { heap.mesh_at_safepoint(MeshBudget::UNLIMITED) };
        match step.end {
            StepEnd::MappingsUsedUp => break,
            StepEnd::PassDone if step.pages_freed == 0 => break,
            StepEnd::PassDone => {}
            end => anyhow::bail!("meshing ended with {end:?}"),
        }
    }
    let end = cpu()?;
    let after = heap.statistics();
    survivors.verify()?;
    Ok(Outcome {
        heap_mib: args.heap_mib as f64,
        live_mib: mib(survivors.bytes()),
        held_before_mib: mib(before.held_bytes),
        held_mib: mib(after.held_bytes),
        freed_mib: mib(before.held_bytes.saturating_sub(after.held_bytes)),
        pages_meshed: after.aliased_bytes / heap.platform().facts().page_size,
        mappings: after.mappings,
        mapping_budget: after.mapping_budget,
        user_s: end.0 - start.0,
        system_s: end.1 - start.1,
        passes,
    })
}

/// Objects and their sizes. Each begins and ends with its own number.
struct Survivors(Vec<(NonNull<u8>, u32)>);

impl Survivors {
    fn bytes(&self) -> usize {
        self.0.iter().map(|&(_, size)| size as usize).sum()
    }

    fn verify(&self) -> anyhow::Result<()> {
        for &(object, size) in &self.0 {
            let number = object.addr().get() as u32;
            ensure!(
                ends(object, size).into_iter().all(|at| {
                    // SAFETY: both ends lie in the object, which is alive and was tagged.
                    unsafe { at.cast::<u32>().read_unaligned() == number }
                }),
                "the object at {object:?} lost its bytes"
            );
        }
        Ok(())
    }
}

/// Where an object's first and last four bytes are.
fn ends(object: NonNull<u8>, size: u32) -> [NonNull<u8>; 2] {
    // SAFETY: objects have at least four bytes.
    [object, unsafe { object.add(size as usize - 4) }]
}

/// Fills the heap and frees most of it.
fn populate(heap: &Heap<LinuxPlatform>, args: &Args) -> anyhow::Result<Survivors> {
    let mut rng = fastrand::Rng::with_seed(args.seed);
    let mut local = heap.local();
    let mut objects = Vec::new();
    let bar = progress("runs", args.heap_mib);
    let mut bytes = 0;
    while bytes < args.heap_mib << 20 {
        let size = rng.usize(SIZES);
        let object = local.alloc(Layout::from_size_align(size, 8)?)?;
        for at in ends(object, size as u32) {
            // SAFETY: both ends lie in the object, which is ours.
            unsafe { at.cast::<u32>().write_unaligned(object.addr().get() as u32) };
        }
        objects.push((object, size as u32));
        bytes += size;
        bar.set_position((bytes >> 20) as u64);
    }
    bar.finish_and_clear();
    rng.shuffle(&mut objects);
    let left = (objects.len() as f64 * args.left / 100.0) as usize;
    for (object, size) in objects.drain(left..) {
        // SAFETY: the object was allocated with this layout, and nothing knows of it any more.
        unsafe { local.dealloc(object, Layout::from_size_align(size as usize, 8)?) };
    }
    Ok(Survivors(objects))
}

/// Seconds of this process's CPU time so far, in user mode and in the kernel.
fn cpu() -> anyhow::Result<(f64, f64)> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit_once(')').context("the file has names in brackets")?.1;
    let mut ticks = fields.split_ascii_whitespace().skip(11).map(str::parse::<f64>);
    let mut next = || Ok::<_, anyhow::Error>(ticks.next().context("the file has more fields")?? / 100.0);
    Ok((next()?, next()?))
}
