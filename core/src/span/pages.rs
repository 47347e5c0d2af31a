//! Pages on their way back: emptied spans to the page heap, dead aliases to their own memory, dirty pages to the system.
//! No lock is held across a call of the platform; pages are in transit meanwhile.

use crate::base::error::PlatformError;
use crate::base::sync::MutexGuard;
use crate::base::units::{PageLink, PageRun};
use crate::page_heap::{Content, PageHeap, Parted, Surplus};
use crate::platform::{Platform, Touch};
use crate::span::arena::{Arena, Class};
use crate::span::emptied::{Emptied, PartedAliases};

impl<P: Platform> Arena<P> {
    /// Gives `emptied` spans of the locked class back to the page heap, unlocks the class, and does what then needs the
    /// platform.
    pub(crate) fn give_back(&self, guard: MutexGuard<'_, Class>, emptied: Emptied) {
        if emptied.is_empty() {
            return;
        }
        let (parted, surplus) = {
            let mut pages = self.page_heap();
            // SAFETY: `guard` is the lock of the class that `emptied` was filled from.
            let parted = unsafe { emptied.give_back(&self.map, &mut pages) };
            (parted, pages.surplus_dirty(0, || self.platform.now_ns()))
        };
        drop(guard);
        self.unalias_all(parted);
        self.purge_surplus(surplus);
    }

    /// Gives back what [`PageHeap::surplus_dirty`] named.
    pub(crate) fn purge_surplus(&self, surplus: Surplus) {
        if surplus.pages > 0 {
            // A failed purge leaves the pages dirty and free, and is tried again with the next surplus.
            let _ = self.purge_runs(surplus);
        }
    }

    /// Commits the pages of `run`, which is in use already, if they are fresh; on failure they are free again.
    pub(crate) fn commit_fresh(&self, run: PageRun, content: Content, touch: Touch) -> Result<(), PlatformError> {
        if content == Content::Old {
            return Ok(());
        }
        // SAFETY: the pages are the arena's and show their own memory.
        let outcome = unsafe { self.platform.commit(run, touch) };
        if outcome.is_err() {
            let mut pages = self.page_heap();
            pages.detach(&self.map, run);
            pages.insert(&self.map, run, Content::Zero);
        }
        outcome
    }

    fn unalias_all(&self, parted: PartedAliases) {
        let mut link = parted.first;
        while link != PageLink::NONE {
            let (alias, next) = PageHeap::parted_at(&self.map, link).expect("the link is not none");
            link = next;
            self.unalias(alias);
        }
    }

    /// In transit -> free, by way of the platform; on failure the alias is kept for a later try. Returns whether it worked.
    fn unalias(&self, alias: Parted) -> bool {
        let made = {
            let mut pages = self.page_heap();
            let Some(made) = pages.mappings_mut().part(alias.run) else {
                pages.keep_parted(&self.map, alias);
                return false;
            };
            made
        };
        // SAFETY: the pages are an alias without live objects, and in transit: nobody else uses them.
        let outcome = unsafe { self.platform.unalias(alias.run) };
        let mut pages = self.page_heap();
        match outcome {
            Ok(()) => pages.insert_unaliased(&self.map, alias),
            Err(_) => {
                pages.mappings_mut().rejoin(alias.run, made);
                pages.keep_parted(&self.map, alias);
            }
        }
        outcome.is_ok()
    }

    /// Tries again to unalias each dead alias whose first try failed: one that waits for mappings does not keep others waiting that
    /// would give some back. Returns whether that worked for any.
    pub(crate) fn retry_each_parted(&self) -> bool {
        let mut link = self.page_heap().take_all_parted();
        let mut worked = false;
        while let Some((alias, next)) = PageHeap::parted_at(&self.map, link) {
            link = next;
            self.page_heap().take_parted(&alias);
            worked |= self.unalias(alias);
        }
        worked
    }

    /// Tries again for as long as that works for any.
    pub(crate) fn retry_parted(&self) {
        // Bounded: each round but the last makes them fewer.
        while self.retry_each_parted() {}
    }

    /// Clean and fresh pages -> dirty, where dirty pages cannot become clean: neighbours are then one run whatever they
    /// hold. After an allocation failed, as all knowledge of zeros goes.
    pub(crate) fn forget_zeros(&self) {
        // Bounded: dirty pages do not become clean any more.
        loop {
            let Some(run) = self.page_heap().take_clean(&self.map) else { return };
            // SAFETY: the pages are the arena's, show their own memory and are in transit.
            let outcome = unsafe { self.platform.commit(run, Touch::Sparse) };
            let content = if outcome.is_ok() { Content::Old } else { Content::Zero };
            self.page_heap().insert(&self.map, run, content);
            if outcome.is_err() {
                return;
            }
        }
    }

    /// Dirty -> clean: gives the memory of up to `most` free pages back to the system, longest runs first. Returns how many
    /// pages.
    pub(crate) fn purge(&self, most: u32) -> Result<u32, PlatformError> {
        self.purge_runs(Surplus { pages: most, shortest: 1 })
    }

    fn purge_runs(&self, surplus: Surplus) -> Result<u32, PlatformError> {
        let mut purged = 0;
        while purged < surplus.pages {
            match self.purge_run(surplus.pages - purged, surplus.shortest)? {
                0 => break,
                pages => purged += pages,
            }
        }
        Ok(purged)
    }

    /// The same for one run of at least `shortest` pages, by one call.
    pub(crate) fn purge_run(&self, most: u32, shortest: u32) -> Result<u32, PlatformError> {
        if !self.facts().can_purge {
            return Ok(0);
        }
        let Some(run) = self.page_heap().take_dirty(&self.map, most, shortest) else { return Ok(0) };
        // SAFETY: the run is free and in transit, so no object and no alias rests on it (I6).
        let outcome = unsafe { self.platform.purge(run) };
        let content = if outcome.is_ok() { Content::Zero } else { Content::Old };
        self.page_heap().insert(&self.map, run, content);
        outcome.map(|()| run.count)
    }
}
