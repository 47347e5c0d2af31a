//! Lua 5.4 on a meshing heap: a script fragments its memory, meshing gives it back, every object stays where it is.
//!
//! `cargo run --release --example lua -- --help` tells what can be set. The pictures that it draws show every page of the
//! heap, before meshing and after. The last line on stdout is for machines.

mod arguments;
mod benchmark;
mod comparison;
mod pictures;
mod progress;
mod report;
mod tenants;

use std::process::ExitCode;

use clap::Parser;
use meshheap_examples::lua::{experiment, run_on_system};

use arguments::Arguments;
use progress::Progress;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match (&arguments.measure, arguments.compare) {
        (Some(memory), _) => benchmark::measure_on(memory, &arguments),
        (None, true) => benchmark::compare(&arguments),
        (None, false) if arguments.on_system => system_child(&arguments),
        (None, false) => show(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("lua: {message}");
            ExitCode::FAILURE
        }
    }
}

/// The whole show; the message if it fails.
fn show(arguments: &Arguments) -> Result<(), String> {
    let script = arguments.script()?;
    println!("Running {} on meshheap ...", script.name);
    let mut progress = Progress::new();
    let outcome = experiment::run(&script, &arguments.settings(), &mut |event| progress.show(event));
    progress.finish();
    let outcome = outcome.map_err(|failure| report::failure(&failure, arguments.limit_mib))?;
    report::meshing(&outcome);
    let system = (!arguments.no_system).then(|| comparison::run(arguments)).transpose();
    report::table(&outcome, system.as_ref().ok().and_then(Option::as_ref));
    if let Err(message) = &system {
        eprintln!("lua: {message}");
    }
    pictures::write(&outcome, &script.name, &arguments.out)?;
    tenants::show(arguments)?;
    println!("{outcome}");
    Ok(())
}

/// What the child process of [`comparison`] does.
fn system_child(arguments: &Arguments) -> Result<(), String> {
    let figures = run_on_system(&arguments.script()?, arguments.settings().limit).map_err(|error| error.to_string())?;
    println!("{figures}");
    Ok(())
}
