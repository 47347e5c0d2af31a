//! What refers to nodes: handles, hooks, and charges of the embedder's own.

use core::fmt;
use core::ops::Deref;

#[cfg(any(feature = "alloc", test))]
use alloc::sync::Arc;

use crate::base::budget::{Budget, OverBudget, Refusal, Resource};

/// Keeps a [`Budget`] for a heap, a child node or a [`Charge`]: a `&'static Budget` or, with the feature `alloc`, an
/// `Arc<Budget>`.
#[derive(Clone)]
pub struct BudgetRef(Kept<Budget>);

/// A value that stays where it is as long as this exists.
enum Kept<T: ?Sized + 'static> {
    Static(&'static T),
    #[cfg(any(feature = "alloc", test))]
    Counted(Arc<T>),
}

impl<T: ?Sized> Clone for Kept<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Static(value) => Self::Static(value),
            #[cfg(any(feature = "alloc", test))]
            Self::Counted(value) => Self::Counted(Arc::clone(value)),
        }
    }
}

impl<T: ?Sized> Deref for Kept<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Static(value) => value,
            #[cfg(any(feature = "alloc", test))]
            Self::Counted(value) => value,
        }
    }
}

impl Deref for BudgetRef {
    type Target = Budget;

    fn deref(&self) -> &Budget {
        &self.0
    }
}

impl fmt::Debug for BudgetRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl From<&'static Budget> for BudgetRef {
    fn from(budget: &'static Budget) -> Self {
        Self(Kept::Static(budget))
    }
}

#[cfg(any(feature = "alloc", test))]
impl From<Arc<Budget>> for BudgetRef {
    fn from(budget: Arc<Budget>) -> Self {
        Self(Kept::Counted(budget))
    }
}

#[cfg(any(feature = "alloc", test))]
impl From<&Arc<Budget>> for BudgetRef {
    fn from(budget: &Arc<Budget>) -> Self {
        Self(Kept::Counted(Arc::clone(budget)))
    }
}

impl From<&Self> for BudgetRef {
    fn from(budget: &Self) -> Self {
        budget.clone()
    }
}

impl BudgetRef {
    /// Charges memory that is no heap's, such as a buffer that a script holds on to, until the result is dropped. Calls no hook.
    ///
    /// # Errors
    /// This node or one above has no room for it; nothing is charged.
    pub fn charge(&self, resource: Resource, bytes: usize) -> Result<Charge, OverBudget> {
        self.charge_bytes(resource, bytes)?;
        Ok(Charge { budget: self.clone(), resource, bytes })
    }
}

/// Bytes that are charged until this is dropped.
#[derive(Debug)]
#[must_use = "the bytes are uncharged when this is dropped"]
pub struct Charge {
    budget: BudgetRef,
    resource: Resource,
    bytes: usize,
}

impl Charge {
    /// How many.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.uncharge_bytes(self.resource, self.bytes);
    }
}

/// What a node's hook can be: any `&'static F` or, with the feature `alloc`, `Arc<F>`, where `F: Fn(&Refusal) + Send + Sync`.
/// See [`BudgetOptions::on_limit`](crate::BudgetOptions::on_limit).
#[derive(Clone)]
pub struct LimitHook(Kept<Function>);

type Function = dyn Fn(&Refusal<'_>) + Send + Sync;

impl LimitHook {
    pub(super) fn call(&self, refusal: &Refusal<'_>) {
        (self.0)(refusal);
    }
}

impl fmt::Debug for LimitHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitHook").finish_non_exhaustive()
    }
}

impl<F: Fn(&Refusal<'_>) + Send + Sync> From<&'static F> for LimitHook {
    fn from(hook: &'static F) -> Self {
        Self(Kept::Static(hook))
    }
}

#[cfg(any(feature = "alloc", test))]
impl<F: Fn(&Refusal<'_>) + Send + Sync + 'static> From<Arc<F>> for LimitHook {
    fn from(hook: Arc<F>) -> Self {
        Self(Kept::Counted(hook))
    }
}
