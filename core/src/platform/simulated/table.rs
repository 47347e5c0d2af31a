//! The page table of the simulated platform: which backing page each address shows, and the rules of changing that. See the
//! crate docs for the tour.
//!
//! # Invariants
//! * T1 `pages[p].aliases` = number of pages other than `p` that show `p`, frozen ones apart.
//! * T2 `mappings` = number of neighbours that do not continue each other.

use alloc::vec::Vec;
use core::ptr::NonNull;

use super::super::{Access, Facts};
use super::SimulatedPlatform;
use crate::base::units::{PageIndex, PageRun};

/// Why a call is not done.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The platform fails, with this code.
    Code(i32),
    /// The caller broke a rule.
    Rule { rule: &'static str, page: Option<PageIndex> },
}

impl Trouble {
    pub(super) const fn rule(rule: &'static str) -> Self {
        Self::Rule { rule, page: None }
    }

    pub(super) fn unless(holds: bool, rule: &'static str) -> Result<(), Self> {
        if holds { Ok(()) } else { Err(Self::rule(rule)) }
    }

    /// The rule must hold for each page of a run; names the first that breaks it.
    fn unless_each(pages: PageRun, rule: &'static str, holds: impl Fn(PageIndex) -> bool) -> Result<(), Self> {
        match pages.pages().find(|&page| !holds(page)) {
            None => Ok(()),
            broken => Err(Self::Rule { rule, page: broken }),
        }
    }
}

/// To whom memory belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Memory {
    /// Other addresses can show it.
    Shared,
    /// To the address alone, which shares its mapping with its neighbours of the kind.
    Private,
    /// To the address alone since the fork of this number, in the mapping that it was in then.
    Frozen(u32),
}

/// An address and the backing page of the same index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    /// The backing page that the address shows.
    pub(super) shows: PageIndex,
    /// What the address allows.
    pub(super) access: Access,
    /// To whom the memory belongs that the address shows.
    memory: Memory,
    /// How many other addresses show the backing page.
    aliases: u32,
    /// The backing page was purged since its own address last showed it.
    purged: bool,
    /// The backing page was committed, and not purged since.
    committed: bool,
}

impl Page {
    const fn is_frozen(self) -> bool {
        matches!(self.memory, Memory::Frozen(_))
    }

    /// One mapping can show both this page and the `next`.
    fn continues_in(self, next: Self) -> bool {
        self.shows.plus(1) == next.shows && self.access == next.access && self.memory == next.memory
    }
}

/// The arena's pages.
#[derive(Debug)]
pub(super) struct PageTable {
    base: NonNull<u8>,
    page_size: usize,
    /// Pages are private until they are shared.
    private_until_shared: bool,
    pages: Vec<Page>,
    /// Mappings beyond the first.
    mappings: usize,
    freezes: u32,
}

// SAFETY: `base` points to the arena, which the platform owns, and is used only by unsafe methods.
unsafe impl Send for PageTable {}

impl PageTable {
    /// `count` pages at `base`, each showing itself.
    pub(super) fn new(base: NonNull<u8>, count: usize, facts: &Facts) -> Self {
        let &Facts { page_size, private_until_shared, .. } = facts;
        let count = u32::try_from(count).expect("the largest reservation has fewer pages");
        let own = |index| Page {
            shows: PageIndex::new(index),
            access: Access::ReadWrite,
            memory: if private_until_shared { Memory::Private } else { Memory::Shared },
            aliases: 0,
            purged: false,
            committed: false,
        };
        Self { base, page_size, private_until_shared, pages: (0..count).map(own).collect(), mappings: 0, freezes: 0 }
    }

    pub(super) fn page(&self, page: PageIndex) -> Page {
        self.pages[page.as_usize()]
    }

    pub(super) const fn mappings(&self) -> usize {
        self.mappings
    }

    pub(super) fn committed_pages(&self) -> usize {
        self.pages.iter().filter(|page| page.committed).count()
    }

    pub(super) fn check_inside(&self, pages: PageRun) -> Result<(), Trouble> {
        let end = pages.start.as_usize() + pages.count as usize;
        Trouble::unless(pages.count > 0 && end <= self.pages.len(), "the pages must lie in the arena")
    }

    pub(super) fn check_commit(&self, pages: PageRun) -> Result<(), Trouble> {
        self.check_inside(pages)?;
        Trouble::unless_each(pages, "the page must show its own backing page", |page| self.is_own(page))
    }

    pub(super) fn check_alias(&self, pages: PageRun, target: PageIndex) -> Result<(), Trouble> {
        let targets = PageRun { start: target, count: pages.count };
        self.check_inside(pages)?;
        self.check_inside(targets)?;
        let apart = pages.end() <= target || targets.end() <= pages.start;
        Trouble::unless(apart, "the pages and the target must not overlap")?;
        Trouble::unless_each(targets, "the target must show its own backing page", |page| self.is_own(page))?;
        Trouble::unless_each(targets, "the target must be shared", |page| self.page(page).memory == Memory::Shared)
    }

