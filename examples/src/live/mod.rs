//! A look into the heap of a running program.
//!
//! ```text
//!   the program                                   heap_view
//!   Heap ──▶ Snapshot ── Server (a socket) ── JSON ── fetch ──▶ Snapshot ──▶ view (terminal), picture (SVG, PNG)
//! ```
//!
//! Nothing is measured until somebody asks: a snapshot walks the heap's pages, a lock at a time, beside the program's threads.

mod server;
mod snapshot;
pub mod view;

pub use server::{Server, fetch};
pub use snapshot::{BudgetNode, SizeClass, Snapshot};
