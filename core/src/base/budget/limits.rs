//! What a node is made with, and what it tells.

use core::fmt;

use crate::base::budget::shared::LimitHook;

/// What a budget counts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Resource {
    /// Bytes of address space in spans and large objects, as [`Statistics::span_bytes`](crate::Statistics::span_bytes).
    Virtual,
    /// Bytes of memory that they and dirty free pages hold; metadata apart. Meshing and purging give them back.
    Physical,
    /// Bytes of objects in callers' hands, slots counted whole: charged by [`CountedLocal`](crate::CountedLocal) only.
    Objects,
}

impl Resource {
    /// How many there are.
    pub(super) const COUNT: usize = 3;

    /// All of them.
    pub const ALL: [Self; Self::COUNT] = [Self::Virtual, Self::Physical, Self::Objects];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Virtual => "virtual",
            Self::Physical => "physical",
            Self::Objects => "object",
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The limits of one resource at one node, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Above it the node is *pressed*: see [`Budget::is_over_soft`](crate::Budget::is_over_soft).
    pub soft: usize,
    /// Above it nothing is charged.
    pub hard: usize,
    /// Guaranteed to the node: set aside at its parent as long as the node exists, used or not. Means nothing at a root.
    pub floor: usize,
    /// May be used above `hard` while a [`Teardown`](crate::Teardown) of the node or of one below it exists.
    pub reserve: usize,
}

impl Limits {
    /// No limits.
    pub const UNLIMITED: Self = Self { soft: usize::MAX, hard: usize::MAX, floor: 0, reserve: 0 };

    /// A hard limit alone.
    #[must_use]
    pub const fn hard(bytes: usize) -> Self {
        Self { hard: bytes, ..Self::UNLIMITED }
    }

    /// The same with a soft limit.
    #[must_use]
    pub const fn with_soft(self, bytes: usize) -> Self {
        Self { soft: bytes, ..self }
    }

    /// The same with a floor.
    #[must_use]
    pub const fn with_floor(self, bytes: usize) -> Self {
        Self { floor: bytes, ..self }
    }

    /// The same with a reserve for teardown.
    #[must_use]
    pub const fn with_reserve(self, bytes: usize) -> Self {
        Self { reserve: bytes, ..self }
    }
}

/// How a node is set up: `BudgetOptions::new(7).physical_bytes(Limits::hard(1 << 20))`.
#[derive(Clone, Debug)]
pub struct BudgetOptions {
    pub(super) id: u32,
    limits: [Limits; Resource::COUNT],
    pub(super) on_limit: Option<LimitHook>,
}

impl BudgetOptions {
    /// A node without limits. Errors name it by `id`, which may be any number of 24 bits.
    #[must_use]
    pub const fn new(id: u32) -> Self {
        Self { id, limits: [Limits::UNLIMITED; Resource::COUNT], on_limit: None }
    }

    /// The same with these limits of [`Resource::Virtual`].
    #[must_use]
    pub const fn virtual_bytes(mut self, limits: Limits) -> Self {
        self.limits[Resource::Virtual as usize] = limits;
        self
    }

    /// The same with these limits of [`Resource::Physical`].
    #[must_use]
    pub const fn physical_bytes(mut self, limits: Limits) -> Self {
        self.limits[Resource::Physical as usize] = limits;
        self
    }

    /// The same with these limits of [`Resource::Objects`].
    #[must_use]
    pub const fn object_bytes(mut self, limits: Limits) -> Self {
        self.limits[Resource::Objects as usize] = limits;
        self
    }

    /// The same with a hook that is called once for each allocation that fails for one of this node's hard limits, after the heap
    /// has given back what it holds without need. It may free, or raise the limit; the allocation is then tried once more.
    ///
    /// Whose limit was met, and no other, is called, be it the heap's own node or one above it: an allocation calls one hook at the
    /// most, and if it then meets the limit of another node, it fails. So the hook of a process sees allocations of all tenants;
    /// heaps besides the one that allocates have given nothing back for it yet ([`Heap::purge`](crate::Heap::purge), which it may
    /// call, is how).
    ///
    /// It runs on the allocating thread, with no lock held. An allocation within it that meets the same node's limit fails at
    /// once, without a further call, as does one of another thread meanwhile. A panic goes through to the caller of the
    /// allocation; heap and node are as if the allocation had failed.
    #[must_use]
    pub fn on_limit(self, hook: impl Into<LimitHook>) -> Self {
        Self { on_limit: Some(hook.into()), ..self }
    }

    pub(super) const fn limits(&self, resource: Resource) -> Limits {
        self.limits[resource as usize]
    }
}

/// What is used of one resource at a node and below, in bytes. Each figure is exact at some moment of the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Usage {
    /// In use: by heaps, by [`Charge`](crate::Charge)s, and by children beyond their floors; and these floors.
    pub used: usize,
    /// The most that `used` has been after a charge.
    pub peak: usize,
    /// The soft limit.
    pub soft: usize,
    /// The hard limit.
    pub hard: usize,
    /// Charges that this node has refused, be it that a smaller one was made instead.
    pub refusals: usize,
}
