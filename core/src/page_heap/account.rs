//! What a heap's pages are charged to its budget: before they are handed out, and until they are given back.

use crate::base::budget::{self, Budget, BudgetRef, OverBudget, Resource};

/// I8: a heap charges its budget the bytes of its spans and large objects, and those that they and dirty free pages hold. Both
/// are counted without a budget, too. Guarded by the page-heap lock.
#[derive(Debug)]
pub(crate) struct Account {
    budget: Option<BudgetRef>,
    page_size: usize,
    /// Pages in spans and large objects.
    in_use: u32,
    /// Pages that hold memory: those in use that are neither aliases nor hollow, dirty ones, and backing pages of aliases that could
    /// not be purged. Dirty pages in transit hold it still.
    held: u32,
}

impl Account {
    /// Nothing is charged yet.
    pub(crate) const fn new(budget: Option<BudgetRef>, page_size: usize) -> Self {
        Self { budget, page_size, in_use: 0, held: 0 }
    }

    fn budget(&self) -> Option<&Budget> {
        self.budget.as_deref().filter(|_| budget::IS_COMPILED_IN)
    }

    fn charge(&self, resource: Resource, pages: u32) -> Result<(), OverBudget> {
        let Some(budget) = self.budget() else { return Ok(()) };
        budget.charge_bytes(resource, pages as usize * self.page_size)
    }

    fn uncharge(&self, resource: Resource, pages: u32) {
        if let Some(budget) = self.budget() {
            budget.uncharge_bytes(resource, pages as usize * self.page_size);
        }
    }

    /// `pages` more will be in use.
    pub(super) fn take(&mut self, pages: u32) -> Result<(), OverBudget> {
        self.charge(Resource::Virtual, pages)?;
        self.in_use += pages;
        Ok(())
    }

    /// `pages` less are in use.
    pub(super) fn give_back(&mut self, pages: u32) {
        self.in_use -= pages;
        self.uncharge(Resource::Virtual, pages);
    }

    /// `pages` more will hold memory.
    pub(super) fn hold(&mut self, pages: u32) -> Result<(), OverBudget> {
        self.charge(Resource::Physical, pages)?;
        self.held += pages;
        Ok(())
    }

    /// `pages` less hold memory.
    pub(super) fn drop_memory(&mut self, pages: u32) {
        self.held -= pages;
        self.uncharge(Resource::Physical, pages);
    }

    /// Whether more than a soft limit is held, so that pages are better given back than kept for reuse.
    pub(super) fn is_pressed(&self) -> bool {
        self.budget().is_some_and(|budget| budget.is_pressed(Resource::Physical))
    }

    /// Pages in use, and pages that hold memory.
    #[cfg(feature = "check")]
    pub(crate) const fn counts(&self) -> (u32, u32) {
        (self.in_use, self.held)
    }
}

impl Drop for Account {
    /// With the heap, after its memory went back to the platform.
    fn drop(&mut self) {
        self.uncharge(Resource::Virtual, self.in_use);
        self.uncharge(Resource::Physical, self.held);
    }
}
