//! The scenarios: which objects, how many of them survive, and what the heap may hold for them then.

use core::fmt;

use meshheap::SlotOrder;
use serde::Serialize;

const MIB: usize = 1 << 20;

/// Which objects survive.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Survivors {
    /// Each with this probability.
    Random(f64),
    /// Every n-th in the order of their allocation.
    Every(usize),
}

/// One heap to fragment and mesh.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    /// Bytes of an object.
    pub(crate) size: usize,
    pub(crate) survivors: Survivors,
    /// Bytes of all objects, before most of them are freed.
    pub(crate) bytes: usize,
    pub(crate) order: SlotOrder,
    /// The most that may be held for each live byte.
    pub(crate) limit: Option<f64>,
}

impl Scenario {
    fn random(size: usize, share: f64, limit: impl Into<Option<f64>>) -> Self {
        let (survivors, order) = (Survivors::Random(share), SlotOrder::RandomRotation);
        Self { size, survivors, bytes: 32 * MIB, order, limit: limit.into() }
    }

    /// Heaps of 32 MiB, with the project's limits.
    pub(crate) fn standard() -> Vec<Self> {
        let every_8th = Self { survivors: Survivors::Every(8), ..Self::random(64, 0.0, None) };
        vec![
            Self::random(16, 0.05, 2.1),
            Self::random(32, 0.1, 1.9),
            Self::random(64, 0.1, 1.35),
            Self::random(128, 0.1, 1.25),
            Self::random(512, 0.1, 1.25),
            Self::random(1024, 0.1, None),
            Self::random(2048, 0.1, None),
            Self::random(4096, 0.1, 1.05),
            // No multiple of a page: 5,120-byte slots, four on five pages, whose positions fill unevenly. Missed so far.
            Self::random(5000, 0.1, 1.05),
            Self::random(8192, 0.1, 1.05),
            Self::random(16384, 0.1, 1.05),
            Self::random(65536, 0.1, 1.05),
            every_8th,
            Self { order: SlotOrder::FullShuffle, ..every_8th },
        ]
    }

    /// A small one that goes through everything once.
    pub(crate) fn rehearsal() -> Self {
        Self { bytes: MIB, ..Self::random(64, 0.1, None) }
    }

    /// What larger heaps reach under the same mapping budget.
    pub(crate) fn large() -> Vec<Self> {
        [256 * MIB, 1024 * MIB].map(|bytes| Self { bytes, ..Self::random(64, 0.1, None) }).into()
    }

    /// How many objects are allocated.
    pub(crate) const fn objects(&self) -> usize {
        self.bytes / self.size
    }

    /// The slots' order, in a word.
    pub(crate) const fn order_name(&self) -> &'static str {
        match self.order {
            SlotOrder::RandomRotation => "rotation",
            SlotOrder::FullShuffle => "shuffle",
        }
    }
}

impl fmt::Display for Survivors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random(share) => write!(f, "random {:.0} %", share * 100.0),
            Self::Every(n) => write!(f, "every {n}th"),
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B, {} of {} MiB, {}", self.size, self.survivors, self.bytes / MIB, self.order_name())
    }
}
