//! QuickJS with a heap a runtime.
//!
//! * [`Engine`] is a JavaScript runtime on an allocator: it runs programs, collects, meshes, and is dropped at once.
//! * `allocators` are where its objects come from: a heap of its own, the system's malloc, or mimalloc.
//! * [`programs`] are what it runs.

mod allocators;
mod engine;
pub mod experiment;
pub mod programs;

pub use engine::{Engine, JsError, Source};
