//! `libmeshheap.so`: the heap as malloc, for unmodified programs by `LD_PRELOAD`.
//!
//! ```text
//!   malloc, free, ...   (c_api)     operator new, delete   (cxx)     mallinfo, ...   (info)
//!             │                             │                              │
//!             └──────────── process ────────┘                              │
//!      fast path: the thread's local heap (thread_pointer, freed_mark)     │
//!      slow path: `meshheap_linux::process` ───────────────────────────────┘
//! ```
//!
//! | file | what |
//! |---|---|
//! | `c_api`, `cxx`, `info` | malloc and its relatives |
//! | `mh_heap`, `mh_local`, `mh_objects`, `mh_figures` | heaps as values, the functions `mh_...`: they share nothing with the above but the library |
//! | `process` | what malloc and the operators have in common: allocation and free in the process's heap, and errno |
//! | `thread_pointer` | one word a thread, in two instructions |
//! | `freed_mark` | a word in freed objects, by which a second free is seen at once |
//! | `misuse` | wrong pointers: a line on stderr, then abort or go on |
//! | `settings` | the environment variables `MESHHEAP_...` |
//! | `text` | lines without allocation |
//!
//! # Why without std
//! The standard library allocates by `malloc`, which is this library. Built with `panic = "abort"` (profile `preload`), it is
//! not even linked, nor is libgcc's unwinder: a preloaded library is loaded into every process of a tree. Builds that unwind,
//! which tests and lints make, borrow its panic handler only.

#![no_std]
#![cfg(target_os = "linux")]

#[cfg(any(panic = "unwind", not(target_arch = "x86_64")))]
extern crate std;

/// cbindgen:ignore
pub mod c_api;
/// cbindgen:ignore
#[cfg(target_pointer_width = "64")]
pub mod cxx;
mod freed_mark;
/// cbindgen:ignore
pub mod info;
pub mod mh_figures;
pub mod mh_heap;
pub mod mh_local;
pub mod mh_objects;
mod misuse;
mod process;
mod settings;
mod text;
mod thread_pointer;

/// A broken invariant of the heap: says which, and ends the process.
#[cfg(all(panic = "abort", target_arch = "x86_64"))]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    text::say(format_args!("{info}"));
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}
