//! Lua 5.4 on an allocator of ours.
//!
//! ```text
//!   script ──▶ State ── lua_newstate(callback, account) ──▶ Lua ── callback(ptr, osize, nsize) ──▶ Account ──▶ Memory
//! ```
//!
//! * [`State`] is a Lua state that runs scripts and calls their functions; nothing it does can make Lua abort.
//! * [`Account`] counts what Lua holds and refuses what goes beyond a limit.
//! * [`HeapMemory`], [`SystemMemory`] and [`Mimalloc`] are where the bytes come from.
//! * [`tenant`] is a state with a heap and a limit of its own; [`programs`] are there to be measured.
//! * [`experiment`] runs a script, meshes its heap, and looks whether every object is where it was.

mod account;
mod error;
pub mod experiment;
mod memory;
pub mod programs;
mod state;
mod system;
pub mod tenant;

pub use account::Account;
pub use error::LuaError;
pub use memory::{HeapMemory, Memory, Mimalloc, SystemMemory};
pub use state::State;
pub use system::{SystemFigures, run_on_system};
