//! What the examples share: a Lua runtime on a heap, meshing until nothing more is to be had, and pictures of a heap.
//!
//! * [`lua`] is Lua 5.4 on an allocator of ours, and the experiment that the example `lua` shows.
//! * [`meshing`] meshes step by step at a safepoint.
//! * [`heap_map`] draws every page of a heap.

pub mod heap_map;
pub mod lua;
pub mod meshing;
pub mod units;
