//! Lua 5.4 on an allocator of ours.
//!
//! ```text
//!   script ──▶ State ── lua_newstate(callback, account) ──▶ Lua ── callback(ptr, osize, nsize) ──▶ Account ──▶ Memory
//! ```
//!
//! * [`State`] is a Lua state that runs scripts and calls their functions; nothing it does can make Lua abort.
//! * [`Account`] counts what Lua holds and refuses what goes beyond a limit.
//! * [`HeapMemory`] and [`SystemMemory`] are where the bytes come from.
//! * [`experiment`] runs a script, meshes its heap, and looks whether every object is where it was.

mod account;
mod error;
pub mod experiment;
mod memory;
mod state;
mod system;

pub use account::Account;
pub use error::LuaError;
pub use memory::{HeapMemory, Memory, SystemMemory};
pub use state::State;
pub use system::{SystemFigures, run_on_system};
