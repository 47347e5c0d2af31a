//! What the platform does to real memory, judged by bytes, by Pss, by `/proc` and by provoked failures.

mod arena;
mod barrier;
mod barrier_chain;
mod failures;
mod footprint;
mod meshing;
mod process;
