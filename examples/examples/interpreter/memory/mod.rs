//! The typed layer between the interpreter and meshheap: all of the example's `unsafe` is in `store.rs`, `source.rs` and
//! `conservative.rs`.
//!
//! ```text
//!   Store ── owns ──▶ a Source (LocalHeap<&Heap<LinuxPlatform>>), the list of all objects, the roots
//!     │ enter(|mutator| ...)      a stretch of work: values exist, nothing is freed
//!     │ collect()                 between stretches: no values exist, unreachable objects are freed one by one
//!     │ mesh(budget)              between stretches: nobody writes, so this is a safepoint
//!     ▼
//!   Mutator<'id> ── makes and reads ──▶ Value<'id>: an atom or an Object<'id>
//! ```
//!
//! # The contract
//! * **M1** Each object on the store's list is a live allocation of its heap, with the layout that its header tells, and
//!   initialised in full.
//! * **M2** Each word in a record and in the roots is an atom or the address of an object on the list: words are made only
//!   from values of the same store, as the brand `'id` is unique to one call of `enter`.
//! * **M3** Values exist only inside `enter`, which borrows the store mutably, so that nothing is freed meanwhile: to
//!   hold a value is to know that its object is live.
//! * **M4** Collecting frees just the objects that cannot be reached from the roots. What is to live through a collection
//!   is therefore put on the frame stack or into a global before `enter` returns.
//! * **M5** A text never changes.
//! * **M6** The store borrowed its heap mutably: nobody else uses it, and outside `enter` nobody writes to its objects.
//!
//! # Why this way
//! A brand costs nothing at run time and lets the compiler reject what otherwise is the classic bug of hand-written
//! collectors: a reference that no root keeps.
//!
//! # The other way
//! `conservative` is a collector for runtimes that cannot tell where their references are: it takes every word of the machine's
//! stack and of each object for a reference if the heap says that an object lies there. It needs no list of all objects and no
//! mark in them: both are the heap's (`object_at`, `marks`, `sweep_unmarked`). With it, M3 is too strict: values may also live in
//! variables, on the stack, through a collection.

mod conservative;
mod roots;
mod source;
mod store;
mod value;
mod word;

pub(crate) use store::{Mutator, Object, Store};
pub(crate) use value::{Kind, Value};
