//! What an arena's memory is, and how that is chosen: by trying, in the order of [`Backing`]'s variants.

use meshheap::{PageIndex, PageRun};

use crate::arena::Arena;
use crate::errno::Errno;
use crate::{limits, memfd};

/// What the memory of an arena is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backing {
    /// A file in memory. Its descriptor is closed again as soon as the file is mapped.
    Memfd,
    /// Anonymous memory that is shared: no descriptor at all, and no limit of file sizes. With strict overcommit
    /// (`vm.overcommit_memory` = 2) the system counts all of it when it is reserved.
    SharedAnonymous,
    /// Anonymous memory of the process's own: it cannot be shown twice, so the heap does not mesh.
    Private,
}

/// Why a backing was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The system call, limit or setting that stood in the way.
    pub by: &'static str,
    /// The error number (`errno`).
    pub code: i32,
}

/// What a platform's arena is made of, and why not of what comes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BackingChoice {
    /// What is used.
    pub backing: Backing,
    /// Why no memfd is used; none if it is, or was not tried.
    pub memfd: Option<Refusal>,
    /// Why no anonymous shared memory is used; none if it is, or was not tried.
    pub shared_anonymous: Option<Refusal>,
    /// Why the length of the file behind the arena could not be sealed, known once there is an arena. Whoever cuts such a file short
    /// (by `/proc/self/map_files`) kills the process with SIGBUS. None if it is sealed, and for memory without a file.
    pub unsealed: Option<Refusal>,
}

impl BackingChoice {
    /// The embedder's own: nothing was tried.
    pub(crate) const fn of(backing: Backing) -> Self {
        Self { backing, memfd: None, shared_anonymous: None, unsealed: None }
    }

    /// The first backing that works.
    pub(crate) fn by_trying(page_size: usize) -> Self {
        let mut choice = Self::of(Backing::Memfd);
        choice.memfd = try_memfd(page_size).err();
        if choice.memfd.is_some() {
            choice.backing = Backing::SharedAnonymous;
            choice.shared_anonymous = try_shared_anonymous(page_size).err();
        }
        if choice.shared_anonymous.is_some() {
            choice.backing = Backing::Private;
        }
        choice
    }
}

fn try_memfd(page_size: usize) -> Result<(), Refusal> {
    // A limit that two pages keep to, an arena may not.
    if limits::file_bytes().is_some() {
        return Err(Errno(libc::EFBIG).by("RLIMIT_FSIZE"));
    }
    try_arena(Backing::Memfd, page_size)
}

fn try_shared_anonymous(page_size: usize) -> Result<(), Refusal> {
    // Two pages would be granted, but an arena is mostly address space that is never used.
    if limits::overcommit_is_strict() {
        return Err(Errno(libc::ENOMEM).by("vm.overcommit_memory"));
    }
    try_arena(Backing::SharedAnonymous, page_size)
}

/// Does what a heap will do, with an arena of two pages, which are not touched. That they can be shown twice is known when
/// they are reserved.
fn try_arena(backing: Backing, page_size: usize) -> Result<(), Refusal> {
    let (arena, _) = reserve(backing, 2 * page_size, page_size, page_size)?;
    // Memory that is locked (`mlockall`) cannot be given back.
    // SAFETY: there are no objects.
    unsafe { arena.purge(PageRun::new(PageIndex::new(1), 1)) }.map_err(|errno| errno.by("madvise(MADV_REMOVE)"))
}

/// An arena of shared memory, and why its file could be cut short.
pub(crate) fn reserve(
    backing: Backing,
    bytes: usize,
    align: usize,
    page_size: usize,
) -> Result<(Arena, Option<Refusal>), Refusal> {
    if backing != Backing::Memfd {
        return Arena::reserve(None, bytes, align, page_size).map(|arena| (arena, None));
    }
    let (file, unsealed) = memfd::create(bytes)?;
    Arena::reserve(Some(&file), bytes, align, page_size).map(|arena| (arena, unsealed))
}
