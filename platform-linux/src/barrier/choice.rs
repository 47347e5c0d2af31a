//! Which barrier an arena gets, and how that is chosen: by trying.

use super::handler;
use super::userfaultfd::Userfaultfd;
use crate::backing::Refusal;
use crate::errno::Errno;

/// How writers are made to wait for a page that is being meshed. See [`crate::barrier`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteBarrier {
    /// Not at all: the heap meshes at safepoints only.
    None,
    /// In the kernel, by userfaultfd's write protection: system calls wait, too. Needs Linux 6.4, and CAP_SYS_PTRACE, access to
    /// `/dev/userfaultfd` or `vm.unprivileged_userfaultfd` = 1.
    Userfaultfd,
    /// In a handler of SIGSEGV, by page protection: system calls into the page fail with EFAULT.
    PageProtection,
}

/// The barrier that a platform has, and why not a better one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BarrierChoice {
    /// What is used.
    pub barrier: WriteBarrier,
    /// Why no userfaultfd is used; none if it is, or was not tried.
    pub userfaultfd: Option<Refusal>,
    /// Why no page protection is used; none if it is, or was not tried.
    pub page_protection: Option<Refusal>,
}

impl BarrierChoice {
    /// No barrier was asked for.
    pub(crate) const NONE: Self = Self { barrier: WriteBarrier::None, userfaultfd: None, page_protection: None };

    /// None, for memory that cannot be meshed.
    pub(crate) fn none_for_private_memory() -> Self {
        let refusal = Some(Errno(libc::EOPNOTSUPP).by("private memory"));
        Self { barrier: WriteBarrier::None, userfaultfd: refusal, page_protection: refusal }
    }

    /// This barrier, or none if the system refuses it.
    pub(crate) fn of(barrier: WriteBarrier) -> Self {
        match barrier {
            WriteBarrier::None => Self::NONE,
            WriteBarrier::Userfaultfd => {
                let refusal = try_userfaultfd().err();
                Self { userfaultfd: refusal, ..Self::NONE }.with(barrier, refusal)
            }
            WriteBarrier::PageProtection => {
                let refusal = try_page_protection().err();
                Self { page_protection: refusal, ..Self::NONE }.with(barrier, refusal)
            }
        }
    }

    /// The first that works.
    pub(crate) fn by_trying() -> Self {
        let first = Self::of(WriteBarrier::Userfaultfd);
        if first.barrier == WriteBarrier::Userfaultfd {
            return first;
        }
        Self { userfaultfd: first.userfaultfd, ..Self::of(WriteBarrier::PageProtection) }
    }

    fn with(self, barrier: WriteBarrier, refusal: Option<Refusal>) -> Self {
        if refusal.is_none() { Self { barrier, ..self } } else { self }
    }
}

fn try_userfaultfd() -> Result<(), Refusal> {
    Userfaultfd::open().map(drop)
}

fn try_page_protection() -> Result<(), Refusal> {
    handler::install().map_err(|errno| errno.by("sigaction"))
}
