//! What the platform does to real memory, judged by bytes, by Pss, by `/proc` and by provoked failures.

mod arena;
mod backing;
mod backing_limits;
mod barrier;
mod barrier_calls;
mod barrier_chain;
mod barrier_choice;
mod barrier_descriptor;
mod barrier_userfaultfd;
mod collapse;
mod failures;
mod footprint;
mod fork_policies;
mod heap;
mod hybrid;
mod hybrid_locks;
mod limited;
mod meshing;
mod pins;
mod process;
mod relocation;
mod seals;
mod segments;
