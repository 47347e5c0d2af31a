//! Linux under meshheap. Besides the preloaded library, the only one that names libc; it needs no root, and std only for the
//! thread-local of `MeshHeap` (feature `global`, on by default).
//!
//! The arena is shared memory, shown twice: by the addresses that the heap uses, and by a second view that is never touched and
//! always shows each page as its own. An alias is one `mremap` from a place of that view (with an old size of 0, which shows
//! shared memory again), and an unalias is one from the page's own place. So no descriptor is needed.
//!
//! | [`Platform`](meshheap::Platform) | system call | why this way |
//! |---|---|---|
//! | `reserve(Arena)` | `memfd_create`, `ftruncate`, `fcntl(F_ADD_SEALS)`, `mmap(PROT_NONE)`, `munmap` of what alignment leaves over, `mmap(MAP_SHARED\|MAP_FIXED)`, `mremap`, `close` | only shared memory can be shown twice; a sparse file costs nothing; nobody can cut a sealed one short, which would end in SIGBUS; one mapping, without advice, so that `unalias` merges back into it |
//! | `reserve(Metadata)` | `mmap(MAP_PRIVATE\|MAP_ANONYMOUS\|MAP_NORESERVE)`, `madvise(MADV_NOHUGEPAGE)`, `prctl(PR_SET_VMA)` | cheapest to fault; not counted before it is touched; a table that is touched here and there must not take 2 MiB at each place; named in `/proc/self/maps` |
//! | `release` | `munmap` | the memory goes with its last mapping |
//! | `commit` | none | pages come at the first touch |
//! | `purge` | `madvise(MADV_REMOVE)` of the second view | reaches backing pages that no other address shows |
//! | `alias`, `unalias` | `mremap(MREMAP_MAYMOVE\|MREMAP_FIXED)` from the second view | one step for readers: whoever faults meanwhile waits for the new mapping |
//! | `protect` | `mprotect`; behind a [`WriteBarrier::Userfaultfd`] `ioctl` of a userfaultfd | what happens to writers is up to [`barrier`], in heaps that asked for it, else to the caller |
//! | `now_ns` | `clock_gettime(CLOCK_MONOTONIC)` | never set back; answered without entering the kernel |
//! | `entropy` | `getrandom(GRND_NONBLOCK)` | early at boot it must not wait; the clock stands in |
//! | `yield_now` | `sched_yield` | |
//!
//! # What the memory is
//! [`LinuxPlatform::new`] tries each [`Backing`] with two pages and takes the first that works; [`LinuxPlatform::backing`] tells
//! which, and what refused the others. [`LinuxPlatform::with_backing`] is for those who know better.
//!
//! | backing | is passed over |
//! |---|---|
//! | [`Backing::Memfd`] | without `memfd_create` (sandboxes) or free descriptors; where file sizes are limited (`RLIMIT_FSIZE` counts the arena, and exceeding it kills with SIGXFSZ); like the next |
//! | [`Backing::SharedAnonymous`] | with strict overcommit; where all future memory is locked (`mlockall(MCL_FUTURE)`), so that nothing could be given back; without `mremap` |
//! | [`Backing::Private`] | never; such a heap works like [`PrivatePlatform`]'s, and does not mesh |
//!
//! # Limits of the process
//! * `vm.max_map_count` is told in [`Facts`](meshheap::Facts). At that limit `alias`, `unalias` and `protect` fail and change
//!   nothing; `purge` and `release` still work.
//! * `RLIMIT_AS` counts a [`LinuxPlatform`]'s arena twice, and the alignment twice for a moment: `reserve` fails with ENOMEM, and a
//!   heap takes a smaller arena. [`PrivatePlatform`] and [`HybridPlatform`] take address space in segments of 32 MiB then, as
//!   pages are used; a segment that is refused is out of memory, and asked for again by the next allocation. Under such a limit
//!   an alias makes two calls and needs one mapping more for a moment.
//! * Descriptors: none is kept but the one of a [`WriteBarrier::Userfaultfd`], so a program may close all of them, as daemons do
//!   at their start; with that barrier, `protect` then fails with EBADF, and `Heap::mesh` with it.
//! * After `mlockall(MCL_CURRENT)` a live arena is locked, and `purge` fails with EINVAL.
//! * After `fork` both processes share a [`LinuxPlatform`]'s arena: a heap must not be used on both sides. [`ForkPolicy`] says
//!   what a child has of which memory.
//!
//! Look at memory with [`memory::pss_bytes`]: RSS counts a page once for each address that shows it, so that meshing never
//! shows there.

#![no_std]
#![cfg(target_os = "linux")]

#[cfg(any(test, feature = "global"))]
extern crate std;

mod arena;
mod arena_cell;
mod backing;
pub mod barrier;
mod calls;
mod clock;
mod collapse;
mod descriptor;
mod entropy;
mod errno;
mod fork_policy;
mod futex;
#[cfg(feature = "global")]
mod global;
mod hybrid;
mod limits;
mod mapping;
mod maps;
mod memfd;
pub mod memory;
mod meshing;
mod platform;
mod private;
mod proc_file;
pub mod process;
mod relocation;
mod scheduler;
mod segments;

pub use backing::{Backing, BackingChoice, Refusal};
pub use barrier::{BarrierChoice, WriteBarrier};
pub use collapse::Collapse;
pub use fork_policy::ForkPolicy;
#[cfg(feature = "global")]
pub use global::MeshHeap;
pub use hybrid::HybridPlatform;
pub use meshing::Meshing;
pub use platform::LinuxPlatform;
pub use private::PrivatePlatform;
