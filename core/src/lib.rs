//! A heap for language runtimes, interpreters and custom executors that **gives fragmented memory back without moving
//! objects**: pages whose live objects do not overlap are laid onto one physical page (*meshing*, after Powers, Tench, Berger
//! and McGregor, *Mesh: Compacting Memory Management for C/C++ Applications*, PLDI 2019).
//!
//! A [`Heap`] is a value: made on a [`Platform`], shared between threads, dropped as a whole. Each thread allocates through
//! a [`LocalHeap`] of its own. When the embedder stands at a safepoint, it calls [`Heap::mesh_at_safepoint`] with the pause
//! that it can afford; on a platform with a write barrier, [`Heap::mesh`] at any moment. There are no statics, no thread-local
//! storage, no signals, no threads and no file descriptors here; running out of memory is an [`AllocError`], never an abort.
//!
//! ```
//! use core::alloc::Layout;
//! use meshheap::{Heap, MeshBudget, StepEnd};
//! # #[cfg(feature = "simulated")]
//! # fn main() -> Result<(), meshheap::AllocError> {
//! # let platform = meshheap::SimulatedPlatform::new(4096);
//! # let mut options = meshheap::Options::default();
//! # options.arena_bytes = 1 << 20;
//! # let new_heap = || Heap::with_options(&platform, options);
//! let heap = new_heap()?; // with `meshheap-linux`: Heap::new(HybridPlatform::new())?
//! let mut local = heap.local();
//! let layout = Layout::new::<[u64; 8]>();
//! let object = local.alloc(layout)?;
//! // SAFETY: the object is live, has this layout and is not used any more.
//! unsafe { local.dealloc(object, layout) };
//! // SAFETY: no other thread uses the heap, so nothing writes to its objects meanwhile.
//! let step = unsafe { heap.mesh_at_safepoint(MeshBudget::UNLIMITED) };
//! assert_eq!(step.end, StepEnd::PassDone);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "simulated"))]
//! # fn main() {}
//! ```
//!
//! # The structures, bottom up
//!
//! The folders are floors: a file names only lower ones.
//!
//! | floor | what is there |
//! |---|---|
//! | `base` | units, tunables, errors, budgets, random numbers; `sync`, the one file that names atomics and locks |
//! | `ds` | size classes, tables by page, shuffle vectors, the metadata pool |
//! | `platform` | [`Platform`]: what the heap asks of the system; `SimulatedPlatform` for tests |
//! | `page_heap` | free runs of pages, what each page belongs to, how many mappings are in use |
//! | `span` | per class: partial spans by occupancy, depot; claim, release; the arena that joins it all |
//! | `mesh` | the search for groups, the protocol that lays one span onto another, passes in steps |
//! | `heap` | [`Heap`]: large objects, statistics, introspection, marks and sweeps, invariants |
//! | `local_heap` | [`LocalHeap`]: the fast path |
//!
//! # An allocation goes ...
//!
//! 1. `LocalHeap::alloc`: the layout's size class, then a pop from the class's shuffle vector. Done, without a lock.
//! 2. The vector is empty: the next full one that the class keeps takes its place. Still no lock.
//! 3. There is none: *refill*. Under the class lock, a full vector from the depot; else the free slots of the fullest partial
//!    spans are claimed (their bits set); without the lock, they are put in order from a random start.
//! 4. No partial span: the page heap gives a run of pages, under its own lock: dirty ones first, then purged ones, then
//!    fresh ones.
//! 5. No run: depots are drained, dead aliases and dirty pages are given back, and step 3 is tried once more. Then `Err`.
//!
//! # A free goes ...
//!
//! 1. `LocalHeap::dealloc`: the layout's size class, then a push. `free`, without a layout, reads the class from one byte
//!    of the page map. Any thread frees any object: there are no owners.
//! 2. The vector is full: the class keeps it and goes on with an empty one.
//! 3. All vectors together take too much: *flush*. Under the class lock a full one goes to the depot or, if that has enough,
//!    its slots are released to their spans (bits cleared; a bit that is clear already is a double free).
//! 4. A span whose last slot was released goes back to the page heap as dirty pages; an alias is unaliased first, without
//!    a lock. Dirty pages that nobody reused for a while go back to the system.
//!
//! # A mesh goes ...
//!
//! 1. For each class, partial spans are collected in address order, and groups of pairwise disjoint bitmaps are searched.
//! 2. Pair by pair, under the class lock: do they still fit? Both are held (*busy*): nobody claims from them.
//! 3. Without a lock: live objects are copied to the same offsets of the keeper's page, and the source's addresses are
//!    aliased to it. Under the lock, the source is linked as an alias, with the slots that are live by then.
//! 4. The source's own backing page is purged. Its objects are where they were, on another physical page.
//!
//! # When something is wrong
//!
//! | what | what comes of it |
//! |---|---|
//! | no memory, no room in a budget, a refused call of the platform | an [`AllocError`] that says which; objects and heap are as before |
//! | a limit below what is in use | [`LimitBelowUse`] with the bytes; it holds all the same, so that nothing is charged until enough came back |
//! | a node's hook that allocates | works as long as there is room; at the same node's limit it fails without another call |
//! | a node's hook that panics | the panic comes through the allocation, and the heap is whole |
//! | a node that its owner drops while it is charged | lives on, limits and all, until the last heap, child or [`Charge`] is gone |
//! | a handle that is used after its heap | over `&Heap` it does not compile, over `Arc` it keeps the heap, over a [`HeapCell`] it gets [`CellError::Stale`] |
//! | a pointer that is used after its heap was reset | [`MisuseKind::Stale`], if it was [`Stamped`] |
//! | a walk beside allocations, or one that allocates and frees itself | tells each object that lives throughout once ([`Heap::objects`]) |
//! | another heap's pointer, or nobody's | [`MisuseKind::NotOurs`] from `free`, `usable_size`, `object_at` and `pin`; `Heap::dealloc` counts and reports it |
//! | a pointer into an object, a second free, a wrong layout | [`MisuseKind::Interior`], [`MisuseKind::DoubleFree`], [`MisuseKind::WrongLayout`]: at once by the heap's own calls, by a local heap's when the slot is released at the latest |
//! | marks of another heap | `sweep_unmarked` panics before anything is freed |
//!
//! Reports without a caller to return them to go to [`Options::on_misuse`] and count in [`Statistics::misuses`]. `unsafe` calls
//! have contracts beyond this: `LocalHeap::dealloc`, the fastest, believes what it is told, and debug builds check it.
//!
//! # Where to read next
//!
//! `ARCHITECTURE.md` has the words, the numbered invariants and the lock order. Then `ds::size_class` and
//! `span::class_spans` (the heart), `mesh::pair` (the protocol), `local_heap` (the fast path).
#![no_std]
#![cfg_attr(feature = "nightly", feature(allocator_api))]

