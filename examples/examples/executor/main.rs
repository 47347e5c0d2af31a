//! An async executor whose tasks lie in a meshing heap: a server's sessions come, most of them go, and when all workers are idle
//! the executor meshes. Then: how many tasks a second, beside the same executor on other allocators.
//!
//! `cargo run --release --example executor`

use core::time::Duration;
use std::alloc::System;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use meshheap::{Heap, Options};
use meshheap_examples::lua::SystemMemory;
use meshheap_examples::rival::{self, Figures, ratio};
use meshheap_examples::sessions::{Sessions, storm};
use meshheap_examples::units::{Mib, grouped, pause};
use meshheap_executor::{Executor, Global, HeapMemory, Memory};
use meshheap_linux::HybridPlatform;
use meshheap_linux::memory::pss_bytes;
use mimalloc::MiMalloc;

/// Runs sessions on an executor whose tasks lie in a heap of its own.
#[derive(Parser, Debug)]
#[command(name = "executor")]
struct Arguments {
    /// Workers.
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Sessions, of which a tenth stays.
    #[arg(long, default_value_t = 200_000)]
    sessions: usize,
    /// Does little, for a look within a second.
    #[arg(long)]
    short: bool,
    /// What the child process does: `residue`, or the allocator whose tasks it counts.
    #[arg(long, hide = true)]
    child: Option<String>,
}

impl Arguments {
    const fn sessions(&self) -> usize {
        if self.short { 5_000 } else { self.sessions }
    }

    const fn tasks(&self) -> usize {
        if self.short { 20_000 } else { 2_000_000 }
    }

    fn child(&self, name: &str) -> Result<Figures, String> {
        let (workers, sessions) = (format!("--workers={}", self.workers), format!("--sessions={}", self.sessions));
        let words = ["--child", name, &workers, &sessions];
        rival::run(words.into_iter().chain(self.short.then_some("--short")))
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.child.as_deref() {
        None => show(&arguments),
        Some("residue") => residue_on_system(&arguments),
        Some(allocator) => count(&arguments, allocator),
    };
    done.map_or_else(
        |message| {
            eprintln!("executor: {message}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

fn heap() -> Result<HeapMemory<HybridPlatform>, String> {
    // The process has no other heap: this one may use most of its mappings, and its workers may keep much.
    let options = Options { mapping_budget: Some(60_000), local_heap_bytes: 1 << 20, ..Options::default() };
    Heap::with_options(HybridPlatform::new(), options).map(HeapMemory::new).map_err(|error| error.to_string())
}

fn show(arguments: &Arguments) -> Result<(), String> {
    let mut executor = Executor::new(heap()?, arguments.workers);
    let sessions = Sessions::open(&executor, arguments.sessions()).map_err(|error| error.to_string())?;
    executor.run_until_idle();
    let full = executor.memory().heap().statistics();
    sessions.close_nine_in_ten();
    executor.run_until_idle();
    let (after, pss, meshed) = (executor.memory().heap().statistics(), pss_bytes(), executor.memory().meshed());
    sessions.check(&mut executor)?;

    let system = arguments.child("residue")?;
    let shown =
        |bytes: Option<usize>| bytes.filter(|&bytes| bytes > 0).map_or_else(|| "-".to_owned(), |b| Mib(b).to_string());
    println!("{} sessions, of which a tenth stayed. In MiB:", grouped(arguments.sessions()));
    println!("  {:<44} {:>8} {:>8} {:>8}", "", "live", "heap", "Pss");
    println!("  {:<44} {:>8} {:>8} {:>8}", "meshheap, all sessions", Mib(full.taken_bytes), Mib(full.held_bytes), "");
    println!("  {:<44} {:>8} {:>8} {:>8}", "meshheap, idle", Mib(after.taken_bytes), Mib(after.held_bytes), shown(pss));
    println!("  {:<44} {:>8} {:>8} {:>8}", "system malloc, idle", "", "", shown(system.bytes("idle")));
    println!(
        "  {:<44} {:>8} {:>8} {:>8}",
        "system malloc after malloc_trim(0)",
        "",
        "",
        shown(system.bytes("trimmed"))
    );
    println!("Longest step of meshing: {}, of {}.", pause(meshed.longest), meshed.steps);
    throughput(arguments)?;
    let (before, held, longest) = (full.held_bytes, after.held_bytes, meshed.longest.as_micros());
    println!("executor: before={before} after={held} longest_step_us={longest}");
    Ok(())
}

fn residue_on_system(arguments: &Arguments) -> Result<(), String> {
    let mut executor = Executor::new(Global(System), arguments.workers);
    let sessions = Sessions::open(&executor, arguments.sessions()).map_err(|error| error.to_string())?;
    executor.run_until_idle();
    sessions.close_nine_in_ten();
    executor.run_until_idle();
    let mut figures = Figures::default();
    figures.set("idle", pss_bytes().unwrap_or(0) as u64);
    SystemMemory.trim();
    figures.set("trimmed", pss_bytes().unwrap_or(0) as u64);
    sessions.check(&mut executor)?;
    println!("{figures}");
    Ok(())
}

/// How long it takes to spawn, steal, run and free many tasks.
fn count(arguments: &Arguments, allocator: &str) -> Result<(), String> {
    let (workers, tasks) = (arguments.workers, arguments.tasks());
    let time = match allocator {
        "heap" => timed(Executor::new(heap()?, workers), tasks),
        "system" => timed(Executor::new(Global(System), workers), tasks),
        _ => timed(Executor::new(Global(MiMalloc), workers), tasks),
    };
    let mut figures = Figures::default();
    figures.set_time("time", time?);
    println!("{figures}");
    Ok(())
}

fn timed<M: Memory>(mut executor: Executor<M>, tasks: usize) -> Result<Duration, String> {
    let begun = Instant::now();
    let ran = storm(&mut executor, tasks).map_err(|error| error.to_string())?;
    let time = begun.elapsed();
    if ran == tasks { Ok(time) } else { Err(format!("{ran} of {tasks} tasks ran")) }
}

/// The best of some rounds, in turns, each in a process of its own.
fn throughput(arguments: &Arguments) -> Result<(), String> {
    const ALLOCATORS: [&str; 3] = ["heap", "system", "mimalloc"];
    let rounds = if arguments.short { 1 } else { 5 };
    let mut best = [u64::MAX; 3];
    for _ in 0..rounds {
        for (best, allocator) in best.iter_mut().zip(ALLOCATORS) {
            *best = (*best).min(arguments.child(allocator)?.get("time").ok_or("a figure is missing")?);
        }
    }
    let rate =
        |nanoseconds: u64| grouped(arguments.tasks() * 1000 / usize::try_from(nanoseconds / 1000).unwrap_or(1).max(1));
    let [ours, system, mimalloc] = best;
    println!("Thousand tasks a second, {} workers, the best of {rounds}:", arguments.workers);
    println!("  meshheap {}, system malloc {}, mimalloc {}", rate(ours), rate(system), rate(mimalloc));
    println!(
        "  meshheap is {} as fast as malloc, {} as mimalloc",
        ratio(Some(system), Some(ours)),
        ratio(Some(mimalloc), Some(ours))
    );
    Ok(())
}
