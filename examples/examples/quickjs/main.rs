//! QuickJS with a heap a runtime: real programs, a limit that is hit, meshing in the pause of a collection, and a runtime that
//! is dropped at once.
//!
//! `cargo run --release --example quickjs -- --compare` measures CPU time on other allocators, too.

use core::time::Duration;
use std::process::ExitCode;

use clap::Parser;
use meshheap::MeshBudget;
use meshheap_examples::quickjs::experiment::{hit_limit, residue, residue_on_system, run};
use meshheap_examples::quickjs::programs::PROGRAMS;
use meshheap_examples::quickjs::{JsError, Source};
use meshheap_examples::rival::{self, Figures, ratio};
use meshheap_examples::units::{Mib, pause};

/// Runs JavaScript programs, each in a runtime with a heap of its own.
#[derive(Parser, Debug)]
#[command(name = "quickjs")]
struct Arguments {
    /// Does little, for a look within a second.
    #[arg(long)]
    short: bool,
    /// Measures the CPU time of the programs on the system's malloc and on mimalloc, too.
    #[arg(long)]
    compare: bool,
    /// The longest that one step of meshing may take, in microseconds.
    #[arg(long, value_name = "N", default_value_t = 500)]
    step_us: u64,
    /// What the child process does: `residue`, or the allocator whose programs it measures.
    #[arg(long, hide = true)]
    child: Option<String>,
    /// The only program that the child measures: for profilers.
    #[arg(long, hide = true, requires = "child")]
    program: Option<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.child.as_deref() {
        None => show(&arguments),
        Some("residue") => residue_on_system(arguments.scale()).map_err(text).map(|figures| println!("{figures}")),
        Some(allocator) => measure(&arguments, allocator),
    };
    done.map_or_else(
        |message| {
            eprintln!("quickjs: {message}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn text(error: JsError) -> String {
    error.to_string()
}

impl Arguments {
    const fn scale(&self) -> u32 {
        if self.short { 2 } else { 40 }
    }

    fn child(&self, name: &str) -> Result<Figures, String> {
        let short = self.short.then_some("--short");
        rival::run(["--child", name].into_iter().chain(short))
    }
}

fn show(arguments: &Arguments) -> Result<(), String> {
    if arguments.compare {
        compare(arguments)?;
    }
    let budget = MeshBudget::time(Duration::from_micros(arguments.step_us));
    let ours = residue(arguments.scale(), budget).map_err(text)?;
    if ours.sums[0] != ours.sums[1] {
        return Err(format!(
            "the heap is at fault: the checksum was {} before meshing, {} after",
            ours.sums[0], ours.sums[1]
        ));
    }
    let system = arguments.child("residue")?;
    let pss =
        |bytes: Option<usize>| bytes.filter(|&bytes| bytes > 0).map_or_else(|| "-".to_owned(), |b| Mib(b).to_string());
    println!("A service that kept a tenth of what it made, in MiB:");
    println!("  {:<36} {:>10} {:>10} {:>10}", "", "live", "heap", "Pss");
    let live = Mib(ours.after.taken_bytes);
    println!("  {:<36} {live:>10} {:>10} {:>10}", "meshheap, collected", Mib(ours.before.held_bytes), pss(ours.pss[0]));
    println!(
        "  {:<36} {live:>10} {:>10} {:>10}",
        "meshheap, meshed in that pause",
        Mib(ours.after.held_bytes),
        pss(ours.pss[1])
    );
    println!("  {:<36} {:>10} {:>10} {:>10}", "system malloc, collected", "-", "-", pss(system.bytes("collected")));
    println!(
        "  {:<36} {:>10} {:>10} {:>10}",
        "system malloc after malloc_trim(0)",
        "-",
        "-",
        pss(system.bytes("trimmed"))
    );
    println!("Longest step of meshing: {}, of {}.", pause(ours.mesh.longest), ours.mesh.steps);
    let theirs = system.time("dropped_in").unwrap_or_default();
    println!(
        "The runtime was dropped at once in {}; object by object, on malloc, in {}.",
        pause(ours.dropped_in),
        pause(theirs)
    );

    let limit = 32 << 20;
    let limited = hit_limit(limit, &PROGRAMS[2], 1).map_err(text)?;
    let next = limited.next.map_err(text)?;
    println!(
        "With a limit of {} MiB: {}, at {} MiB; then another program ran in the same runtime ({next}).",
        Mib(limit),
        limited.error,
        Mib(limited.held)
    );
    let (before, after, longest) = (ours.before.held_bytes, ours.after.held_bytes, ours.mesh.longest.as_micros());
    println!("quickjs: before={before} after={after} longest_step_us={longest}");
    Ok(())
}

/// Runs every program on one allocator.
fn measure(arguments: &Arguments, allocator: &str) -> Result<(), String> {
    let source = match allocator {
        "heap" => Source::heap(),
        "system" => Source::System,
        _ => Source::Mimalloc,
    };
    let mut figures = Figures::default();
    let is_wanted = |name| arguments.program.as_deref().is_none_or(|wanted| wanted == name);
    for program in PROGRAMS.iter().filter(|program| is_wanted(program.name)) {
        let run = run(program, source, arguments.scale()).map_err(text)?;
        figures.set_time(program.name, run.cpu);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checksums are small and positive"
        )]
        figures.set(&format!("{}_sum", program.name), run.sum as u64);
    }
    println!("{figures}");
    Ok(())
}

/// The best of some rounds, in turns, each in a process of its own.
fn compare(arguments: &Arguments) -> Result<(), String> {
    const ALLOCATORS: [&str; 3] = ["heap", "system", "mimalloc"];
    let rounds = if arguments.short { 1 } else { 5 };
    let mut best = [[u64::MAX; 3]; PROGRAMS.len()];
    let mut sums = [None; PROGRAMS.len()];
    for _ in 0..rounds {
        for (column, allocator) in ALLOCATORS.into_iter().enumerate() {
            let figures = arguments.child(allocator)?;
            for (row, program) in PROGRAMS.iter().enumerate() {
                let (time, sum) = (figures.get(program.name), figures.get(&format!("{}_sum", program.name)));
                best[row][column] = best[row][column].min(time.ok_or("a figure is missing")?);
                if *sums[row].get_or_insert(sum) != sum {
                    return Err(format!("{} computes another sum on {allocator}", program.name));
                }
            }
        }
    }
    println!("CPU time, the best of {rounds}, each from a new runtime to its end:");
    println!("  {:<12} {:>10} {:>14} {:>14}", "", "meshheap", "/ system", "/ mimalloc");
    for (program, [ours, system, mimalloc]) in PROGRAMS.iter().zip(best) {
        let time = pause(Duration::from_nanos(ours));
        let (to_system, to_mimalloc) = (ratio(Some(ours), Some(system)), ratio(Some(ours), Some(mimalloc)));
        println!("  {:<12} {time:>10} {to_system:>14} {to_mimalloc:>14}", program.name);
    }
    Ok(())
}
