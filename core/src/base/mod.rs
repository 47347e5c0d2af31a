//! The lowest floor: words of the heap as types, tunables, errors, randomness, and the one file that names atomics and locks.

pub(crate) mod budget;
pub(crate) mod config;
pub(crate) mod error;
pub(crate) mod prefetch;
pub(crate) mod rng;
pub(crate) mod sync;
pub(crate) mod units;
