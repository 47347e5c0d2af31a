//! The file that meshed pages lie in, by two views of it as long as the arena: no descriptor is kept.

use core::ptr::NonNull;

use crate::backing::{Backing, BackingChoice, Refusal};
use crate::errno::Errno;
use crate::fork_policy::Forks;
use crate::{limits, mapping, memfd};

/// Views grow by this much at the least. They are no longer than what is used: memory that is locked (`mlockall`) is filled, and
/// address space may be limited.
const REACH_BYTES: usize = 16 << 20;

/// One file's views.
#[derive(Debug)]
pub(super) struct Views {
    /// Aliases are made from here, and pages filled. Shared.
    shared: View,
    /// What replaces shared pages before a fork is made from here. Private, and never touched; until then it cannot be, as who
    /// locks all of a process's memory (`mlockall`) would fill it.
    private: View,
    /// The file's length.
    bytes: usize,
    unsealed: Option<Refusal>,
}

/// One of them, of the file's first `bytes` bytes.
#[derive(Debug)]
struct View {
    start: NonNull<u8>,
    bytes: usize,
}

impl View {
    fn reach(&mut self, bytes: usize) -> Result<(), Errno> {
        if bytes > self.bytes {
            // SAFETY: the addresses are this view's own. A private view was never touched, and a shared one is the file's.
            self.start = unsafe { mapping::grow(self.start, self.bytes, bytes) }?;
            self.bytes = bytes;
        }
        Ok(())
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: the addresses are this view's own. What shows the file elsewhere keeps it.
        unsafe { mapping::unmap(self.start, self.bytes) };
    }
}

impl Views {
    /// Of a new file of `bytes` bytes, its first `first` bytes. Refused where a file in memory cannot be shown twice, or not be
    /// given back: two pages of another tell, as the system might fill this one when it is mapped.
    pub(super) fn new(bytes: usize, first: usize, page_size: usize, forks: &Forks) -> Result<Self, Errno> {
        let choice = BackingChoice::by_trying(page_size);
        if choice.backing != Backing::Memfd {
            return Err(Errno(choice.memfd.map_or(libc::EOPNOTSUPP, |refusal| refusal.code)));
        }
        let (file, unsealed) = memfd::create(bytes).map_err(|refusal| Errno(refusal.code))?;
        let shared = View { start: mapping::reserve(first, page_size, page_size)?, bytes: first };
        // SAFETY: the addresses were reserved just now.
        unsafe { mapping::map_shared(shared.start, first, Some(&file)) }?;
        // What the file holds is shown in the arena, too.
        // SAFETY: as above.
        unsafe { mapping::dump(shared.start, first, false) };
        let private = View { start: mapping::map_private_view(first, &file)?, bytes: first };
        for view in [&shared, &private] {
            // SAFETY: the addresses are the views'.
            unsafe { forks.leave_out(view.start.addr().get(), first) }?;
        }
        Ok(Self { shared, private, bytes, unsealed })
    }

    pub(super) const fn unsealed(&self) -> Option<Refusal> {
        self.unsealed
    }

    /// Both show the file's first `bytes` bytes, at the least. They may move.
    pub(super) fn reach(&mut self, bytes: usize) -> Result<(), Errno> {
        if bytes <= self.shared.bytes.min(self.private.bytes) {
            return Ok(());
        }
        let more = bytes.next_multiple_of(REACH_BYTES).min(self.bytes);
        for view in [&mut self.shared, &mut self.private] {
            // Where that much is not to be had, what is needed may be.
            view.reach(more).or_else(|_| view.reach(bytes))?;
        }
        Ok(())
    }

    fn at(view: &View, offset: usize, bytes: usize) -> NonNull<u8> {
        debug_assert!(offset + bytes <= view.bytes, "the pages lie in the view");
        // SAFETY: callers pass pages that `reach` was called for, or that are shown already.
        unsafe { view.start.add(offset) }
    }

    /// Copies what the addresses at `from` show to the file.
    ///
    /// # Safety
    /// Nobody writes to these addresses meanwhile, and nothing needs what the file holds there.
    pub(super) unsafe fn fill(&self, offset: usize, from: NonNull<u8>, bytes: usize) {
        let to = Self::at(&self.shared, offset, bytes);
        // SAFETY: the view is mapped, and lies apart from the arena; the rest is the caller's contract.
        unsafe { to.copy_from_nonoverlapping(from, bytes) };
    }

    /// The addresses at `to` show the file from `offset` on, readable and writable.
    ///
    /// # Safety
    /// The addresses must be the arena's, and nothing need what they show only there.
    pub(super) unsafe fn show(&self, offset: usize, bytes: usize, to: NonNull<u8>) -> Result<(), Errno> {
        // SAFETY: the view lies apart from the arena; the rest is the caller's contract.
        unsafe { mapping::show_at(Self::at(&self.shared, offset, bytes), bytes, to) }?;
        // Unlike the view.
        // SAFETY: as above.
        unsafe { mapping::dump(to, bytes, true) };
        Ok(())
    }

    /// What is shown from the private view can be read and written from now on. Returns whether the process's memory is limited.
    pub(super) fn open_private(&self) -> Result<bool, Errno> {
        // SAFETY: the addresses are the view's own.
        unsafe { mapping::open_private_view(self.private.start, self.private.bytes) }?;
        Ok(limits::memory_is_limited())
    }

    /// The same for a private view, after `open_private`, which said whether memory is limited: whoever writes there gets a copy
    /// for himself.
    ///
    /// # Safety
    /// As for [`Views::show`].
    pub(super) unsafe fn show_private(
        &self,
        offset: usize,
        bytes: usize,
        to: NonNull<u8>,
        is_limited: bool,
    ) -> Result<(), Errno> {
        // SAFETY: the view lies apart from the arena and is never touched; the rest is the caller's contract.
        unsafe { mapping::move_untouched(Self::at(&self.private, offset, bytes), bytes, to, is_limited) }
    }

    /// Gives back what the file holds.
    ///
    /// # Safety
    /// Nothing may need it, at whatever address it is shown.
    pub(super) unsafe fn remove(&self, offset: usize, bytes: usize) -> Result<(), Errno> {
        // SAFETY: by the caller's contract.
        unsafe { mapping::remove(Self::at(&self.shared, offset, bytes), bytes) }
    }
}
