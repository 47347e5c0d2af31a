//! Threads that touch fresh memory, all at once.

use core::alloc::Layout;
use std::sync::Barrier;
use std::{fs, thread};

use anyhow::{Context, anyhow, ensure};
use meshheap::{Budget, BudgetOptions, BudgetRef, Heap, Limits, Options};
use meshheap_linux::LinuxPlatform;

use crate::faults::Nodes;
use crate::measure::cpu_time;

const PAGE: usize = 4096;

/// A limit that no thread meets.
const LIMIT: usize = 1 << 40;

/// The node of each thread's heap.
fn nodes(nodes: Nodes, threads: usize) -> anyhow::Result<Vec<Option<BudgetRef>>> {
    let keep = |budget| &*Box::leak(Box::new(budget));
    let limits = if nodes == Nodes::Present { Limits::UNLIMITED } else { Limits::hard(LIMIT).with_soft(LIMIT) };
    let options = BudgetOptions::new(0).virtual_bytes(limits).physical_bytes(limits);
    let child = |parent: &'static Budget| Budget::child(parent, options.clone()).map(keep);
    if nodes == Nodes::Absent {
        return Ok(vec![None; threads]);
    }
    let process = keep(Budget::new(options.clone()));
    if nodes != Nodes::FourDeep {
        return Ok(vec![Some(process.into()); threads]);
    }
    let group = child(child(process)?)?;
    (0..threads).map(|_| Ok(Some(child(group)?.into()))).collect()
}

/// Page faults a second of CPU time while `threads` threads each allocate `bytes` bytes in objects of `size` and touch every page.
pub(super) fn touch(kind: Nodes, threads: usize, size: usize, bytes: usize) -> anyhow::Result<f64> {
    let layout = Layout::from_size_align(size, 16)?;
    let options = Options { seed: Some(1), arena_bytes: 4 * bytes, local_heap_bytes: 1 << 20, ..Options::default() };
    let heaps: Vec<_> = nodes(kind, threads)?
        .into_iter()
        .map(|node| match node {
            Some(node) => Heap::with_budget(LinuxPlatform::new(), options, node),
            None => Heap::with_options(LinuxPlatform::new(), options),
        })
        .collect::<Result<_, _>>()?;
    let start = Barrier::new(threads);
    let before = faults()?;
    let work = |heap: &Heap<LinuxPlatform>| -> anyhow::Result<f64> {
        start.wait();
        let (outcome, time) = cpu_time(|| fill(heap, layout, bytes / size));
        outcome.map(|()| time.as_secs_f64())
    };
    let seconds = thread::scope(|scope| {
        let workers: Vec<_> = heaps.iter().map(|heap| scope.spawn(|| work(heap))).collect();
        let times = workers.into_iter().map(|worker| worker.join().map_err(|_| anyhow!("a thread has panicked"))?);
        times.sum::<anyhow::Result<f64>>()
    })?;
    let made = faults()?.checked_sub(before).context("faults only become more")?;
    ensure!(made >= threads * bytes / PAGE, "{made} faults are fewer than pages that were touched");
    Ok(made as f64 / seconds)
}

/// Allocates `count` objects and writes to each. The heap's drop frees them.
fn fill(heap: &Heap<LinuxPlatform>, layout: Layout, count: usize) -> anyhow::Result<()> {
    let mut local = heap.local();
    for _ in 0..count {
        let object = local.alloc(layout)?;
        // SAFETY: the object is ours and holds a byte.
        unsafe { object.write(1) };
    }
    Ok(())
}

/// Page faults of this process so far that needed no input.
fn faults() -> anyhow::Result<usize> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The second field, in brackets, may hold anything; the tenth is the eighth behind it.
    let (_, fields) = stat.rsplit_once(')').context("the system's format has brackets")?;
    Ok(fields.split_whitespace().nth(7).context("the system's format has ten fields")?.parse()?)
}
