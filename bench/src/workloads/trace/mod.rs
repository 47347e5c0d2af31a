//! Recorded traces: what a program asked of its allocator, call by call, two to three bytes each.
//!
//! ```text
//! file   = "MHT1" { call }
//! call   = number (slot or size) x 4 + kind; a resize is followed by the new size
//! kind   = 0 alloc size | 1 free slot | 2 resize slot, size
//! number = seven bits a byte, low ones first, the top bit set on all but the last (LEB128)
//! ```
//!
//! An object's slot is the number that was freed last, or the next fresh one: the reader counts along, so that an alloc need
//! not name it.

mod format;
mod recorder;
pub(crate) mod replay;

pub use format::{Broken, Call, decode, encode};
pub use recorder::Recorder;
pub use replay::lua;
