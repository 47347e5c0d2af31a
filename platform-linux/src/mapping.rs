//! What addresses show: mmap and its relatives.

use core::ffi::{CStr, c_int, c_ulong};
use core::ptr::{self, NonNull};

use meshheap::Access;

use crate::descriptor::Descriptor;
use crate::errno::{Errno, check, retry};
use crate::limits;

/// How metadata is listed in `/proc/self/maps`.
const METADATA_NAME: &CStr = c"meshheap metadata";

/// How an arena without a file is listed there.
const ARENA_NAME: &CStr = c"meshheap";

const READ_WRITE: c_int = libc::PROT_READ | libc::PROT_WRITE;

/// Sets `bytes` bytes of address space aside, at a multiple of `align`. They cannot be accessed yet.
pub(crate) fn reserve(bytes: usize, align: usize, page_size: usize) -> Result<NonNull<u8>, Errno> {
    // The kernel aligns to pages: with this much more there is an aligned address in it.
    let padding = align.saturating_sub(page_size);
    let whole = bytes.checked_add(padding).ok_or(Errno(libc::ENOMEM))?;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: without MAP_FIXED the kernel picks addresses that nobody uses.
    let start = unsafe { map(ptr::null_mut(), whole, libc::PROT_NONE, flags, -1, 0) }?;
    let head = start.as_ptr().align_offset(align);
    // SAFETY: at most `padding` bytes on.
    let base = unsafe { start.add(head) };
    // SAFETY: the reservation is `bytes` and `padding` long, of which `head` lie before the base.
    let end = unsafe { base.add(bytes) };
    // SAFETY: what alignment leaves over was reserved just now. It is an end of a mapping, which the kernel cuts off even at
    // the limit of mappings.
    unsafe { unmap(start, head) };
    // SAFETY: as above.
    unsafe { unmap(end, padding - head) };
    Ok(base)
}

/// Sets these addresses aside, if nobody uses them.
pub(crate) fn reserve_here(at: usize, bytes: usize) -> Result<NonNull<u8>, Errno> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: the kernel replaces nothing with this flag; one that does not know it (before 4.17) picks other addresses then.
    let start = unsafe { map(ptr::with_exposed_provenance_mut(at), bytes, libc::PROT_NONE, flags, -1, 0) }?;
    if start.addr().get() != at {
        // SAFETY: reserved just now.
        unsafe { unmap(start, bytes) };
        return Err(Errno(libc::EEXIST));
    }
    Ok(start)
}

/// Whether a page of addresses is in use.
pub(crate) fn is_mapped(at: usize, page_size: usize) -> bool {
    let mut state = 0;
    // SAFETY: the kernel writes a byte a page, and reads nothing.
    let looked = unsafe { libc::mincore(ptr::with_exposed_provenance_mut(at), page_size, &raw mut state) };
    check(looked) != Err(Errno(libc::ENOMEM))
}

/// Whether each of at most `N` pages is in memory.
pub(crate) fn are_all_resident<const N: usize>(at: usize, bytes: usize, page_size: usize) -> bool {
    let mut states = [0; N];
    let pages = bytes / page_size;
    if pages > N {
        return false;
    }
    // SAFETY: the kernel writes a byte a page, for which there is room, and reads nothing.
    let looked = unsafe { libc::mincore(ptr::with_exposed_provenance_mut(at), bytes, states.as_mut_ptr()) };
    looked == 0 && states[..pages].iter().all(|state| state & 1 != 0)
}

/// Makes an untouched or shared mapping longer, where there is room: its own end, or other addresses.
///
/// # Safety
/// The addresses must be the caller's, who uses only those that are returned from now on.
pub(crate) unsafe fn grow(at: NonNull<u8>, bytes: usize, new_bytes: usize) -> Result<NonNull<u8>, Errno> {
    // SAFETY: by the caller's contract.
    let grown = unsafe { libc::mremap(at.as_ptr().cast(), bytes, new_bytes, libc::MREMAP_MAYMOVE) };
    if grown == libc::MAP_FAILED { Err(Errno::last()) } else { NonNull::new(grown.cast()).ok_or(Errno(libc::ENOMEM)) }
}

/// The page reads zero in children of this process.
///
/// # Safety
/// The addresses must be the caller's private memory.
pub(crate) unsafe fn wipe_in_child(at: NonNull<u8>, bytes: usize) -> Result<(), Errno> {
    // SAFETY: changes no content here.
    check(unsafe { libc::madvise(at.as_ptr().cast(), bytes, libc::MADV_WIPEONFORK) })?;
    Ok(())
}

