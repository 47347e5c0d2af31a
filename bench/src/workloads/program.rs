//! What every workload binary does: run one workload and say how it went.

use std::env;
use std::fs;
use std::process::ExitCode;

use meshheap_linux::memory;

use crate::outcome::{Outcome, page_faults};
use crate::{ALL, Workload, comeback};

/// Runs the workload that the command line names: `NAME [SCALE]`, or a scenario of [`comeback`]: `comeback SCENARIO THREADS
/// IDLE_SECONDS SCALE`. The outcome goes to the standard output.
///
/// Exit code: 0; 2 for a wrong command line; 3 if a library of `LD_PRELOAD` is not there: the system's loader only warns.
#[must_use]
pub fn main() -> ExitCode {
    if let Some(missing) = missing_library() {
        eprintln!("{missing} is not loaded");
        return ExitCode::from(3);
    }
    let mut arguments = env::args();
    let _program = arguments.next();
    let name = arguments.next();
    if name.as_deref() == Some("comeback") {
        return comeback::main(arguments);
    }
    let workload = name.as_deref().and_then(Workload::named);
    let scale = arguments.next().map_or(Ok(1.0), |scale| scale.parse());
    let (Some(workload), Ok(scale)) = (workload, scale) else {
        let names: Vec<_> = ALL.iter().map(|workload| workload.name).collect();
        eprintln!("NAME [SCALE], NAME being one of {}", names.join(", "));
        return ExitCode::from(2);
    };
    println!("{}", serde_json::to_string(&outcome(workload, scale)).expect("numbers can be written"));
    ExitCode::SUCCESS
}

fn outcome(workload: &Workload, scale: f64) -> Outcome {
    let end = workload.run(scale);
    let final_pss_bytes = memory::pss_bytes();
    // A program that ends gives its data up; that is part of the work.
    drop(end.held);
    let (minor_faults, major_faults) = page_faults().unzip();
    Outcome { checksum: end.checksum, final_pss_bytes, minor_faults, major_faults }
}

/// The first library that should have been preloaded and does not show among the mappings.
fn missing_library() -> Option<String> {
    let wanted = env::var("LD_PRELOAD").ok()?;
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    wanted.split([' ', ':']).filter(|path| path.starts_with('/')).find(|path| !maps.contains(path)).map(str::to_owned)
}
