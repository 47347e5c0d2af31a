//! The same script on the system allocator, in a process of its own, so that neither run sees the other's memory.

use std::env;
use std::process::{Command, Stdio};

use meshheap_examples::lua::SystemFigures;

use crate::arguments::Arguments;

/// Runs this program once more; a message if that gives no figures.
pub(crate) fn run(arguments: &Arguments) -> Result<SystemFigures, String> {
    println!("Running the same script on the system allocator ...");
    let program = env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let child = Command::new(program)
        .args(arguments.for_child())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start this program once more: {error}"))?;
    // The script may have printed something, too: the figures come last.
    let text = String::from_utf8_lossy(&child.stdout);
    let figures = text.lines().last().and_then(|line| line.parse().ok());
    figures.ok_or_else(|| format!("the run on the system allocator told no figures ({})", child.status))
}
