//! Output, errors, and the collector.

use crate::error::{LispError, Stop};
use crate::machine::Machine;
use crate::memory::Value;
use crate::primitives::Call;
use crate::printer::{Style, print};

type Made<'id> = Result<Value<'id>, Stop>;

/// All arguments in a row, as people read them.
fn joined<'id>(machine: &Machine<'_, 'id, '_>, arguments: &[Value<'id>]) -> String {
    arguments.iter().map(|&value| print(value, &machine.world.symbols, Style::Display)).collect()
}

fn output<'id>(machine: &mut Machine<'_, 'id, '_>, user: &str, text: &str) -> Made<'id> {
    let written = machine.world.output.write_all(text.as_bytes());
    written.map_err(|error| LispError::Raised(format!("{user}: {error}")))?;
    Ok(Value::Void)
}

pub(super) fn display<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    let text = joined(machine, call.arguments);
    output(machine, call.user, &text)
}

pub(super) fn print_line<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    let text = joined(machine, call.arguments) + "\n";
    output(machine, call.user, &text)
}

pub(super) fn write<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    let text = print(call.arguments[0], &machine.world.symbols, Style::Write);
    output(machine, call.user, &text)
}

pub(super) fn newline<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    output(machine, call.user, "\n")
}

/// An error with all arguments as its message.
pub(super) fn raise<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    Err(LispError::Raised(joined(machine, call.arguments)).into())
}

/// Asks for a collection at the next safepoint, which is at once.
pub(super) fn collect<'id>(machine: &mut Machine<'_, 'id, '_>, _: Call<'_, 'id>) -> Made<'id> {
    machine.world.collection_requested = true;
    Ok(Value::Void)
}
