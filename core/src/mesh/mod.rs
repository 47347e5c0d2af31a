//! Meshing: lays spans of one class whose live slots do not overlap onto the same physical pages, in bounded steps.
//!
//! A pass goes through the classes; in each it collects partial spans (`plan`), searches groups among copies of their
//! bitmaps (`grouping`, pure), and then meshes pair by pair (`pair`), looking again under the class lock before each. So a
//! plan that went stale while the program ran costs yield, never correctness.

pub(crate) mod budget;
pub(crate) mod grouping;
pub(crate) mod pair;
pub(crate) mod pass;
pub(crate) mod plan;
mod round;
pub(crate) mod row;
mod step;
mod thaw;

pub use budget::{MeshBudget, MeshStep, StepEnd};
