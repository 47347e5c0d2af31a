//! What meshing brought: figures for people, and a last line for machines.

use std::io::{Result, Write, stdout};

use meshheap_examples::rival::Figures;
use meshheap_linux::memory::pss_bytes;

use crate::interpreter::Interpreter;

const MIB: f64 = 1024.0 * 1024.0;

/// Frees all garbage, meshes, and prints what is left, beside what malloc leaves.
pub(crate) fn print(interpreter: &mut Interpreter<'_>, rival: Option<&Figures>) -> Result<()> {
    let before = interpreter.safepoints.settle(&mut interpreter.store);
    let live = interpreter.store.live_bytes();
    let statistics = interpreter.store.heap().statistics();
    let after = statistics.held_bytes;
    let mib = |bytes: usize| bytes as f64 / MIB;
    let ratio = |bytes: usize| bytes as f64 / live.max(1) as f64;
    let mut out = stdout().lock();
    writeln!(out)?;
    writeln!(out, "live objects        {:8.2} MiB", mib(live))?;
    writeln!(out, "held before meshing {:8.2} MiB, {:.2} x live", mib(before), ratio(before))?;
    writeln!(out, "held after meshing  {:8.2} MiB, {:.2} x live", mib(after), ratio(after))?;
    if let Some(rival) = rival {
        let pss = |bytes: Option<usize>| bytes.filter(|&bytes| bytes > 0).map_or(0.0, mib);
        writeln!(out, "process's Pss       {:8.2} MiB", pss(pss_bytes()))?;
        let (collected, trimmed) = (pss(rival.bytes("collected")), pss(rival.bytes("trimmed")));
        writeln!(out, "... on malloc       {collected:8.2} MiB, after malloc_trim(0) {trimmed:.2}")?;
    }
    writeln!(out, "most address space  {:8.2} MiB", mib(statistics.span_bytes_peak))?;
    writeln!(out, "mappings            {:5} of {}", statistics.mappings, statistics.mapping_budget)?;
    let safepoints = &mut interpreter.safepoints;
    let (count, longest) = (safepoints.collections, safepoints.longest_collection);
    writeln!(out, "collections         {count:5}, the longest {longest:.1?}")?;
    if let Some(theirs) = rival.and_then(|rival| rival.time("longest_collection")) {
        writeln!(out, "... on malloc              the longest {theirs:.1?}")?;
    }
    let steps = safepoints.sorted_steps();
    let quantile =
        |percent: usize| steps.get(steps.len() * percent / 100).or(steps.last()).copied().unwrap_or_default();
    let (half, most, longest) = (quantile(50), quantile(99), quantile(100));
    writeln!(
        out,
        "steps of meshing    {:5}, half within {half:.1?}, 99 % within {most:.1?}, the longest {longest:.1?}",
        steps.len()
    )?;
    let longest_step_us = longest.as_micros();
    writeln!(out, "interpreter: live={live} before={before} after={after} longest_step_us={longest_step_us}")
}
