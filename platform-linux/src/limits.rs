//! What the system allows this process.

use core::mem::MaybeUninit;

use crate::errno::check;
use crate::proc_file::{ProcFile, number_at_start};

/// Bytes of a page.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: takes a number only.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).expect("Linux always tells its page size")
}

/// Mappings that the process may have: one more makes the kernel refuse every change of mappings.
pub(crate) fn mappings() -> Option<usize> {
    let mut buffer = [0; 32];
    let text = ProcFile::open(c"/proc/sys/vm/max_map_count")?.read_up_to(&mut buffer)?;
    number_at_start(text)
}

/// The size beyond which no file may grow, if there is such a limit.
pub(crate) fn file_bytes() -> Option<u64> {
    let mut limit = MaybeUninit::<libc::rlimit>::uninit();
    // SAFETY: the kernel writes into `limit`, which is large enough, or fails.
    check(unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, limit.as_mut_ptr()) }).ok()?;
    // SAFETY: the call succeeded, so that the kernel filled it in.
    let limit = unsafe { limit.assume_init() }.rlim_cur;
    #[allow(clippy::useless_conversion, reason = "rlim_t has 32 bits on 32-bit systems")]
    (limit != libc::RLIM_INFINITY).then_some(limit.into())
}
