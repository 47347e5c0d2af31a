//! All arenas with a barrier, for a signal handler to look through: blocks of entries, linked, never freed or moved.

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

use super::watch::Watch;
use crate::errno::Errno;
use crate::{limits, mapping};

/// Entries of a block, which then fills a page of 4 KiB.
const WATCHES: usize = 31;

/// All zeros is a block of free entries.
#[derive(Debug)]
struct Block {
    watches: [Watch; WATCHES],
    /// Null at first, then another block for ever.
    next: AtomicPtr<Block>,
}

static FIRST: Block = Block { watches: [const { Watch::new() }; WATCHES], next: AtomicPtr::new(ptr::null_mut()) };

/// The entry of the arena in which `address` lies.
pub(super) fn find(address: usize) -> Option<&'static Watch> {
    blocks().flat_map(|block| &block.watches).find(|watch| watch.contains(address))
}

/// An entry for the arena from `base` to `end`.
pub(super) fn register(base: usize, end: usize) -> Result<&'static Watch, Errno> {
    let mut block = &FIRST;
    // Bounded by the arenas that there are, or come meanwhile.
    loop {
        if let Some(watch) = block.watches.iter().find(|watch| watch.take(base, end)) {
            return Ok(watch);
        }
        block = match block.following() {
            Some(next) => next,
            None => block.extend()?,
        };
    }
}

fn blocks() -> impl Iterator<Item = &'static Block> {
    core::iter::successors(Some(&FIRST), |block| block.following())
}

impl Block {
    fn following(&self) -> Option<&'static Self> {
        // Acquire: pairs with the Release of `extend`.
        // SAFETY: once set it points to a block that stays.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }

    /// A new block behind this one, or the one that another thread put there first.
    fn extend(&self) -> Result<&'static Self, Errno> {
        let page = limits::page_bytes();
        let bytes = size_of::<Self>().next_multiple_of(page);
        let memory = mapping::map_metadata_at_new(bytes, page.max(align_of::<Self>()), page)?;
        let made: NonNull<Self> = memory.cast();
        // Release: pairs with the Acquire of `following`; the kernel wrote the zeros before it gave the memory out.
        let linked = self.next.compare_exchange(ptr::null_mut(), made.as_ptr(), Ordering::Release, Ordering::Relaxed);
        if linked.is_err() {
            // SAFETY: nobody else knows of it.
            unsafe { mapping::unmap(memory, bytes) };
        }
        Ok(self.following().expect("it was linked just now, and blocks stay"))
    }
}

#[cfg(test)]
mod tests {
    use super::{WATCHES, find, register};
    use std::vec::Vec;

    #[test]
    fn more_arenas_than_a_block_has_entries_are_found_until_they_are_released() {
        // Addresses at which nothing can lie.
        let base = |index: usize| (index + 1) << 4;
        let watches: Vec<_> = (0..3 * WATCHES).map(|index| register(base(index), base(index) + 8)).collect();
        let watches: Vec<_> = watches.into_iter().map(|watch| watch.expect("memory")).collect();
        for (index, watch) in watches.iter().enumerate() {
            for inside in [base(index), base(index) + 7] {
                assert!(find(inside).is_some_and(|found| core::ptr::eq(found, *watch)));
            }
            assert!(find(base(index) + 8).is_none());
            watch.release();
            assert!(find(base(index)).is_none());
        }
        let again = register(base(0), base(0) + 8).expect("memory");
        assert!(watches.iter().any(|watch| core::ptr::eq(*watch, again)), "entries are used again");
        again.release();
    }
}
