//! Moving private memory by its page tables.

use core::ptr;

use crate::errno::Errno;
use crate::mapping;

/// The private addresses from `to` on show what those from `from` on showed, which then read zero.
///
/// # Safety
/// Both ranges must be the caller's private memory and not overlap; nobody may use them meanwhile, and nothing may need what
/// `to` shows.
pub(crate) unsafe fn relocate(from: usize, to: usize, bytes: usize) -> Result<(), Errno> {
    let source = ptr::with_exposed_provenance_mut(from);
    let target: *mut libc::c_void = ptr::with_exposed_provenance_mut(to);
    // DONTUNMAP leaves the old addresses mapped, and empty.
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;
    // SAFETY: by the caller's contract both ranges are ours.
    if unsafe { libc::mremap(source, bytes, bytes, flags, target) } == target {
        return Ok(());
    }
    let errno = Errno::last();
    // The kernel looks at its limit of mappings first, with room to spare, but it may have unmapped the target before it failed:
    // what follows finds a gap to fill.
    // SAFETY: by the caller's contract nothing needs what the target shows.
    unsafe { mapping::map_private(to, bytes) }?;
    Err(errno)
}
