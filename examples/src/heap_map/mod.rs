//! Pictures of a heap: one cell a page, coloured by how full it is.
//!
//! ```text
//!   Heap ── walk_pages ──▶ HeapMap ── Grid ──▶ figure ──▶ SVG ──▶ PNG
//!                          a byte a page       one panel, or two side by side
//! ```
//!
//! [`single`] and [`pair`] draw; [`Picture::write`] stores what they drew as `NAME.svg` and `NAME.png`.

mod figure;
mod footer;
mod grid;
mod map;
mod palette;
mod picture;
mod svg;

pub use figure::{Panel, pair, single};
pub use map::{Cell, HeapMap, LEVELS};
pub(crate) use palette::rgb;
pub use picture::Picture;
