//! The file that meshed pages lie in, by two views of it as long as the arena: no descriptor is kept.

use core::ptr::NonNull;

use crate::backing::{Backing, BackingChoice};
use crate::errno::Errno;
use crate::{mapping, memfd};

/// One file's views.
#[derive(Debug)]
pub(super) struct Views {
    /// Aliases are made from here, and pages filled. Shared.
    shared: NonNull<u8>,
    /// What replaces shared pages before a fork is made from here. Private, and never touched.
    private: NonNull<u8>,
    bytes: usize,
}

impl Views {
    /// Of a new file of `bytes` bytes. Refused where a file in memory cannot be shown twice, or not be given back: two pages of
    /// another tell, as the system might fill this one when it is mapped.
    pub(super) fn new(bytes: usize, page_size: usize) -> Result<Self, Errno> {
        let choice = BackingChoice::by_trying(page_size);
        if choice.backing != Backing::Memfd {
            return Err(Errno(choice.memfd.map_or(libc::EOPNOTSUPP, |refusal| refusal.code)));
        }
        let file = memfd::create(bytes).map_err(|refusal| Errno(refusal.code))?;
        let shared = mapping::reserve(bytes, page_size, page_size)?;
        let unmap = |errno| {
            // SAFETY: nobody knows of the view yet.
            unsafe { mapping::unmap(shared, bytes) };
            errno
        };
        // SAFETY: the addresses were reserved just now.
        unsafe { mapping::map_shared(shared, bytes, Some(&file)) }.map_err(unmap)?;
        let private = mapping::map_private_view(bytes, &file).map_err(unmap)?;
        Ok(Self { shared, private, bytes })
    }

    fn at(&self, view: NonNull<u8>, offset: usize, bytes: usize) -> NonNull<u8> {
        debug_assert!(offset + bytes <= self.bytes, "the pages lie in the file");
        // SAFETY: callers pass pages of the arena, which is as long as the view.
        unsafe { view.add(offset) }
    }

    /// Copies what the addresses at `from` show to the file.
    ///
    /// # Safety
    /// Nobody writes to these addresses meanwhile, and nothing needs what the file holds there.
    pub(super) unsafe fn fill(&self, offset: usize, from: NonNull<u8>, bytes: usize) {
        let to = self.at(self.shared, offset, bytes);
        // SAFETY: the view is mapped, and lies apart from the arena; the rest is the caller's contract.
        unsafe { to.copy_from_nonoverlapping(from, bytes) };
    }

    /// The addresses at `to` show the file from `offset` on, readable and writable.
    ///
    /// # Safety
    /// The addresses must be the arena's, and nothing need what they show only there.
    pub(super) unsafe fn show(&self, offset: usize, bytes: usize, to: NonNull<u8>) -> Result<(), Errno> {
        // SAFETY: the view lies apart from the arena; the rest is the caller's contract.
        unsafe { mapping::show_at(self.at(self.shared, offset, bytes), bytes, to) }
    }

    /// The same for a private view: whoever writes there gets a copy for himself.
    ///
    /// # Safety
    /// As for [`Views::show`].
    pub(super) unsafe fn show_private(&self, offset: usize, bytes: usize, to: NonNull<u8>) -> Result<(), Errno> {
        // SAFETY: the view lies apart from the arena and is never touched; the rest is the caller's contract.
        unsafe { mapping::move_untouched(self.at(self.private, offset, bytes), bytes, to) }
    }

    /// Gives back what the file holds.
    ///
    /// # Safety
    /// Nothing may need it, at whatever address it is shown.
    pub(super) unsafe fn remove(&self, offset: usize, bytes: usize) -> Result<(), Errno> {
        // SAFETY: by the caller's contract.
        unsafe { mapping::remove(self.at(self.shared, offset, bytes), bytes) }
    }
}

impl Drop for Views {
    fn drop(&mut self) {
        for view in [self.shared, self.private] {
            // SAFETY: the views are this value's own. What shows the file elsewhere keeps it.
            unsafe { mapping::unmap(view, self.bytes) };
        }
    }
}