/// Children of this process do not have the addresses.
///
/// # Safety
/// The addresses must be the caller's.
pub(crate) unsafe fn leave_out_of_forks(at: usize, bytes: usize) -> Result<(), Errno> {
    // SAFETY: changes no content here.
    check(unsafe { libc::madvise(ptr::with_exposed_provenance_mut(at), bytes, libc::MADV_DONTFORK) })?;
    Ok(())
}

/// Leaves the addresses out of core dumps, or takes them in again: a dump of shared memory is of its whole length, and fills all
/// that was never touched. A refusal costs the dump's size, or the pages in it.
///
/// # Safety
/// The addresses must be the caller's.
pub(crate) unsafe fn dump(at: NonNull<u8>, bytes: usize, is_dumped: bool) {
    let advice = if is_dumped { libc::MADV_DODUMP } else { libc::MADV_DONTDUMP };
    // SAFETY: changes no content.
    unsafe { libc::madvise(at.as_ptr().cast(), bytes, advice) };
}

/// Moves what the addresses show into huge pages, at once (Linux 6.1).
///
/// # Safety
/// The addresses must be the caller's.
pub(crate) unsafe fn collapse(at: usize, bytes: usize) -> Result<(), Errno> {
    // SAFETY: changes no content.
    check(unsafe { libc::madvise(ptr::with_exposed_provenance_mut(at), bytes, libc::MADV_COLLAPSE) })?;
    Ok(())
}

/// The addresses show memory that other addresses can show, too: the file's, or without one new memory that reads zero.
///
/// # Safety
/// The addresses must be reserved by the caller, and nothing may need what they show only there.
pub(crate) unsafe fn map_shared(at: NonNull<u8>, bytes: usize, file: Option<&Descriptor>) -> Result<(), Errno> {
    let shared = libc::MAP_SHARED | libc::MAP_FIXED;
    let (flags, fd) = match file {
        Some(file) => (shared, file.number()),
        None => (shared | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1),
    };
    // SAFETY: by the caller's contract the addresses are ours to replace.
    unsafe { map(at.as_ptr(), bytes, READ_WRITE, flags, fd, 0) }?;
    if file.is_none() {
        name(at, bytes, ARENA_NAME);
    }
    Ok(())
}

/// New addresses show the shared memory that those at `from` show.
///
/// # Safety
/// `from` must be the caller's.
pub(crate) unsafe fn show_at_new(from: NonNull<u8>, bytes: usize) -> Result<NonNull<u8>, Errno> {
    // An old length of 0 leaves the old addresses as they are, which works for shared memory only.
    // SAFETY: without MREMAP_FIXED the kernel picks addresses that nobody uses.
    let at = unsafe { libc::mremap(from.as_ptr().cast(), 0, bytes, libc::MREMAP_MAYMOVE) };
    if at == libc::MAP_FAILED { Err(Errno::last()) } else { NonNull::new(at.cast()).ok_or(Errno(libc::ENOMEM)) }
}

/// The addresses at `to` show the shared memory that those at `from` show, readable and writable like these, in place of what
/// they showed.
///
/// # Safety
/// As for [`map_shared`]; `from` must be the caller's, and lie outside of what is replaced.
pub(crate) unsafe fn show_at(from: NonNull<u8>, bytes: usize, to: NonNull<u8>) -> Result<(), Errno> {
    if !limits::address_space_is_limited() {
        // SAFETY: by the caller's contract.
        return unsafe { move_to(from, 0, bytes, to) };
    }
    // Before Linux 6.17 the kernel unmaps the old before it finds a process over its limit, which leaves a hole. A move adds
    // nothing, and is not checked.
    // SAFETY: by the caller's contract.
    let copy = unsafe { show_at_new(from, bytes) }?;
    // SAFETY: by the caller's contract; the copy is ours.
    let moved = unsafe { move_to(copy, bytes, bytes, to) };
    if moved.is_err() {
        // SAFETY: nobody knows of it.
        unsafe { unmap(copy, bytes) };
    }
    moved
}

/// # Safety
/// As for [`show_at`].
unsafe fn move_to(from: NonNull<u8>, old_bytes: usize, bytes: usize, to: NonNull<u8>) -> Result<(), Errno> {
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: by the caller's contract.
    let at = unsafe { libc::mremap(from.as_ptr().cast(), old_bytes, bytes, flags, to.as_ptr()) };
    if at == libc::MAP_FAILED { Err(Errno::last()) } else { Ok(()) }
}

