//! A plan for one class: candidates collected in address order, and the search for groups among copies of their bitmaps. It
//! lives in scratch memory that the platform gives for it and gets back with the plan.
//!
//! ```text
//! scratch:  [ bitmaps: words x capacity ][ pool of the search ][ heads: page of each candidate ][ next ][ lists ]
//! ```

use core::ptr::NonNull;

use crate::base::config::PLAN_MAX_SPANS;
use crate::base::error::PlatformError;
use crate::base::units::{PageIndex, SizeClass};
use crate::mesh::grouping::{Grouping, MAX_SLOTS, NONE, Progress, lists_len, pool_len};
use crate::platform::Platform;
use crate::span::arena::{Arena, Block};
use crate::span::bits::GroupBits;

/// The search, by the number of words in a bitmap.
enum Search {
    One(Grouping<'static, 1>),
    Two(Grouping<'static, 2>),
    Three(Grouping<'static, 3>),
    Four(Grouping<'static, 4>),
}

/// Candidates of one class, and then their groups.
pub(crate) struct Plan {
    class: SizeClass,
    words: usize,
    capacity: usize,
    length: usize,
    scratch: Block,
    search: Option<Search>,
}

// SAFETY: the plan owns its scratch memory; the search's slices lie in it.
unsafe impl Send for Plan {}

/// Where the parts of the scratch memory start, in bytes.
struct Parts {
    pool: usize,
    heads: usize,
    next: usize,
    lists: usize,
    end: usize,
}

impl Parts {
    fn new(capacity: usize, words: usize) -> Self {
        let pool = capacity * words * size_of::<u64>();
        let heads = pool + pool_len(capacity, words) * size_of::<u64>();
        let next = heads + capacity * size_of::<PageIndex>();
        let lists = next + capacity * size_of::<u32>();
        Self { pool, heads, next, lists, end: lists + lists_len(capacity) * size_of::<u32>() }
    }
}

impl Plan {
    /// An empty plan for up to `spans` candidates of `class` (fewer, if that is more than a plan takes).
    pub(crate) fn new<P: Platform>(arena: &Arena<P>, class: SizeClass, spans: usize) -> Result<Self, PlatformError> {
        let (capacity, words) = (spans.min(PLAN_MAX_SPANS), arena.cut(class).words());
        debug_assert!(words * 64 <= MAX_SLOTS);
        let scratch = arena.reserve_scratch(Parts::new(capacity, words).end)?;
        Ok(Self { class, words, capacity, length: 0, scratch, search: None })
    }

    /// Gives the scratch memory back.
    pub(crate) fn release<P: Platform>(self, arena: &Arena<P>) {
        let scratch = self.into_scratch();
        // SAFETY: the block came from `reserve_scratch`, and the plan and its search are gone.
        unsafe { arena.release_scratch(scratch) };
    }

    /// Ends the search, and with it the last use of the memory.
    fn into_scratch(self) -> Block {
        self.scratch
    }

    /// The class that it is for.
    pub(crate) const fn class(&self) -> SizeClass {
        self.class
    }

    /// Whether it takes no more candidates.
    pub(crate) const fn is_full(&self) -> bool {
        self.length == self.capacity
    }

    /// Bytes of scratch memory.
    pub(crate) const fn scratch_bytes(&self) -> usize {
        self.scratch.bytes
    }

    fn part<T>(&self, offset: usize) -> NonNull<T> {
        // SAFETY: callers pass offsets of `Parts`, which lie in the block and are aligned for their part.
        unsafe { self.scratch.start.add(offset) }.cast()
    }

    fn parts(&self) -> Parts {
        Parts::new(self.capacity, self.words)
    }

    /// Adds the span at `head` with the slots that its group has taken. The plan must not be full.
    pub(crate) fn add(&mut self, head: PageIndex, bits: &GroupBits) {
        debug_assert!(!self.is_full() && self.search.is_none());
        let heads = self.part::<PageIndex>(self.parts().heads);
        // SAFETY: `length` is below the capacity that the part was made for.
        let place = unsafe { heads.add(self.length) };
        // SAFETY: as above.
        unsafe { place.write(head) };
        for (word, &bits) in bits.iter().enumerate().take(self.words) {
            // SAFETY: as above.
            let place = unsafe { self.part::<u64>(0).add(self.length * self.words + word) };
            // SAFETY: as above.
            unsafe { place.write(bits) };
        }
        self.length += 1;
    }

    /// The page of candidate `index`.
    pub(crate) fn head(&self, index: u32) -> PageIndex {
        debug_assert!((index as usize) < self.length);
        // SAFETY: the first `length` heads were written by `add`.
        let place = unsafe { self.part::<PageIndex>(self.parts().heads).add(index as usize) };
        // SAFETY: as above.
        unsafe { place.read() }
    }

    fn grouping<const W: usize>(&self) -> Grouping<'static, W> {
        let parts = self.parts();
        // SAFETY: the parts are disjoint, zeroed or written, and at least as long as the search asks for; they live until
        // `release`, which ends the search first, and nothing else touches them while it exists.
        let spans = unsafe { core::slice::from_raw_parts(self.part(0).as_ptr(), self.length * W) };
        // SAFETY: as above.
        let next = unsafe { self.part_mut(parts.next, self.length) };
        // SAFETY: as above.
        let lists = unsafe { self.part_mut(parts.lists, lists_len(self.length)) };
        // SAFETY: as above.
        let pool = unsafe { self.part_mut(parts.pool, pool_len(self.length, W)) };
        Grouping::new(spans, next, lists, pool)
    }

    /// `length` elements of the part at `offset`.
    ///
    /// # Safety
    /// The part must hold so many elements, and nothing else may use it until the plan is released.
    unsafe fn part_mut<T>(&self, offset: usize, length: usize) -> &'static mut [T] {
        // SAFETY: by the caller's contract; scratch memory is zeroed, and words of zero are valid.
        unsafe { core::slice::from_raw_parts_mut(self.part(offset).as_ptr(), length) }
    }

    /// Searches on for about `tests` bitmap tests. Returns whether the search is complete.
    pub(crate) fn search(&mut self, tests: usize) -> bool {
        let mut search = self.search.take().unwrap_or_else(|| match self.words {
            1 => Search::One(self.grouping()),
            2 => Search::Two(self.grouping()),
            3 => Search::Three(self.grouping()),
            _ => Search::Four(self.grouping()),
        });
        let progress = match &mut search {
            Search::One(grouping) => grouping.advance(tests),
            Search::Two(grouping) => grouping.advance(tests),
            Search::Three(grouping) => grouping.advance(tests),
            Search::Four(grouping) => grouping.advance(tests),
        };
        self.search = Some(search);
        progress == Progress::Done
    }

    fn groups(&self) -> (&[u32], &[u32]) {
        match &self.search {
            Some(Search::One(grouping)) => grouping.groups(),
            Some(Search::Two(grouping)) => grouping.groups(),
            Some(Search::Three(grouping)) => grouping.groups(),
            Some(Search::Four(grouping)) => grouping.groups(),
            None => (&[], &[]),
        }
    }

    /// Groups that the search found.
    pub(crate) fn group_count(&self) -> usize {
        self.groups().0.len()
    }

    /// The members of group `group`, as candidates: the first to be the keeper.
    pub(crate) fn first_member(&self, group: usize) -> Option<u32> {
        self.groups().0.get(group).copied()
    }

    /// The member of the same group after `member`.
    pub(crate) fn next_member(&self, member: u32) -> Option<u32> {
        let next = self.groups().1[member as usize];
        (next != NONE).then_some(next)
    }
}
