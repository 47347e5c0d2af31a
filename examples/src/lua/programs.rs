//! Programs to measure, on every memory.

use core::time::Duration;

use cpu_time::ProcessTime;

use super::error::LuaError;
use super::memory::Memory;
use super::state::State;

/// A program that defines `run()`, which goes by the global `scale` and gives a checksum.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// What tables call it.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// The same sums on every memory.
pub const PROGRAMS: [Program; 3] = [
    Program { name: "strings", text: include_str!("../../scripts/lua/strings.lua") },
    Program { name: "objects", text: include_str!("../../scripts/lua/objects.lua") },
    Program { name: "tables", text: include_str!("../../scripts/lua/tables.lua") },
];

/// Runs a program from a new state to its end. Returns its sum and the CPU time.
///
/// # Errors
/// It fails, or there is no memory for it.
pub fn measure<M: Memory>(program: &Program, memory: M, scale: f64) -> Result<(i64, Duration), LuaError> {
    let begun = ProcessTime::now();
    let mut lua = State::new(memory, usize::MAX, scale)?;
    lua.run(program.text.as_bytes(), program.name)?;
    let sum = lua.call_integer(c"run")?.unwrap_or(0);
    drop(lua);
    Ok((sum, begun.elapsed()))
}
