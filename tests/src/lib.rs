//! What the whole-heap tests share: operations on a heap as data, and a reference model that knows what must be true.

pub mod model;
pub mod op;
pub mod recorded;
pub mod scene;
pub mod sparse;

pub use model::Model;
pub use op::Op;

/// The README's code, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
