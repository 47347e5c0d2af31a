//! Budgets: how many bytes a part of the embedder's program may use, as a tree of nodes (process, tenant, isolate). A heap
//! charges its node before memory is published, and the node charges its parent.
//!
//! ```text
//!        process   hard 64 MiB, used = what its children were charged beyond their floors, and the floors
//!        ▲     ▲
//!     tenant  tenant   a charge goes up first, and counts below only when every node above has taken it;
//!      ▲  ▲                 so a node never holds less than its children together
//!   heap  heap
//! ```
//!
//! All counters are atomics without locks, so that heaps, threads and the embedder share nodes freely and a fork finds no
//! lock held. What a child uses within its *floor* was charged to its parent when the child was made, and is no matter of the
//! parent's any more.

mod counter;
mod limits;
mod shared;
#[cfg(all(test, not(loom)))]
mod tests;

use core::fmt;

use crate::base::sync::{AtomicUsize, Ordering, const_unless_loom, fence};
use counter::Counter;
pub use limits::{BudgetOptions, Limits, Resource, Usage};
pub use shared::{BudgetRef, Charge, LimitHook};

/// False in a build that is there to measure what budgets cost those who have none: `--cfg meshheap_without_budgets`. Its heaps
/// charge nothing.
pub(crate) const IS_COMPILED_IN: bool = !cfg!(meshheap_without_budgets);

/// Which node of a tree of budgets refused a charge, and of what. As small as other errors: what an allocation returns fits into
/// two registers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OverBudget(u32);

impl OverBudget {
    const ID_BITS: u32 = 24;
    const LEVEL_BITS: u32 = 6;

    fn new(resource: Resource, level: u8, node: u32) -> Self {
        let level = u32::from(level).min((1 << Self::LEVEL_BITS) - 1);
        let id = node & ((1 << Self::ID_BITS) - 1);
        Self(id | level << Self::ID_BITS | (resource as u32) << (Self::ID_BITS + Self::LEVEL_BITS))
    }

    /// The node's number: the lowest 24 bits of what [`BudgetOptions::new`] was given.
    pub const fn node(self) -> u32 {
        self.0 & ((1 << Self::ID_BITS) - 1)
    }

    /// How far the node is above the one that was charged: 0 is that itself, 1 its parent. A node further up than 63 counts as that.
    pub const fn level(self) -> u8 {
        (self.0 >> Self::ID_BITS & ((1 << Self::LEVEL_BITS) - 1)) as u8
    }

    /// What was asked for.
    pub const fn resource(self) -> Resource {
        Resource::ALL[(self.0 >> (Self::ID_BITS + Self::LEVEL_BITS)) as usize]
    }
}

impl fmt::Debug for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("OverBudget");
        debug.field("node", &self.node()).field("level", &self.level()).field("resource", &self.resource()).finish()
    }
}

impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "budget {} ({} above) has no {} bytes left", self.node(), self.level(), self.resource())
    }
}

impl core::error::Error for OverBudget {}

/// What a [`LimitHook`] is called with.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Refusal<'a> {
    /// The node that refused.
    pub node: &'a Budget,
    /// What was asked for.
    pub resource: Resource,
    /// Bytes of the object that could not be made. What is missing may be a whole span for it.
    pub wanted: usize,
}

/// [`Budget::set_hard`] went below what is in use. The new limit holds all the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LimitBelowUse {
    /// Bytes in use.
    pub used: usize,
}

impl fmt::Display for LimitBelowUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes are in use above the new limit", self.used)
    }
}

impl core::error::Error for LimitBelowUse {}

/// A node of a tree of budgets: limits, and what is in use below it. A value of the embedder's, in a `static` or an `Arc`,
/// that heaps and child nodes refer to by [`BudgetRef`].
///
/// Dropping the embedder's handle of a node that is charged is no error: heaps and children keep the node, with its limits,
/// until they are gone themselves.
///
/// ```
/// use meshheap::{Budget, BudgetOptions, Limits, Resource};
/// static PROCESS: Budget = Budget::new(BudgetOptions::new(0).physical_bytes(Limits::hard(64 << 20)));
///
/// # fn main() -> Result<(), meshheap::OverBudget> {
/// let tenant = Budget::child(&PROCESS, BudgetOptions::new(1).physical_bytes(Limits::hard(1 << 20).with_floor(1 << 16)))?;
/// assert_eq!(PROCESS.usage(Resource::Physical).used, 1 << 16, "the floor is the tenant's, used or not");
/// # Ok(())
/// # }
/// ```
pub struct Budget {
    options: BudgetOptions,
    parent: Option<BudgetRef>,
    counters: [Counter; Resource::COUNT],
    /// Guards of [`Budget::begin_teardown`].
    teardowns: AtomicUsize,
    /// 1 while the hook runs.
    in_hook: AtomicUsize,
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Budget");
        debug.field("id", &self.id());
        for resource in Resource::ALL {
            debug.field(resource.name(), &self.usage(resource));
        }
        debug.finish_non_exhaustive()
    }
}

