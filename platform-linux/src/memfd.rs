//! The file in memory behind an arena: opened, sized, mapped and closed again.

use core::ffi::CStr;

use crate::backing::Refusal;
use crate::descriptor::Descriptor;
use crate::errno::{Errno, check, retry};
use crate::limits;

/// How the arena is listed in `/proc/self/maps`.
const NAME: &CStr = c"meshheap";

/// A sparse file of `bytes` zeros, without a place in any file system, and why somebody could make it shorter: none, if nobody
/// can. It lives for as long as it is open or mapped.
pub(crate) fn create(bytes: usize) -> Result<(Descriptor, Option<Refusal>), Refusal> {
    // The kernel answers a larger size with a signal that kills the process.
    if limits::file_bytes().is_some_and(|limit| bytes as u64 > limit) {
        return Err(Errno(libc::EFBIG).by("RLIMIT_FSIZE"));
    }
    let length = libc::off_t::try_from(bytes).map_err(|_| Errno(libc::EFBIG).by("ftruncate"))?;
    let file = open().map_err(|errno| errno.by("memfd_create"))?;
    // SAFETY: takes numbers only.
    retry(|| check(unsafe { libc::ftruncate(file.number(), length) })).map_err(|errno| errno.by("ftruncate"))?;
    let unsealed = seal(&file).err().map(|errno| errno.by("fcntl(F_ADD_SEALS)"));
    Ok((file, unsealed))
}

/// Fixes the file's length: whoever touches a page behind a file's end is killed by SIGBUS, and the page's content is gone.
/// Nothing else is sealed: pages are written to, and given back.
fn seal(file: &Descriptor) -> Result<(), Errno> {
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: takes numbers only.
    check(unsafe { libc::fcntl(file.number(), libc::F_ADD_SEALS, seals) })?;
    Ok(())
}

fn open() -> Result<Descriptor, Errno> {
    // Not inherited by other programs; never executable, which some systems demand (vm.memfd_noexec).
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name ends with a zero.
    let opened = match check(unsafe { libc::memfd_create(NAME.as_ptr(), flags | libc::MFD_NOEXEC_SEAL) }) {
        // Linux before 6.3 does not know the last flag.
        // SAFETY: as above.
        Err(Errno(libc::EINVAL)) => check(unsafe { libc::memfd_create(NAME.as_ptr(), flags) }),
        done => done,
    };
    opened.map(Descriptor::new)
}