/// New addresses show the file; what is written there is the process's own. They cannot be accessed yet.
pub(crate) fn map_private_view(bytes: usize, file: &Descriptor) -> Result<NonNull<u8>, Errno> {
    let flags = libc::MAP_PRIVATE | libc::MAP_NORESERVE;
    // SAFETY: without MAP_FIXED the kernel picks addresses that nobody uses.
    unsafe { map(ptr::null_mut(), bytes, libc::PROT_NONE, flags, file.number(), 0) }
}

/// Makes a view of [`map_private_view`] accessible, without filling it if all memory was locked meanwhile.
///
/// # Safety
/// The addresses must be the caller's.
pub(crate) unsafe fn open_private_view(at: NonNull<u8>, bytes: usize) -> Result<(), Errno> {
    // SAFETY: nothing in it is used, so that nothing has to stay in memory.
    check(unsafe { libc::munlock(at.as_ptr().cast(), bytes) })?;
    // SAFETY: by the caller's contract.
    check(unsafe { libc::mprotect(at.as_ptr().cast(), bytes, READ_WRITE) })?;
    Ok(())
}

/// The addresses at `to` show what those at `from` would show if they were touched, in a mapping of the same kind; `from` stays
/// as it is. Linux 5.13. `is_limited`: whether the process's memory is ([`limits::memory_is_limited`]).
///
/// # Safety
/// As for [`show_at`]; nobody must ever have touched `from`.
pub(crate) unsafe fn move_untouched(
    from: NonNull<u8>,
    bytes: usize,
    to: NonNull<u8>,
    is_limited: bool,
) -> Result<(), Errno> {
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_DONTUNMAP;
    // Where the kernel may find the process over a limit it does so after it unmapped the old, which leaves a hole; so the new is
    // made elsewhere first. A move adds nothing, and is not checked.
    let (flags, place) = if is_limited { (flags, ptr::null_mut()) } else { (flags | libc::MREMAP_FIXED, to.as_ptr()) };
    // SAFETY: by the caller's contract; there are no pages to move. Without MREMAP_FIXED the kernel picks addresses that nobody uses.
    let at = unsafe { libc::mremap(from.as_ptr().cast(), bytes, bytes, flags, place) };
    if at == libc::MAP_FAILED {
        return Err(Errno::last());
    }
    if !is_limited {
        return Ok(());
    }
    let copy = NonNull::new(at.cast()).ok_or(Errno(libc::ENOMEM))?;
    // SAFETY: by the caller's contract; the copy is ours.
    let moved = unsafe { move_to(copy, bytes, bytes, to) };
    if moved.is_err() {
        // SAFETY: nobody knows of it.
        unsafe { unmap(copy, bytes) };
    }
    moved
}

/// Gives the memory that the addresses show back: it reads zero, at whatever address it is shown.
///
/// # Safety
/// The addresses must be the caller's and show shared memory; nothing may need its content.
pub(crate) unsafe fn remove(at: NonNull<u8>, bytes: usize) -> Result<(), Errno> {
    // SAFETY: by the caller's contract.
    retry(|| check(unsafe { libc::madvise(at.as_ptr().cast(), bytes, libc::MADV_REMOVE) }))?;
    Ok(())
}

/// The addresses show zeros of their own, in small pages.
///
/// # Safety
/// As for [`map_shared`].
pub(crate) unsafe fn map_metadata(at: NonNull<u8>, bytes: usize) -> Result<(), Errno> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: by the caller's contract the addresses are ours to replace.
    unsafe { map(at.as_ptr(), bytes, READ_WRITE, flags, -1, 0) }?;
    // Only makes things nicer; a kernel built without it refuses.
    // SAFETY: changes no content.
    unsafe { libc::madvise(at.as_ptr().cast(), bytes, libc::MADV_NOHUGEPAGE) };
    name(at, bytes, METADATA_NAME);
    Ok(())
}

/// Names anonymous memory for those who read `/proc/self/maps`. A kernel built without it refuses.
fn name(at: NonNull<u8>, bytes: usize, name: &CStr) {
    let (start, length) = (at.addr().get() as c_ulong, bytes as c_ulong);
    let attribute = libc::PR_SET_VMA_ANON_NAME as c_ulong;
    // SAFETY: changes no content; the name ends with a zero, and the kernel copies it.
    unsafe { libc::prctl(libc::PR_SET_VMA, attribute, start, length, name.as_ptr()) };
}

/// New addresses for metadata.
pub(crate) fn map_metadata_at_new(bytes: usize, align: usize, page_size: usize) -> Result<NonNull<u8>, Errno> {
    let base = reserve(bytes, align, page_size)?;
    // SAFETY: the addresses were reserved just now.
    let mapped = unsafe { map_metadata(base, bytes) };
    if mapped.is_err() {
        // SAFETY: nobody knows of them yet.
        unsafe { unmap(base, bytes) };
    }
    mapped.map(|()| base)
}

