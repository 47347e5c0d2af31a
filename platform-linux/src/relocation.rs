//! Moving private memory by its page tables.

use core::ptr;

use crate::errno::Errno;
use crate::maps::Maps;
use crate::{limits, mapping};

/// What is copied back at a time if a move fails half way.
const COPY_BYTES: usize = 2 << 20;

/// The private addresses from `to` on show what those from `from` on showed, which then read zero. On failure the latter are as they
/// were, and the former are usable and hold anything.
///
/// From Linux 6.17 on the kernel moves several mappings by one call, one after another, and stops where one is refused: those
/// before it have moved then. So they are moved one by one here, and what moved is copied back if a later one is refused, which
/// needs no mapping. Older kernels refuse several at once, before they move anything.
///
/// # Safety
/// Both ranges must be the caller's private memory and not overlap; nobody may use them meanwhile, and nothing may need what
/// `to` shows.
pub(crate) unsafe fn relocate(from: usize, to: usize, bytes: usize) -> Result<(), Errno> {
    // The kernel unmaps the target before it finds a process over its limits, and might then not give the target back.
    if limits::memory_is_limited() {
        return Err(Errno(libc::ENOMEM));
    }
    let maps = Maps::open()?;
    let mut done = 0;
    while done < bytes {
        let moved = maps.bytes_from(from + done, bytes - done).and_then(|piece| {
            // SAFETY: by the caller's contract, of a part of the ranges.
            unsafe { move_mapping(from + done, to + done, piece) }?;
            Ok(piece)
        });
        match moved {
            Ok(piece) => done += piece,
            Err(errno) => {
                // SAFETY: so much has moved, and nobody has used it since.
                unsafe { copy_back(to, from, done) };
                return Err(errno);
            }
        }
    }
    Ok(())
}

/// # Safety
/// As for [`relocate`], within one mapping.
unsafe fn move_mapping(from: usize, to: usize, bytes: usize) -> Result<(), Errno> {
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

/// Copies what moved to `from` back to `to`, where all pages are empty; pages that were never touched stay so.
///
/// # Safety
/// Both ranges must be the caller's private memory, and nobody may use them meanwhile.
unsafe fn copy_back(from: usize, to: usize, bytes: usize) {
    let page = limits::page_bytes();
    for at in (0..bytes).step_by(page) {
        let source: *const u8 = ptr::with_exposed_provenance(from + at);
        // SAFETY: a page of the caller's, to which nobody writes.
        let content = unsafe { core::slice::from_raw_parts(source, page) };
        if content.iter().any(|&byte| byte != 0) {
            // SAFETY: as above; the ranges do not overlap.
            unsafe { source.copy_to_nonoverlapping(ptr::with_exposed_provenance_mut(to + at), page) };
        }
        let end = at + page;
        if end.is_multiple_of(COPY_BYTES) || end == bytes {
            let start = at - at % COPY_BYTES;
            // Refused, as of locked memory, it goes when the pages are used again.
            // SAFETY: it was copied, and is not needed here any more.
            let _ = unsafe { mapping::discard(from + start, end - start) };
        }
    }
}