impl Budget {
    const_unless_loom! {
        /// The root of a tree.
        pub fn new(options: BudgetOptions) -> Self {
            let counters = [
                Counter::new(options.limits(Resource::Virtual)),
                Counter::new(options.limits(Resource::Physical)),
                Counter::new(options.limits(Resource::Objects)),
            ];
            Self { options, parent: None, counters, teardowns: AtomicUsize::new(0), in_hook: AtomicUsize::new(0) }
        }
    }

    /// A node below `parent`, which is charged the child's floors at once, until the child is dropped.
    ///
    /// # Errors
    /// A node from `parent` on has no room for a floor; nothing is charged.
    pub fn child(parent: impl Into<BudgetRef>, options: BudgetOptions) -> Result<Self, OverBudget> {
        let (parent, mut child) = (parent.into(), Self::new(options));
        for resource in Resource::ALL {
            if let Err(error) = parent.charge_bytes(resource, child.counter(resource).floor()) {
                let earlier = Resource::ALL.into_iter().take_while(|&other| other != resource);
                earlier.for_each(|other| parent.uncharge_bytes(other, child.counter(other).floor()));
                return Err(error);
            }
        }
        child.parent = Some(parent);
        Ok(child)
    }

    /// The number that the embedder gave the node.
    pub const fn id(&self) -> u32 {
        self.options.id
    }

    /// The node above.
    pub fn parent(&self) -> Option<&Self> {
        self.parent.as_deref()
    }

    const fn counter(&self, resource: Resource) -> &Counter {
        &self.counters[resource as usize]
    }

    /// What is used of `resource` at this node and below, and what may be.
    pub fn usage(&self, resource: Resource) -> Usage {
        self.counter(resource).usage()
    }

    /// Whether more than the soft limit is in use. Heaps then keep no free pages with old content, and the embedder does well
    /// to mesh or to collect garbage at its next safepoint.
    pub fn is_over_soft(&self, resource: Resource) -> bool {
        self.counter(resource).is_over_soft()
    }

    /// Whether that is so of this node or of one above it.
    pub(crate) fn is_pressed(&self, resource: Resource) -> bool {
        self.path().any(|node| node.is_over_soft(resource))
    }

    /// Changes the soft limit.
    pub fn set_soft(&self, resource: Resource, bytes: usize) {
        self.counter(resource).set_soft(bytes);
    }

    /// Changes the hard limit while heaps and threads charge the node. When it returns `Ok`, no more than `bytes` are in use,
    /// nor will be (but for the reserve); charges that were under way either count already or see the new limit.
    ///
    /// # Errors
    /// More is in use. The limit is set all the same: nothing is charged until enough came back. The node knows no heaps, so
    /// it is the embedder who now meshes, purges or frees.
    pub fn set_hard(&self, resource: Resource, bytes: usize) -> Result<(), LimitBelowUse> {
        let counter = self.counter(resource);
        counter.set_hard(bytes);
        // Pairs with the fence in `charge_bytes`: either that charge sees the new limit, or this sees the charge.
        fence(Ordering::SeqCst);
        let used = counter.used();
        if used > bytes { Err(LimitBelowUse { used }) } else { Ok(()) }
    }

