//! A small Lisp whose memory is a meshheap: every pair, string, closure and scope is an object of its own in the heap, freed
//! one by one by a precise mark-sweep collector, or all at once by a conservative one. It meshes at its own safepoints, between
//! forms and within long evaluations, in steps of bounded time. Then it runs the script on the system's malloc, to compare.
//!
//! ```text
//! cargo run --release --example interpreter                      a script that leaves a fragmented heap
//! cargo run --release --example interpreter -- FILE              your script
//! cargo run --release --example interpreter -- -i                read, evaluate, print
//! cargo run --release --example interpreter -- --conservative    with the other collector
//! ```
//!
//! # Where to read next
//! `memory` is the typed layer over the heap and what makes it safe; `safepoint` when the interpreter collects and meshes;
//! `machine` the evaluator. The files build on each other in this order: `atoms`, `task`, `memory`, `symbols`, `error`,
//! `lexer`, `reader`, `printer`, `scope`, `machine` with `calls`, `forms` and `primitives`, `safepoint`, `interpreter`, `rival`.

mod atoms;
mod calls;
mod error;
mod forms;
mod interpreter;
mod lexer;
mod machine;
mod memory;
mod primitives;
mod printer;
mod reader;
mod repl;
mod report;
mod rival;
mod safepoint;
mod scope;
mod symbols;
mod task;
#[cfg(test)]
mod tests;

use core::time::Duration;
use std::io::{BufWriter, Write, sink, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use meshheap::{Heap, Options};
use meshheap_linux::LinuxPlatform;

use crate::interpreter::{Interpreter, Settings};

/// The script that runs if none is named.
const INVENTORY: &str = include_str!("../../scripts/inventory.lisp");

/// A small Lisp that gives its fragmented memory back by meshing.
#[derive(Parser)]
struct Arguments {
    /// The script to run; without one, a simulation that leaves a fragmented heap.
    script: Option<PathBuf>,
    /// Read forms from the standard input and print their values.
    #[arg(short, long, conflicts_with = "script")]
    interactive: bool,
    /// Tell the script, by `short?`, that a tenth of the work will do.
    #[arg(long)]
    short: bool,
    /// MiB of address space that the heap may use.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    limit_mib: Option<u64>,
    /// Microseconds that a step of meshing may take.
    #[arg(long, value_name = "US", default_value_t = 500)]
    step_us: u64,
    /// Collect conservatively: take every word of the stack and of objects for a reference.
    #[arg(long)]
    conservative: bool,
    /// Frames that a recursion may need.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000)]
    max_frames: usize,
    /// The seed of the script's `random`.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What the other process does, with which this one is compared.
    #[arg(long, hide = true, conflicts_with_all = ["conservative", "interactive"])]
    on_malloc: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("interpreter: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the script came to its end.
fn run(arguments: &Arguments) -> Result<bool, String> {
    let (name, text) = source(arguments)?;
    let mut options = Options::default();
    if let Some(mib) = arguments.limit_mib {
        options.arena_bytes = usize::try_from(mib << 20).map_err(|_| "the limit is too large")?;
    }
    let heap = Heap::with_options(LinuxPlatform::new(), options);
    let mut heap = heap.map_err(|error| format!("no heap: {error}"))?;
    let settings = Settings {
        mesh_step: Duration::from_micros(arguments.step_us),
        frame_limit: arguments.max_frames,
        seed: arguments.seed,
        conservative: arguments.conservative,
        on_malloc: arguments.on_malloc,
    };
    let output: Box<dyn Write> =
        if arguments.on_malloc { Box::new(sink()) } else { Box::new(BufWriter::new(stdout())) };
    let mut interpreter =
        Interpreter::new(&mut heap, settings, output).map_err(|failure| format!("prelude: {failure}"))?;
    interpreter.define_bool("short?", arguments.short);
    let succeeded = if arguments.interactive {
        repl::run(&mut interpreter)?;
        true
    } else {
        let evaluated = interpreter.evaluate(&text, |_| {});
        interpreter.flush_output().map_err(|error| format!("standard output: {error}"))?;
        evaluated.map_err(|failure| eprintln!("{name}:{failure}")).is_ok()
    };
    if arguments.on_malloc {
        println!("{}", rival::measure(&mut interpreter));
        return Ok(succeeded);
    }
    // Malloc has no limit, and nobody types everything twice.
    let is_compared = !arguments.interactive && arguments.limit_mib.is_none();
    let rival = is_compared.then(rival::figures).transpose()?;
    report::print(&mut interpreter, rival.as_ref()).map_err(|error| format!("standard output: {error}"))?;
    Ok(succeeded)
}

/// The script's name and text.
fn source(arguments: &Arguments) -> Result<(String, String), String> {
    match &arguments.script {
        None => Ok(("inventory.lisp".to_owned(), INVENTORY.to_owned())),
        Some(path) => {
            let name = path.display().to_string();
            let text = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
            Ok((name, text))
        }
    }
}
