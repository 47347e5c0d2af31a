//! SQLite on a meshing heap: databases in memory, one a tenant, that lose nine tenths of their rows; then the program is idle,
//! and meshes.
//!
//! `cargo run --release --example sqlite`

use core::time::Duration;
use std::process::ExitCode;

use clap::Parser;
use meshheap::{MeshBudget, Options};
use meshheap_examples::rival::{self, Figures, ratio};
use meshheap_examples::sqlite::install;
use meshheap_examples::sqlite::workload::{Outcome, Scale, run, run_on_system};
use meshheap_examples::units::{Mib, grouped, pause};

/// Runs a database a tenant in memory, and meshes when idle.
#[derive(Parser, Debug)]
#[command(name = "sqlite")]
struct Arguments {
    /// Databases.
    #[arg(long, default_value_t = 100)]
    tenants: usize,
    /// Rows that each gets, of which a tenth stays.
    #[arg(long, default_value_t = 8000)]
    rows: i64,
    /// Does little, for a look within a second.
    #[arg(long)]
    short: bool,
    /// The longest that one step of meshing may take, in microseconds.
    #[arg(long, value_name = "N", default_value_t = 500)]
    step_us: u64,
    /// What the child process does.
    #[arg(long, hide = true)]
    on_system: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let scale = if arguments.short {
        Scale { tenants: 10, rows: 1000 }
    } else {
        Scale { tenants: arguments.tenants, rows: arguments.rows }
    };
    let done = if arguments.on_system {
        run_on_system(scale).map(|figures| println!("{figures}")).map_err(|error| error.to_string())
    } else {
        show(&arguments, scale)
    };
    done.map_or_else(
        |message| {
            eprintln!("sqlite: {message}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

fn show(arguments: &Arguments, scale: Scale) -> Result<(), String> {
    let installed = install(Options::default()).map_err(|error| error.to_string())?;
    let budget = MeshBudget::time(Duration::from_micros(arguments.step_us));
    let ours = run(installed, scale, budget).map_err(|error| error.to_string())?;
    let child = ["--on-system".to_owned(), format!("--tenants={}", scale.tenants), format!("--rows={}", scale.rows)];
    let system = rival::run(child)?;
    if ours.answers[0] != ours.answers[1] || system.get("answer") != Some(ours.answers[0].cast_unsigned()) {
        return Err("the heap is at fault: the databases answer otherwise than before".to_owned());
    }
    report(&ours, &system);
    let (before, after, longest) = (ours.before.held_bytes, ours.after.held_bytes, ours.mesh.longest.as_micros());
    println!("sqlite: before={before} after={after} longest_step_us={longest}");
    Ok(())
}

fn report(ours: &Outcome, system: &Figures) {
    let shown =
        |bytes: Option<usize>| bytes.filter(|&bytes| bytes > 0).map_or_else(|| "-".to_owned(), |b| Mib(b).to_string());
    let line = |name: &str, heap: Option<usize>, pss| println!("  {name:<34} {:>10} {:>10}", shown(heap), shown(pss));
    println!("{} objects; {} MiB are live. In MiB:", grouped(ours.allocations), Mib(ours.after.taken_bytes));
    println!("  {:<34} {:>10} {:>10}", "", "heap", "Pss");
    line("meshheap, idle", Some(ours.before.held_bytes), ours.pss[0]);
    line("meshheap, meshed", Some(ours.after.held_bytes), ours.pss[1]);
    line("system malloc, idle", None, system.bytes("idle"));
    line("system malloc after malloc_trim(0)", None, system.bytes("trimmed"));
    println!("Longest step of meshing: {}, of {}.", pause(ours.mesh.longest), ours.mesh.steps);
    let nanoseconds = u64::try_from(ours.cpu.as_nanos()).ok();
    println!("CPU time of the rush hour: {}, {} the system's.", pause(ours.cpu), ratio(nanoseconds, system.get("cpu")));
}
