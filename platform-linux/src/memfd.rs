//! The file in memory behind an arena.

use core::ffi::{CStr, c_int};

use crate::errno::{Errno, check, retry};
use crate::{descriptor, entropy, limits};

/// How the arena is listed in `/proc/self/maps`.
const NAME: &CStr = c"meshheap";

/// A sparse file without a place in any file system.
#[derive(Debug)]
pub(crate) struct MemFd {
    fd: c_int,
    /// See [`descriptor::mark`]. Never changes.
    mark: libc::off_t,
}

impl MemFd {
    /// A file of `bytes` zeros, none of which takes memory yet.
    pub(crate) fn create(bytes: usize) -> Result<Self, Errno> {
        // The kernel answers a larger size with a signal that kills the process.
        if limits::file_bytes().is_some_and(|limit| bytes as u64 > limit) {
            return Err(Errno(libc::EFBIG));
        }
        let length = offset(bytes)?;
        let mark = random_mark();
        let fd = create(NAME)?;
        // SAFETY: takes numbers only.
        let sized = retry(|| check(unsafe { libc::ftruncate(fd, length) }));
        let ready = sized.and_then(|_| descriptor::mark(fd, mark));
        if ready.is_err() {
            // SAFETY: it was opened just now, and nobody else knows of it.
            unsafe { descriptor::close(fd) };
        }
        ready.map(|()| Self { fd, mark })
    }

    /// The descriptor, if it still stands for this file.
    pub(crate) fn descriptor(&self) -> Result<c_int, Errno> {
        if descriptor::is_marked(self.fd, self.mark) { Ok(self.fd) } else { Err(Errno(libc::EBADF)) }
    }

    /// Gives the memory of `bytes` bytes at `start` back: they read zero from now on.
    ///
    /// # Safety
    /// Nothing may need them.
    pub(crate) unsafe fn punch(&self, start: usize, bytes: usize) -> Result<(), Errno> {
        let fd = self.descriptor()?;
        let (start, length) = (offset(start)?, offset(bytes)?);
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: by the caller's contract nothing needs the bytes; the file was found to be ours.
        retry(|| check(unsafe { libc::fallocate(fd, mode, start, length) }))?;
        Ok(())
    }
}

impl Drop for MemFd {
    fn drop(&mut self) {
        if let Ok(fd) = self.descriptor() {
            // SAFETY: it stands for this file, which is the caller's alone.
            unsafe { descriptor::close(fd) };
        }
    }
}

/// A place in a file, as the kernel takes it.
pub(crate) fn offset(bytes: usize) -> Result<libc::off_t, Errno> {
    libc::off_t::try_from(bytes).map_err(|_| Errno(libc::EFBIG))
}

/// A position far behind the end of any file that people use; two bits fewer than the type has, so that it is a position.
fn random_mark() -> libc::off_t {
    let positions = libc::off_t::MAX >> 1;
    entropy::number() as libc::off_t & positions
}

fn create(name: &CStr) -> Result<c_int, Errno> {
    // Not inherited by other programs; never executable, which some systems demand (vm.memfd_noexec).
    let flags = libc::MFD_CLOEXEC | libc::MFD_NOEXEC_SEAL;
    // SAFETY: the name ends with a zero.
    match check(unsafe { libc::memfd_create(name.as_ptr(), flags) }) {
        // Linux before 6.3 does not know the second flag.
        // SAFETY: as above.
        Err(Errno(libc::EINVAL)) => check(unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) }),
        done => done,
    }
}
