//! A state with a heap and a limit of its own.

use core::time::Duration;

use meshheap_examples::lua::tenant::{Day, NoDay, serve};
use meshheap_examples::units::{Mib, grouped, pause};

use crate::arguments::Arguments;

/// Serves a tenant, and says how it went.
pub(crate) fn show(arguments: &Arguments) -> Result<(), String> {
    let scale = if arguments.short { 0.2 } else { 2.0 };
    let limit = if arguments.short { 6 << 20 } else { 60 << 20 };
    let step = Duration::from_micros(500);
    let evening = serve(&Day { requests: 10, scale, limit, step }).map_err(|error| match error {
        NoDay::Heap(error) => format!("no heap: {error}"),
        NoDay::Lua(error) => error.to_string(),
    })?;
    let [busy, at_rest, meshed] = evening.held.map(Mib);
    println!("A tenant with a heap and a limit of its own ({} MiB):", Mib(limit));
    println!("  Its heap held {busy} MiB, {at_rest} when it rested, {meshed} once pauses had meshed it.");
    println!(
        "  {} pages came back in steps of at most {}; with the collection before it, the longest pause was {}.",
        grouped(evening.pages_back),
        pause(evening.longest_step),
        pause(evening.longest_pause)
    );
    let limited = evening.limited.err().map(|error| error.to_string()).unwrap_or_default();
    let limited = limited.lines().next().unwrap_or_default();
    let intact = if evening.sums[0] == evening.sums[1] { "as it was" } else { "NOT as it was" };
    println!("  A greedy request: {limited}; its cache was {intact}, and it went on.");
    println!(
        "  Dropped at once, with {} MiB of objects, in {}.",
        Mib(evening.dropped_bytes),
        pause(evening.dropped_in)
    );
    Ok(())
}
