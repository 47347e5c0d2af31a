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
use crate::mesh::round::Rows;
use crate::mesh::row::{Row, candidate, is_candidate};
use crate::platform::Platform;
use crate::span::arena::{Arena, Block, Class};

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
    /// What is a candidate.
    rows: Rows,
    /// Words of a candidate's bitmap: those of its spans, one after another.
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
    /// An empty plan for up to `candidates` rows of `class`, or as many as are wanted or a plan takes.
    pub(crate) fn new<P: Platform>(
        arena: &Arena<P>,
        class: SizeClass,
        rows: Rows,
        candidates: usize,
    ) -> Result<Self, PlatformError> {
        let capacity = candidates.min(rows.wanted).min(PLAN_MAX_SPANS);
        let words = arena.cut(class).words() * rows.spans as usize;
        debug_assert!(words * 64 <= MAX_SLOTS);
        let scratch = arena.reserve_scratch(Parts::new(capacity, words).end)?;
        Ok(Self { class, rows, words, capacity, length: 0, scratch, search: None })
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

    /// What is wanted besides these candidates.
    pub(crate) const fn rows_left(&self) -> Rows {
        Rows { wanted: self.rows.wanted - self.length, ..self.rows }
    }

    /// The candidate that would start at `head`.
    pub(crate) const fn row(&self, head: PageIndex) -> Row {
        Row { class: self.class, head, spans: self.rows.spans }
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

    /// Adds `row` with the slots that its groups have taken, if it is a candidate. The plan must not be full.
    pub(crate) fn add_if_candidate<P: Platform>(&mut self, arena: &Arena<P>, guard: &Class, row: Row) -> bool {
        let cut = arena.cut(self.class);
        if !row.heads(arena).all(|head| is_candidate(arena, guard, head, row.spans)) {
            return false;
        }
        self.add(row.head);
        for (span, head) in row.heads(arena).enumerate() {
            let bits = candidate(arena, guard, self.class, head).expect("looked at above, under the same lock");
            self.write_bits(span * cut.words(), &bits[..cut.words()]);
        }
        self.length += 1;
        true
    }

    fn add(&mut self, head: PageIndex) {
        debug_assert!(!self.is_full() && self.search.is_none());
        let heads = self.part::<PageIndex>(self.parts().heads);
        // SAFETY: `length` is below the capacity that the part was made for.
        let place = unsafe { heads.add(self.length) };
        // SAFETY: as above.
        unsafe { place.write(head) };
    }

    /// The words from `from` on of the bitmap of the candidate that is being added.
    fn write_bits(&mut self, from: usize, bits: &[u64]) {
        debug_assert!(from + bits.len() <= self.words);
        for (word, &bits) in (from..).zip(bits) {
            // SAFETY: `length` is below the capacity that the part was made for.
            let place = unsafe { self.part::<u64>(0).add(self.length * self.words + word) };
            // SAFETY: as above.
            unsafe { place.write(bits) };
        }
    }

    /// Candidate `index`.
    pub(crate) fn candidate(&self, index: u32) -> Row {
        self.row(self.head(index))
    }

    fn head(&self, index: u32) -> PageIndex {
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