#[cfg(any(test, feature = "simulated", feature = "alloc", feature = "bench-internals"))]
extern crate alloc;
#[cfg(any(test, feature = "check", feature = "loom"))]
extern crate std;

mod base;
#[cfg(feature = "bench-internals")]
pub mod bench_internals;
mod ds;
mod heap;
mod local_heap;
mod mesh;
#[cfg(feature = "loom")]
pub mod model;
mod page_heap;
mod platform;
mod span;
#[cfg(all(test, feature = "simulated", feature = "check"))]
mod tests;

pub use base::budget::{
    Budget, BudgetOptions, BudgetRef, Charge, LimitBelowUse, LimitHook, Limits, OverBudget, Refusal, Resource,
    Teardown, Usage,
};
pub use base::error::{AllocError, Misuse, MisuseKind, Operation, PlatformError};
pub use base::units::{PageIndex, PageRun, SizeClass};
pub use heap::Heap;
pub use heap::cell::{CellError, CellRef, HeapCell, Inside, Stamped};
pub use heap::inspect::{ClassUse, ObjectInfo, Objects};
pub use heap::json::StatisticsJson;
pub use heap::leaks::{LeakTotal, Leaks};
pub use heap::marks::MarkBits;
pub use heap::pin::PinError;
pub use heap::statistics::Statistics;
pub use heap::sweep::Swept;
pub use heap::walk::PageUse;
#[cfg(any(feature = "allocator-api2", feature = "allocator-api2-04", feature = "nightly"))]
pub use local_heap::LocalRef;
pub use local_heap::{BulkError, Profiler, Sample, SampledLocal, Sampling};
pub use local_heap::{CellLocal, CountedLocal, Entered, HeapRef, LocalHeap};
#[cfg(feature = "alloc")]
pub use local_heap::{MergedHeap, MergedLocal};
pub use mesh::{MeshBudget, MeshStep, StepEnd};
#[cfg(feature = "simulated")]
pub use platform::failing::Failing;
#[cfg(feature = "simulated")]
pub use platform::simulated::{PageState, SimulatedPlatform};
pub use platform::{Access, Facts, Platform, Purpose, Touch};
pub use span::arena::{Options, SlotOrder};
