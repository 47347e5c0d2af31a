//! What the examples share: a Lua runtime on a heap, meshing until nothing more is to be had, and pictures of a heap.
//!
//! * [`lua`] is Lua 5.4 on an allocator of ours, and the experiment that the example `lua` shows.
//! * [`meshing`] meshes step by step at a safepoint.
//! * [`heap_map`] draws every page of a heap.
//! * [`live`] looks into the heap of a running program: the program `heap_view`.
//! * [`profile`] writes heap profiles for pprof.
//! * [`quickjs`] is QuickJS with a heap a runtime, [`sqlite`] SQLite with one heap for all; [`malloc`] is what both need.
//! * [`sessions`] is what the example `executor` runs.
//! * [`rival`] runs the same on another allocator, in another process.

pub mod heap_map;
pub mod live;
pub mod lua;
pub mod malloc;
pub mod meshing;
pub mod profile;
pub mod quickjs;
pub mod rival;
pub mod sessions;
pub mod sqlite;
pub mod units;
