//! The same script on the system allocator, to compare with.

use core::fmt;
use core::str::FromStr;

use meshheap_linux::memory::pss_bytes;

use super::error::LuaError;
use super::experiment::Script;
use super::memory::SystemMemory;
use super::state::State;

/// What the system allocator holds for a script once most of its objects are gone, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SystemFigures {
    /// Bytes that Lua holds.
    pub live: usize,
    /// The process's Pss after Lua's collection; none where the system does not say.
    pub collected: Option<usize>,
    /// The same after `malloc_trim(0)`, which gives back every page without objects.
    pub trimmed: Option<usize>,
}

/// Runs `script` on malloc, realloc and free. For a process of its own: whatever it held before is counted, too.
///
/// # Errors
/// The script fails.
pub fn run_on_system(script: &Script, limit: usize) -> Result<SystemFigures, LuaError> {
    let mut lua = State::new(SystemMemory, limit, script.scale)?;
    lua.run(&script.source, &script.name)?;
    lua.collect();
    let collected = pss_bytes();
    lua.account().memory_mut().trim();
    Ok(SystemFigures { live: lua.account().live(), collected, trimmed: pss_bytes() })
}

/// One line, which a parent process reads. Zero stands for none.
impl fmt::Display for SystemFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [collected, trimmed] = [self.collected, self.trimmed].map(|bytes| bytes.unwrap_or(0));
        write!(f, "system: {} {collected} {trimmed}", self.live)
    }
}

/// The line was written by something else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotFigures;

impl FromStr for SystemFigures {
    type Err = NotFigures;

    fn from_str(line: &str) -> Result<Self, NotFigures> {
        let numbers = line.trim().strip_prefix("system: ").ok_or(NotFigures)?;
        let mut numbers = numbers.split(' ').map(|number| number.parse().map_err(|_| NotFigures));
        let mut next = || numbers.next().ok_or(NotFigures)?;
        let (live, collected, trimmed) = (next()?, next()?, next()?);
        let known = |bytes| (bytes != 0).then_some(bytes);
        Ok(Self { live, collected: known(collected), trimmed: known(trimmed) })
    }
}

#[cfg(test)]
mod tests {
    use super::{NotFigures, SystemFigures};

    #[test]
    fn figures_survive_the_pipe() {
        let figures = SystemFigures { live: 1, collected: Some(23), trimmed: None };
        assert_eq!(figures.to_string().parse(), Ok(figures));
        assert_eq!("system: 1 2".parse::<SystemFigures>(), Err(NotFigures));
    }
}