    pub(super) fn check_unalias(&self, pages: PageRun) -> Result<(), Trouble> {
        self.check_inside(pages)?;
        let is_shared = |page| self.private_until_shared && self.page(page).memory != Memory::Private;
        Trouble::unless_each(pages, "the page must be an alias", |page| !self.is_own(page) || is_shared(page))
    }

    pub(super) fn check_purge(&self, pages: PageRun) -> Result<(), Trouble> {
        self.check_inside(pages)
    }

    pub(super) fn commit(&mut self, pages: PageRun) {
        for page in pages.pages() {
            self.pages[page.as_usize()].committed = true;
        }
    }

    /// Gives the backing pages back: they read zero from now on.
    ///
    /// # Safety
    /// [`PageTable::check_purge`] agreed, and nothing needs the pages' bytes.
    pub(super) unsafe fn purge(&mut self, pages: PageRun) {
        for page in pages.pages() {
            let entry = &mut self.pages[page.as_usize()];
            (entry.purged, entry.committed) = (true, false);
            if self.is_own(page) {
                // SAFETY: the address shows the backing page, of which nothing is needed.
                unsafe { self.fill(page, 0) };
            }
            if self.page(page).aliases > 0 {
                // SAFETY: as above.
                unsafe { self.clear_aliases_of(page) };
            }
        }
    }

    pub(super) fn check_relocate(&self, from: PageRun, to: PageIndex) -> Result<(), Trouble> {
        let to = PageRun { start: to, count: from.count };
        for run in [from, to] {
            self.check_inside(run)?;
            let plain = if self.private_until_shared { Memory::Private } else { Memory::Shared };
            let is_plain = |page: PageIndex| {
                let Page { memory, aliases, committed, .. } = self.page(page);
                self.is_own(page) && memory == plain && aliases == 0 && committed
            };
            Trouble::unless_each(run, "the page must be a committed one of its own, without aliases", is_plain)?;
        }
        Trouble::unless_each(to, "the runs must not overlap", |page| !from.pages().any(|other| other == page))
    }

    /// Moves what `from` holds to the pages from `to` on.
    ///
    /// # Safety
    /// [`PageTable::check_relocate`] agreed, and nobody uses either run.
    pub(super) unsafe fn relocate(&mut self, from: PageRun, to: PageIndex) {
        let bytes = from.count as usize * self.page_size;
        let (source, target) = (self.address(from.start), self.address(to));
        // SAFETY: both runs lie in the arena and do not overlap.
        unsafe { target.copy_from_nonoverlapping(source, bytes) };
        // SAFETY: nothing needs what `from` holds any more.
        unsafe { self.purge(from) };
    }

    /// Makes the aliases of `target` read zero, as the purged page that they show does: a live object there is lost, and a
    /// test that verifies its objects sees it (I6).
    ///
    /// # Safety
    /// As for [`PageTable::purge`].
    unsafe fn clear_aliases_of(&self, target: PageIndex) {
        for index in (0..).take(self.pages.len()).map(PageIndex::new) {
            if index != target && self.page(index).shows == target {
                // SAFETY: the address shows the backing page, of which nothing is needed.
                unsafe { self.fill(index, 0) };
            }
        }
    }

    /// The addresses show the backing pages from `target` on.
    ///
    /// # Safety
    /// [`PageTable::check_alias`] agreed, nothing writes to either run, and nothing needs what the addresses held.
    pub(super) unsafe fn alias(
        &mut self,
        pages: PageRun,
        target: PageIndex,
        limit: Option<usize>,
    ) -> Result<(), Trouble> {
        let distance = |page: PageIndex| target.plus(page.since(pages.start));
        self.remap(pages, limit, |index, page| Page {
            shows: distance(index),
            access: Access::ReadWrite,
            memory: Memory::Shared,
            // A purge before this call has nothing to say about what was written since.
            purged: page.purged && page.shows != index,
            ..page
        })?;
        for page in pages.pages() {
            let (from, to) = (self.address(distance(page)), self.address(page));
            // SAFETY: both are pages of the arena, and the runs do not overlap.
            unsafe { from.copy_to_nonoverlapping(to, self.page_size) };
        }
        Ok(())
    }

    /// The addresses show their own backing pages.
    ///
    /// # Safety
    /// [`PageTable::check_unalias`] agreed, and no object lives at these addresses.
    pub(super) unsafe fn unalias(&mut self, pages: PageRun, limit: Option<usize>) -> Result<(), Trouble> {
        let private = self.private_until_shared;
        let own = |index, page: Page| Page {
            shows: index,
            access: Access::ReadWrite,
            memory: if private { Memory::Private } else { page.memory },
            ..page
        };
        self.remap(pages, limit, own)?;
        for page in pages.pages() {
            let content = if private || self.page(page).purged { 0 } else { SimulatedPlatform::POISON };
            // SAFETY: by the caller's contract the bytes are nobody's.
            unsafe { self.fill(page, content) };
        }
        Ok(())
    }

