//! Spans: runs of pages cut into slots of one class, the lists and depots that each class keeps, and the [`arena::Arena`] that
//! joins them with the page heap and the platform.

pub(crate) mod arena;
pub(crate) mod bits;
mod claim;
pub(crate) mod class_spans;
pub(crate) mod depot;
pub(crate) mod emptied;
mod fits;
mod group;
mod hollow;
mod pages;
pub(crate) mod pins;
mod refill;
mod release;
mod reset;
mod sweep;
