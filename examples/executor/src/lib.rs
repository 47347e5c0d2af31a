//! An async executor for several threads whose tasks lie in a meshing heap.
//!
//! * Each worker allocates the tasks that it spawns from its own local heap, without a lock. Tasks are stolen, and whoever
//!   drops the last reference of a task frees it into *its* local heap: there are no owners.
//! * When all workers are parked, nobody writes to a task, so the last of them meshes, step by step, until there is work
//!   again. A server whose connections come and go gives its memory back whenever it is idle.
//! * One executor has one heap. A process makes as many executors as it has tenants.
//! * Where tasks lie is a trait, [`Memory`], so that the same executor runs on other allocators, and in loom's models on a
//!   simulated platform: see `tests/model.rs`.
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
//! use meshheap::Heap;
//! use meshheap_executor::{Executor, HeapMemory};
//! use meshheap_linux::HybridPlatform;
//!
//! # fn main() -> Result<(), meshheap::AllocError> {
//! let mut executor = Executor::new(HeapMemory::new(Heap::new(HybridPlatform::new())?), 2);
//! let sum = Arc::new(AtomicU32::new(0));
//! for number in 1..=10 {
//!     let sum = sum.clone();
//!     executor.spawn(async move { drop(sum.fetch_add(number, Relaxed)) })?;
//! }
//! executor.run_until_idle();
//! assert_eq!(sum.load(Relaxed), 55);
//! # Ok(())
//! # }
//! ```
//!
//! # What may write to a task
//! Its own polls, and its wakers: both keep away from a mesh step. A future that other threads write to behind the executor's
//! back (one with a list node inside, as those of tokio's `Notify` and `Semaphore`) may be notified by workers only, or the
//! heap is made on a platform with a write barrier, which [`HeapMemory`] then uses.
//!
//! # Where to read next
//! `task` is what lies in the heap and its states; `worker` the loop; `idle` how workers park, and why meshing there is safe;
//! `wakers` who may touch a task from outside.

mod executor;
mod idle;
mod memory;
mod sync;
mod task;
mod wakers;
mod worker;

pub use executor::{Executor, Spawner};
pub use memory::{Global, HeapMemory, Memory, Meshed};