    /// Opens the nodes' reserves ([`Limits::reserve`]) to all that is charged here and below, until the guard is dropped: to run
    /// finalisers, or to build an error message, at the limit. The reserve of a node above is open to it, too.
    pub fn begin_teardown(&self) -> Teardown<'_> {
        // Relaxed: guards nothing; the caller's own charges come after it.
        self.teardowns.fetch_add(1, Ordering::Relaxed);
        Teardown(self)
    }

    /// This node, its parent, and so on.
    fn path(&self) -> impl Iterator<Item = &Self> {
        core::iter::successors(Some(self), |node| node.parent())
    }

    /// The node that an error names which came from charging this one.
    fn refuser(&self, error: OverBudget) -> &Self {
        self.path().take(usize::from(error.level()) + 1).last().unwrap_or(self)
    }

    /// Charges this node and those above, as far as it is not within a floor, or none.
    pub(crate) fn charge_bytes(&self, resource: Resource, bytes: usize) -> Result<(), OverBudget> {
        if bytes == 0 {
            return Ok(());
        }
        let top = self.add(resource, bytes, 0, false)?;
        // Pairs with the fence in `set_hard`.
        fence(Ordering::SeqCst);
        let mut open = false;
        for (level, node) in (0..=top).zip(self.path()) {
            open = open || node.in_teardown();
            if node.counter(resource).is_over_hard(open) {
                // A limit was lowered below what is now in use.
                self.uncharge_bytes(resource, bytes);
                return Err(node.refuse(resource, level));
            }
        }
        self.path().take(usize::from(top) + 1).for_each(|node| node.counter(resource).note_peak());
        Ok(())
    }

    /// Charges those above, then this node. `open`: a teardown below opens the reserves from here on. Returns how far up it came.
    fn add(&self, resource: Resource, bytes: usize, level: u8, open: bool) -> Result<u8, OverBudget> {
        let (counter, open) = (self.counter(resource), open || self.in_teardown());
        // What those above have been charged for it so far.
        let (mut above, mut top) = (0, level);
        let mut used = counter.used();
        // Each further round means that another thread's charge or uncharge came through.
        loop {
            let Some(after) = counter.after(used, bytes, open) else {
                self.remove_above(resource, above);
                return Err(self.refuse(resource, level));
            };
            let wanted = counter.beyond_floor(after) - counter.beyond_floor(used);
            if wanted < above {
                self.remove_above(resource, above - wanted);
            } else if wanted > above
                && let Some(parent) = self.parent()
            {
                top = parent
                    .add(resource, wanted - above, level.saturating_add(1), open)
                    .inspect_err(|_| self.remove_above(resource, above))?;
            }
            above = wanted;
            match counter.exchange(used, after) {
                Ok(()) => return Ok(top),
                Err(now) => used = now,
            }
        }
    }

    fn remove_above(&self, resource: Resource, bytes: usize) {
        if let Some(parent) = self.parent() {
            parent.uncharge_bytes(resource, bytes);
        }
    }

    /// Gives charged bytes back, here and above.
    pub(crate) fn uncharge_bytes(&self, resource: Resource, bytes: usize) {
        let (mut node, mut bytes) = (Some(self), bytes);
        while let Some(here) = node.filter(|_| bytes > 0) {
            bytes = here.counter(resource).subtract(bytes);
            node = here.parent();
        }
    }

    fn in_teardown(&self) -> bool {
        // Relaxed: see `begin_teardown`.
        self.teardowns.load(Ordering::Relaxed) > 0
    }

    #[cold]
    fn refuse(&self, resource: Resource, level: u8) -> OverBudget {
        self.counter(resource).note_refusal();
        OverBudget::new(resource, level, self.id())
    }

    /// Calls the hook of the node that `error` names, which came from charging this one. False if it has none, or if the hook runs
    /// already: on this thread, which then allocates within it, or on another.
    pub(crate) fn call_hook(&self, error: OverBudget, wanted: usize) -> bool {
        let node = self.refuser(error);
        let Some(hook) = &node.options.on_limit else { return false };
        // Acquire: pairs with the Release in `Hooked::drop`; calls come one after another.
        if node.in_hook.swap(1, Ordering::Acquire) != 0 {
            return false;
        }
        let _hooked = Hooked(node);
        hook.call(&Refusal { node, resource: error.resource(), wanted });
        true
    }
}

impl Drop for Budget {
    /// Gives the parent back what this node holds of it. Whatever is still charged here goes with the node; heaps and
    /// [`Charge`]s keep it from being dropped before them.
    fn drop(&mut self) {
        for resource in Resource::ALL {
            let counter = self.counter(resource);
            self.remove_above(resource, counter.floor() + counter.beyond_floor(counter.used()));
        }
    }
}

/// The reserves are open, until this is dropped. See [`Budget::begin_teardown`].
#[derive(Debug)]
#[must_use = "the reserve is closed when this is dropped"]
pub struct Teardown<'a>(&'a Budget);

impl Drop for Teardown<'_> {
    fn drop(&mut self) {
        // Relaxed: see `Budget::begin_teardown`.
        self.0.teardowns.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The hook runs, until this is dropped, be it by a panic.
struct Hooked<'a>(&'a Budget);

impl Drop for Hooked<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `Budget::call_hook`.
        self.0.in_hook.store(0, Ordering::Release);
    }
}
