//! Linux under meshheap. Besides the preloaded library, the only one that names libc; it needs no root, and std only for the
//! thread-local of `MeshHeap` (feature `global`, on by default).
//!
//! The arena is a file in memory (a memfd) that is mapped shared, page for page: the backing page of index `p` is the page
//! of the file at offset `p * page_size`. That makes an alias one `mmap` of another offset.
//!
//! | [`Platform`](meshheap::Platform) | system call | why this way |
//! |---|---|---|
//! | `reserve(Arena)` | `memfd_create`, `ftruncate`, `mmap(PROT_NONE)`, `munmap` of what alignment leaves over, `mmap(MAP_SHARED\|MAP_FIXED)` | only shared memory can be shown twice; a sparse file costs nothing; one mapping, without advice, so that `unalias` merges back into it |
//! | `reserve(Metadata)` | `mmap(MAP_PRIVATE\|MAP_ANONYMOUS\|MAP_NORESERVE)`, `madvise(MADV_NOHUGEPAGE)`, `prctl(PR_SET_VMA)` | cheapest to fault; not counted before it is touched; a table that is touched here and there must not take 2 MiB at each place; named in `/proc/self/maps` |
//! | `release` | `munmap`, `close` | the file goes with its last mapping and descriptor |
//! | `commit` | none | pages come at the first touch |
//! | `purge` | `fallocate(PUNCH_HOLE\|KEEP_SIZE)` | by offset, so that it reaches backing pages no address shows; 15 % cheaper than `MADV_REMOVE` (Linux 6.18, 2026-11) |
//! | `alias`, `unalias` | `mmap(MAP_SHARED\|MAP_FIXED)` of the other, or its own, offset | one step for readers: whoever faults meanwhile waits for the new mapping |
//! | `protect` | `mprotect` | what happens to writers is up to [`barrier`], in heaps that asked for it, else to the caller |
//! | `now_ns` | `clock_gettime(CLOCK_MONOTONIC)` | never set back; answered without entering the kernel |
//! | `entropy` | `getrandom(GRND_NONBLOCK)` | early at boot it must not wait; the clock stands in |
//! | `yield_now` | `sched_yield` | |
//!
//! # Limits of the process
//! * `vm.max_map_count` is told in [`Facts`](meshheap::Facts). At that limit `alias`, `unalias` and `protect` fail and change
//!   nothing; `purge` and `release` still work.
//! * `RLIMIT_FSIZE` counts the arena. `ftruncate` beyond it would kill the process with SIGXFSZ: `reserve` fails with EFBIG.
//! * `RLIMIT_AS` counts the arena in full, and twice the alignment for a moment: `reserve` fails with ENOMEM.
//! * A program that closes descriptors it did not open (a daemon at its start) takes the file away. Each call first makes sure
//!   that the descriptor is still the arena's, so that nobody else's file is ever punched or mapped: it fails with EBADF.
//! * After `fork` both processes share the arena's memory: a heap must not be used on both sides.
//!
//! Look at memory with [`memory::pss_bytes`]: RSS counts a page once for each address that shows it, so that meshing never
//! shows there.

#![no_std]
#![cfg(target_os = "linux")]

#[cfg(any(test, feature = "global"))]
extern crate std;

mod arena;
pub mod barrier;
mod clock;
mod descriptor;
mod entropy;
mod errno;
mod futex;
#[cfg(feature = "global")]
mod global;
mod limits;
mod mapping;
mod memfd;
pub mod memory;
mod platform;
mod private;
mod proc_file;
pub mod process;
mod scheduler;

#[cfg(feature = "global")]
pub use global::MeshHeap;
pub use platform::LinuxPlatform;
pub use private::PrivatePlatform;
