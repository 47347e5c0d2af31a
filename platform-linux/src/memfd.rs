//! The file in memory behind an arena: opened, sized, mapped and closed again.

use core::ffi::CStr;

use crate::backing::Refusal;
use crate::descriptor::Descriptor;
use crate::errno::{Errno, check, retry};
use crate::limits;

/// How the arena is listed in `/proc/self/maps`.
const NAME: &CStr = c"meshheap";

/// A sparse file of `bytes` zeros, without a place in any file system. It lives for as long as it is open or mapped.
pub(crate) fn create(bytes: usize) -> Result<Descriptor, Refusal> {
    // The kernel answers a larger size with a signal that kills the process.
    if limits::file_bytes().is_some_and(|limit| bytes as u64 > limit) {
        return Err(Errno(libc::EFBIG).by("RLIMIT_FSIZE"));
    }
    let length = libc::off_t::try_from(bytes).map_err(|_| Errno(libc::EFBIG).by("ftruncate"))?;
    let file = open().map_err(|errno| errno.by("memfd_create"))?;
    // SAFETY: takes numbers only.
    retry(|| check(unsafe { libc::ftruncate(file.number(), length) })).map_err(|errno| errno.by("ftruncate"))?;
    Ok(file)
}

fn open() -> Result<Descriptor, Errno> {
    // Not inherited by other programs; never executable, which some systems demand (vm.memfd_noexec).
    let flags = libc::MFD_CLOEXEC | libc::MFD_NOEXEC_SEAL;
    // SAFETY: the name ends with a zero.
    let opened = match check(unsafe { libc::memfd_create(NAME.as_ptr(), flags) }) {
        // Linux before 6.3 does not know the second flag.
        // SAFETY: as above.
        Err(Errno(libc::EINVAL)) => check(unsafe { libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC) }),
        done => done,
    };
    opened.map(Descriptor::new)
}
