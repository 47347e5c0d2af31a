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

/// What Linux allows a process, unless somebody changed it.
const USUAL_MAPPINGS: usize = 65_530;

/// Mappings that the process may have: one more makes the kernel refuse every change of mappings. There is always such a limit,
/// also where it cannot be read for lack of `/proc` or of a descriptor.
pub(crate) fn mappings() -> usize {
    let mut buffer = [0; 32];
    let file = ProcFile::open(c"/proc/sys/vm/max_map_count");
    file.and_then(|file| number_at_start(file.read_up_to(&mut buffer)?)).unwrap_or(USUAL_MAPPINGS)
}

/// Whether the system counts all memory that might be written to, in full and when it is reserved. No, where it does not tell.
pub(crate) fn overcommit_is_strict() -> bool {
    let mut buffer = [0; 8];
    let file = ProcFile::open(c"/proc/sys/vm/overcommit_memory");
    file.and_then(|file| number_at_start(file.read_up_to(&mut buffer)?)) == Some(2)
}

/// The size beyond which no file may grow, if there is such a limit.
pub(crate) fn file_bytes() -> Option<u64> {
    soft_limit(libc::RLIMIT_FSIZE)
}

/// Whether the process's address space has a limit.
pub(crate) fn address_space_is_limited() -> bool {
    soft_limit(libc::RLIMIT_AS).is_some()
}

/// Whether the process's memory is limited by what it has mapped: then a call may be refused that maps no more than before.
pub(crate) fn memory_is_limited() -> bool {
    address_space_is_limited() || soft_limit(libc::RLIMIT_DATA).is_some() || overcommit_is_strict()
}

/// The name of a limit: the C libraries disagree.
#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

fn soft_limit(resource: Resource) -> Option<u64> {
    let mut limit = MaybeUninit::<libc::rlimit>::uninit();
    // SAFETY: the kernel writes into `limit`, which is large enough, or fails.
    check(unsafe { libc::getrlimit(resource, limit.as_mut_ptr()) }).ok()?;
    // SAFETY: the call succeeded, so that the kernel filled it in.
    let limit = unsafe { limit.assume_init() }.rlim_cur;
    #[allow(clippy::useless_conversion, reason = "rlim_t has 32 bits on 32-bit systems")]
    (limit != libc::RLIM_INFINITY).then_some(limit.into())
}
