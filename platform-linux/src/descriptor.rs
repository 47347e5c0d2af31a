//! File descriptors: knowing one's own again, and closing it.

use core::ffi::c_int;

use crate::errno::{Errno, check_offset};

/// Makes the file that `fd` stands for known by `mark`, its position for reads, which a mapped file has no other use for.
///
/// Any other part of the program may close the descriptor and reuse its number. Nobody else's file is at a position of 62
/// random bits, and asking for the position is the cheapest question there is about a descriptor: 150 ns of CPU, where
/// `fstat` for the inode takes 400 (Linux 6.18, 2-core VM, 2026-11), beside 2000 for a purge.
pub(crate) fn mark(fd: c_int, mark: libc::off_t) -> Result<(), Errno> {
    // SAFETY: takes numbers only.
    check_offset(unsafe { libc::lseek(fd, mark, libc::SEEK_SET) })?;
    Ok(())
}

/// Whether `fd` stands for the file that was marked so.
pub(crate) fn is_marked(fd: c_int, mark: libc::off_t) -> bool {
    // SAFETY: takes numbers only.
    check_offset(unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) }) == Ok(mark)
}

/// Closes `fd`.
///
/// # Safety
/// The descriptor must be the caller's, and not be used any more.
pub(crate) unsafe fn close(fd: c_int) {
    // SAFETY: by the caller's contract. Nothing was written, so that there is no error to report; Linux closes the descriptor
    // even if a signal interrupts the call.
    unsafe { libc::close(fd) };
}
