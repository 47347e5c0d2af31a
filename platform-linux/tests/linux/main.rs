//! What the platform does to real memory, judged by bytes, by Pss, by `/proc` and by provoked failures.

mod arena;
mod backing;
mod backing_limits;
mod barrier;
mod barrier_chain;
mod failures;
mod footprint;
mod heap;
mod meshing;
mod process;
mod relocation;
