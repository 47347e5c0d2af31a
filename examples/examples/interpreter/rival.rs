//! The same script with all objects from the system's malloc, in a process of its own.

use std::env;

use meshheap_examples::lua::SystemMemory;
use meshheap_examples::rival::{Figures, run};
use meshheap_linux::memory::pss_bytes;

use crate::interpreter::Interpreter;

/// The argument that makes a process the other one.
pub(crate) const ON_MALLOC: &str = "--on-malloc";

/// Runs this program once more, with its own arguments, on malloc.
pub(crate) fn figures() -> Result<Figures, String> {
    // A conservative collector asks the heap; on malloc, the precise one has to do.
    let own = env::args_os().skip(1).filter(|argument| argument != "--conservative");
    run(own.chain([ON_MALLOC.into()]))
}

/// What the other process tells: its memory after a collection and after `malloc_trim(0)`, and its longest collection.
pub(crate) fn measure(interpreter: &mut Interpreter<'_>) -> Figures {
    interpreter.safepoints.collect(&mut interpreter.store);
    let mut figures = Figures::default();
    let mut note = |name, bytes: Option<usize>| figures.set(name, bytes.unwrap_or(0) as u64);
    note("live", Some(interpreter.store.live_bytes()));
    note("collected", pss_bytes());
    SystemMemory.trim();
    note("trimmed", pss_bytes());
    figures.set_time("longest_collection", interpreter.safepoints.longest_collection);
    figures
}