    pub(super) fn protect(&mut self, pages: PageRun, access: Access, limit: Option<usize>) -> Result<(), Trouble> {
        self.remap(pages, limit, |_, page| Page { access, ..page })
    }

    /// Whether no other address can show what one of these shows.
    pub(super) fn is_private(&self, pages: PageRun) -> bool {
        pages.pages().any(|page| self.page(page).memory != Memory::Shared)
    }

    /// The addresses show their own backing pages, which others can show, too. The bytes are there already: each address has
    /// its own.
    pub(super) fn share(&mut self, pages: PageRun, limit: Option<usize>) -> Result<(), Trouble> {
        let own = |index, page| Page { shows: index, access: Access::ReadWrite, memory: Memory::Shared, ..page };
        self.remap(pages, limit, own)
    }

    /// What shared addresses show is theirs alone, and stays in the mappings that it is in.
    pub(super) fn freeze(&mut self) {
        self.freezes += 1;
        let frozen = Memory::Frozen(self.freezes);
        for page in self.pages.iter_mut().filter(|page| page.memory == Memory::Shared) {
            (page.memory, page.aliases) = (frozen, 0);
        }
    }

    /// How many backing pages hold something: show a byte other than zero somewhere, or are hidden and were not purged since.
    ///
    /// # Safety
    /// Nothing may write to the arena meanwhile.
    pub(super) unsafe fn pages_with_data(&self) -> usize {
        let hidden = |index, page: &Page| page.shows.as_usize() != index && page.aliases == 0 && !page.is_frozen();
        let mut holds: Vec<bool> = Vec::with_capacity(self.pages.len());
        holds.extend(self.pages.iter().enumerate().map(|(index, page)| hidden(index, page) && !page.purged));
        for (index, page) in (0..).map(PageIndex::new).zip(&self.pages) {
            let shown = NonNull::slice_from_raw_parts(self.address(index), self.page_size);
            let holder = if page.is_frozen() { index } else { page.shows };
            // SAFETY: the arena is initialised memory, to which nothing writes by the caller's contract.
            holds[holder.as_usize()] |= unsafe { shown.as_ref() }.iter().any(|&byte| byte != 0);
        }
        holds.iter().filter(|&&holds| holds).count()
    }

    fn is_own(&self, page: PageIndex) -> bool {
        self.page(page).shows == page
    }

    /// Changes what addresses show, unless that takes too many mappings.
    fn remap(
        &mut self,
        pages: PageRun,
        limit: Option<usize>,
        change: impl Fn(PageIndex, Page) -> Page,
    ) -> Result<(), Trouble> {
        let (start, end) = (pages.start.as_usize(), pages.end().as_usize());
        let elsewhere = self.mappings - self.breaks_around(start, end);
        let old = self.pages[start..end].to_vec();
        for page in pages.pages() {
            self.pages[page.as_usize()] = change(page, self.page(page));
        }
        let mappings = elsewhere + self.breaks_around(start, end);
        // As on Linux: at the limit nothing may be mapped, not even over what is there.
        if limit.is_some_and(|limit| self.mappings >= limit || mappings > limit) {
            self.pages[start..end].copy_from_slice(&old);
            return Err(Trouble::Code(SimulatedPlatform::MAPPING_LIMIT));
        }
        self.mappings = mappings;
        for (index, old) in pages.pages().zip(old) {
            let shows = self.page(index).shows;
            let was_alias = old.shows != index && old.memory == Memory::Shared;
            self.pages[old.shows.as_usize()].aliases -= u32::from(was_alias);
            self.pages[shows.as_usize()].aliases += u32::from(shows != index);
        }
        Ok(())
    }

    /// Neighbours that do not continue each other, of which at least one lies in `start..end`.
    fn breaks_around(&self, start: usize, end: usize) -> usize {
        let near = &self.pages[start.saturating_sub(1)..self.pages.len().min(end + 1)];
        near.windows(2).filter(|pair| !pair[0].continues_in(pair[1])).count()
    }

    fn address(&self, page: PageIndex) -> NonNull<u8> {
        debug_assert!(page.as_usize() < self.pages.len());
        // SAFETY: every page of the table lies in the arena.
        unsafe { self.base.add(page.as_usize() * self.page_size) }
    }

    /// Overwrites what the address holds.
    ///
    /// # Safety
    /// Nothing needs the old bytes, and nothing touches them meanwhile.
    unsafe fn fill(&self, page: PageIndex, content: u8) {
        // SAFETY: the page lies in the arena.
        unsafe { self.address(page).write_bytes(content, self.page_size) };
    }
}
