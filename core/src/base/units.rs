//! The heap's quantities, one type each, so that a page number can never be added to a byte count.

use crate::base::config::CLASS_COUNT;

/// The number of a page in the heap's arena, counted from the arena's first page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PageIndex(u32);

impl PageIndex {
    /// The page `index` pages behind the start of the arena.
    #[must_use]
    pub const fn new(index: u32) -> Self {
        Self(index)
    }

    /// Pages before this one.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The same as an index of a table.
    #[must_use]
    pub const fn as_usize(self) -> usize {
        self.0 as usize
    }

    /// The page `pages` further on.
    #[must_use]
    pub const fn plus(self, pages: u32) -> Self {
        Self(self.0 + pages)
    }

    /// Pages from `earlier` to this one. Panics in debug builds if `earlier` lies behind.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u32 {
        self.0 - earlier.0
    }
}

/// Adjacent pages of the arena: `count` of them from `start` on. Never empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageRun {
    /// The first page.
    pub start: PageIndex,
    /// How many pages, at least 1.
    pub count: u32,
}

impl PageRun {
    /// `count` pages from `start` on.
    #[must_use]
    pub const fn new(start: PageIndex, count: u32) -> Self {
        debug_assert!(count > 0);
        Self { start, count }
    }

    /// The first page behind the run.
    #[must_use]
    pub const fn end(self) -> PageIndex {
        self.start.plus(self.count)
    }

    /// The last page of the run.
    #[must_use]
    pub const fn last(self) -> PageIndex {
        self.start.plus(self.count - 1)
    }

    /// Each page of the run, ascending.
    pub fn pages(self) -> impl Iterator<Item = PageIndex> {
        (self.start.get()..self.end().get()).map(PageIndex::new)
    }
}

/// A page index or none, in four bytes that are zero for none, so that zeroed tables hold no links.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PageLink(u32);

impl PageLink {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) const fn to(page: PageIndex) -> Self {
        Self(page.get() + 1)
    }

    pub(crate) const fn get(self) -> Option<PageIndex> {
        match self.0 {
            0 => None,
            n => Some(PageIndex::new(n - 1)),
        }
    }
}

/// The number of a size class: an index into the table of their sizes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SizeClass(u8);

impl SizeClass {
    /// The class of this number. Panics if there is none.
    pub(crate) const fn new(index: u8) -> Self {
        assert!((index as usize) < CLASS_COUNT, "there is no such class");
        Self(index)
    }

    /// The class of this number.
    ///
    /// # Safety
    /// The number must be below [`CLASS_COUNT`].
    #[inline]
    pub(crate) const unsafe fn new_unchecked(index: u8) -> Self {
        debug_assert!((index as usize) < CLASS_COUNT);
        Self(index)
    }

    /// The class's number, from 0 for the smallest.
    #[must_use]
    #[inline]
    pub const fn index(self) -> usize {
        // SAFETY: both constructors make sure of it; tables by class are then read without a further check.
        unsafe { core::hint::assert_unchecked((self.0 as usize) < CLASS_COUNT) };
        self.0 as usize
    }
}
