//! `libmeshheap.so` under programs: small C programs of ours for what the malloc family promises, and real programs.
//!
//! The library is built as it is shipped (profile `preload`), whatever profile the tests have.

mod embed;
mod endings;
mod exports;
mod family;
mod kernel;
mod lifecycle;
mod memory;
mod misuse;
mod programs;
mod settings;
mod support;
