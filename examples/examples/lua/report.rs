//! What is said to people.

use meshheap::StepEnd;
use meshheap_examples::lua::experiment::{Failure, Outcome, Snapshot, Workload};
use meshheap_examples::lua::{LuaError, SystemFigures};
use meshheap_examples::units::{Mib, grouped, pause};

/// After the script.
pub(crate) fn workload(workload: &Workload, before: &Snapshot) {
    println!(
        "  {} objects made and {} resized in {}; at the most {} MiB were live.",
        grouped(workload.allocations),
        grouped(workload.reallocations),
        pause(workload.time),
        Mib(workload.peak),
    );
    println!("  Now {} MiB are live, and the heap holds {} MiB.", Mib(before.live), Mib(before.heap.held_bytes));
}

/// After all steps.
pub(crate) fn meshing(outcome: &Outcome) {
    let (mesh, heap) = (&outcome.mesh, &outcome.after.heap);
    println!(
        "  {} pages meshed, {} free pages given back, in {} steps: {} in all, {} the longest.",
        grouped(mesh.pages_freed),
        grouped(mesh.pages_purged),
        grouped(mesh.steps),
        pause(mesh.total),
        pause(mesh.longest),
    );
    println!("  {} of {} mappings in use.", grouped(heap.mappings), grouped(heap.mapping_budget));
    match mesh.end {
        StepEnd::MappingsUsedUp => println!("  Mappings were used up; --mapping-budget allows more."),
        StepEnd::Refused(error) => println!("  Meshing ended early: {error}."),
        StepEnd::Unsupported => println!("  This platform cannot mesh."),
        _ => {}
    }
    match outcome.checksum {
        Some(sum) => println!("  Every object is where it was: the checksum is {sum:016x} as before."),
        None => println!("  The script has no function `checksum`: its objects were not looked at."),
    }
}

/// Everything side by side, in MiB.
pub(crate) fn table(outcome: &Outcome, system: Option<&SystemFigures>) {
    println!();
    println!("  {:<34} {:>9} {:>12} {:>12} {:>11}", "MiB", "live", "heap holds", "process Pss", "Pss / live");
    for (name, at) in [("meshheap before meshing", &outcome.before), ("meshheap after meshing", &outcome.after)] {
        line(name, at.live, Some(at.heap.held_bytes), at.pss);
    }
    if let Some(system) = system {
        line("system malloc", system.live, None, system.collected);
        line("system malloc after malloc_trim(0)", system.live, None, system.trimmed);
    }
    println!();
}

fn line(name: &str, live: usize, held: Option<usize>, pss: Option<usize>) {
    let shown = |bytes: Option<usize>| bytes.map_or_else(|| "-".to_owned(), |bytes| Mib(bytes).to_string());
    let ratio = pss.map_or_else(|| "-".to_owned(), |pss| format!("{:.1} x", Mib(pss).number() / Mib(live).number()));
    println!("  {name:<34} {:>9} {:>12} {:>12} {ratio:>11}", Mib(live), shown(held), shown(pss));
}

/// Why it did not work.
pub(crate) fn failure(failure: &Failure, limit_mib: Option<usize>) -> String {
    match failure {
        Failure::NoHeap(error) => format!("no heap: {error}"),
        Failure::Script { error, taken, held, usable } => {
            let mut text = error.to_string();
            if let (LuaError::OutOfMemory(_) | LuaError::NoState, Some(limit)) = (error, limit_mib) {
                text.push_str(&format!("\nthe limit of {limit} MiB was reached, and collecting garbage did not help"));
            }
            let (live, held) = (Mib(*taken), Mib(*held));
            let state = if *usable { "another Lua state ran on it" } else { "no other Lua state could run on it" };
            text.push_str(&format!(
                "\nthe state is closed; the heap has {live} MiB live and holds {held} MiB; {state}"
            ));
            text
        }
        Failure::Changed { before, after } => {
            format!("the heap is at fault: the checksum was {before:?} before meshing and is {after:?} after")
        }
    }
}
