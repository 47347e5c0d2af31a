//! What can go wrong with a script.

use core::fmt;

/// Why Lua did not do what it was told, with Lua's own words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LuaError {
    /// There was no memory for a state.
    NoState,
    /// The script does not parse.
    Syntax(String),
    /// The script raised an error.
    Raised(String),
    /// The script needs more memory than there is, even after a collection.
    OutOfMemory(String),
}

impl fmt::Display for LuaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoState => f.write_str("there is no memory for a Lua state"),
            Self::Syntax(text) => write!(f, "the script does not parse: {text}"),
            Self::Raised(text) => write!(f, "the script raised an error: {text}"),
            Self::OutOfMemory(text) => write!(f, "the script ran out of memory: {text}"),
        }
    }
}

impl core::error::Error for LuaError {}