/// Reserved addresses show zeros of their own.
///
/// # Safety
/// They must be the caller's, and nothing may need what they show.
pub(crate) unsafe fn map_private(start: usize, bytes: usize) -> Result<(), Errno> {
    let start = ptr::with_exposed_provenance_mut(start);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: by the caller's contract the addresses are ours to replace.
    unsafe { map(start, bytes, READ_WRITE, flags, -1, 0) }?;
    Ok(())
}

/// The same, in small pages: private memory among such.
///
/// # Safety
/// As for [`map_private`].
pub(crate) unsafe fn map_private_small(start: usize, bytes: usize) -> Result<(), Errno> {
    // SAFETY: by the caller's contract.
    unsafe { map_private(start, bytes) }?;
    // SAFETY: as above.
    unsafe { advise_small(start, bytes) };
    Ok(())
}

/// Forbids huge pages; the kernel may not have any.
///
/// # Safety
/// The addresses must be the caller's.
pub(crate) unsafe fn advise_small(start: usize, bytes: usize) {
    let start = ptr::with_exposed_provenance_mut(start);
    // SAFETY: changes no content.
    unsafe { libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE) };
}

/// Splits the huge page that the addresses, a part of it, lie in, if they do: what is unmapped of it goes back to the system then,
/// not when that runs out of memory. (The kernel, asked to note that a part is seldom used, splits the whole.)
///
/// # Safety
/// The addresses must be the caller's.
pub(crate) unsafe fn split_huge(start: usize, bytes: usize) {
    let start = ptr::with_exposed_provenance_mut(start);
    // SAFETY: changes no content.
    unsafe { libc::madvise(start, bytes, libc::MADV_COLD) };
}

/// Asks for huge pages; the kernel may refuse.
///
/// # Safety
/// The addresses must be the caller's.
pub(crate) unsafe fn advise_huge(start: usize, bytes: usize) {
    let start = ptr::with_exposed_provenance_mut(start);
    // SAFETY: changes no content.
    unsafe { libc::madvise(start, bytes, libc::MADV_HUGEPAGE) };
}

/// Gives the memory of private addresses back: they read zero.
///
/// # Safety
/// They must be the caller's, and nothing may need their content.
pub(crate) unsafe fn discard(start: usize, bytes: usize) -> Result<(), Errno> {
    let start = ptr::with_exposed_provenance_mut(start);
    // SAFETY: by the caller's contract.
    check(unsafe { libc::madvise(start, bytes, libc::MADV_DONTNEED) })?;
    Ok(())
}

/// Allows or forbids writes to the addresses.
///
/// # Safety
/// They must be the caller's, who handles writers that run into them.
pub(crate) unsafe fn protect(at: NonNull<u8>, bytes: usize, access: Access) -> Result<(), Errno> {
    let protection = match access {
        Access::ReadWrite => READ_WRITE,
        Access::ReadOnly => libc::PROT_READ,
    };
    // SAFETY: by the caller's contract.
    check(unsafe { libc::mprotect(at.as_ptr().cast(), bytes, protection) })?;
    Ok(())
}

/// Gives the addresses back.
///
/// # Safety
/// They must be the caller's, and nothing may use them any more.
pub(crate) unsafe fn unmap(at: NonNull<u8>, bytes: usize) {
    if bytes == 0 {
        return;
    }
    // SAFETY: by the caller's contract.
    let unmapped = check(unsafe { libc::munmap(at.as_ptr().cast(), bytes) });
    // It fails only at the limit of mappings, if the kernel merged ours with a neighbour of the same kind and would have to
    // cut them apart. The addresses then stay taken, but their memory need not.
    if unmapped.is_err() {
        // SAFETY: by the caller's contract nothing needs the content.
        unsafe { libc::madvise(at.as_ptr().cast(), bytes, libc::MADV_DONTNEED) };
    }
}

/// # Safety
/// With MAP_FIXED the addresses must be the caller's to replace.
unsafe fn map(
    at: *mut u8,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    from: libc::off_t,
) -> Result<NonNull<u8>, Errno> {
    // SAFETY: by the caller's contract.
    let mapped = unsafe { libc::mmap(at.cast(), bytes, protection, flags, fd, from) };
    if mapped == libc::MAP_FAILED {
        return Err(Errno::last());
    }
    NonNull::new(mapped.cast()).ok_or(Errno(libc::ENOMEM))
}
