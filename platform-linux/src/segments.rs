//! Address space in segments, for processes whose address space is limited: an arena begins with a first one, at a place with
//! free addresses behind it, and grows into these. Nobody keeps them free: that would count as address space.

use core::ptr::NonNull;

use crate::errno::Errno;
use crate::{entropy, mapping};

/// How far below the place of the system's next mapping an arena ends: mappings grow down from there, and are to meet it late.
/// Small machines have less address space.
const DISTANCES: [u64; 5] = [16 << 40, 1 << 40, 64 << 30, 4 << 30, 256 << 20];

/// Places that are tried for each distance.
const TRIES: usize = 4;

/// Points of the arena that are looked at to see whether it is free.
const POINTS: usize = 64;

/// Sets the first `bytes` bytes of an arena aside that may grow to `whole` bytes, at a multiple of `align`.
pub(crate) fn begin(bytes: usize, whole: usize, align: usize, page_size: usize) -> Result<NonNull<u8>, Errno> {
    let next = mapping::reserve(page_size, page_size, page_size)?;
    // SAFETY: reserved just now.
    unsafe { mapping::unmap(next, page_size) };
    let distances = DISTANCES.into_iter().filter_map(|distance| usize::try_from(distance).ok());
    let places = distances.flat_map(|distance| core::iter::repeat_n(distance, TRIES));
    for distance in places {
        // Heaps of one process are not to lie in each other's way, nor where others expect them.
        let scatter = usize::try_from(entropy::number()).unwrap_or(0) % (distance / 4);
        let Some(base) = next.addr().get().checked_sub(distance + scatter).and_then(|end| end.checked_sub(whole))
        else {
            continue;
        };
        let base = base & !(align - 1);
        if is_free(base, whole, page_size)
            && let Ok(start) = mapping::reserve_here(base, bytes)
        {
            return Ok(start);
        }
    }
    Err(Errno(libc::ENOMEM))
}

fn is_free(base: usize, bytes: usize, page_size: usize) -> bool {
    let step = (bytes / POINTS).next_multiple_of(page_size).max(page_size);
    base >= page_size && (0..bytes).step_by(step).all(|offset| !mapping::is_mapped(base + offset, page_size))
}
