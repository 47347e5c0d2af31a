//! CPU time of programs on several memories, each run in a process of its own.

use core::time::Duration;

use meshheap::{Heap, Options};
use meshheap_examples::lua::programs::{PROGRAMS, measure};
use meshheap_examples::lua::{HeapMemory, Mimalloc, SystemMemory};
use meshheap_examples::rival::{self, Figures, ratio};
use meshheap_examples::units::pause;
use meshheap_linux::HybridPlatform;

use crate::arguments::Arguments;

const MEMORIES: [&str; 3] = ["heap", "system", "mimalloc"];

/// Runs every program on one memory, and prints figures.
pub(crate) fn measure_on(memory: &str, arguments: &Arguments) -> Result<(), String> {
    let scale = if arguments.short { 0.05 } else { 2.0 };
    let mut figures = Figures::default();
    for program in &PROGRAMS {
        let measured = match memory {
            "heap" => {
                // One state: it may keep more slots at hand than one of a thousand threads.
                let options = Options { local_heap_bytes: 1 << 20, ..Options::default() };
                let heap = Heap::with_options(HybridPlatform::new(), options).map_err(|error| error.to_string())?;
                measure(program, HeapMemory::new(&heap), scale)
            }
            "system" => measure(program, SystemMemory, scale),
            _ => measure(program, Mimalloc, scale),
        };
        let (sum, time) = measured.map_err(|error| error.to_string())?;
        figures.set_time(program.name, time);
        figures.set(&format!("{}_sum", program.name), sum.cast_unsigned());
    }
    println!("{figures}");
    Ok(())
}

/// The best of some rounds, in turns.
pub(crate) fn compare(arguments: &Arguments) -> Result<(), String> {
    let rounds = if arguments.short { 1 } else { 5 };
    let mut best = [[u64::MAX; 3]; PROGRAMS.len()];
    for _ in 0..rounds {
        for (column, memory) in MEMORIES.into_iter().enumerate() {
            let figures = rival::run(["--measure", memory].into_iter().chain(arguments.short.then_some("--short")))?;
            for (row, program) in PROGRAMS.iter().enumerate() {
                best[row][column] = best[row][column].min(figures.get(program.name).ok_or("a figure is missing")?);
            }
        }
    }
    println!("CPU time, the best of {rounds}, each from a new state to its end:");
    println!("  {:<12} {:>10} {:>14} {:>14}", "", "meshheap", "/ system", "/ mimalloc");
    for (program, [ours, system, mimalloc]) in PROGRAMS.iter().zip(best) {
        let time = pause(Duration::from_nanos(ours));
        let (to_system, to_mimalloc) = (ratio(Some(ours), Some(system)), ratio(Some(ours), Some(mimalloc)));
        println!("  {:<12} {time:>10} {to_system:>14} {to_mimalloc:>14}", program.name);
    }
    Ok(())
}
