//! A class's depot: full shuffle vectors on their way from a local heap that frees to one that allocates, without a look at
//! any bitmap, and a few empty ones, so that their storage is not asked of the pool each time. Bounded.

use crate::base::config::DEPOT_BYTES;
use crate::ds::shuffle_vector::{ShuffleVector, VectorStack};
use crate::ds::size_class::Cut;

/// Empty vectors kept at the most: with few, threads that hand objects to each other meet at the pool.
const EMPTIES: usize = 32;

/// The depot. Guarded by its class lock.
#[derive(Debug)]
pub(crate) struct Depot {
    full: VectorStack,
    empty: VectorStack,
    /// Full vectors kept at the most.
    limit: usize,
}

impl Depot {
    /// An empty depot for a class that is cut like this.
    pub(crate) fn new(cut: &Cut) -> Self {
        let vector_bytes = (cut.vector_slots * cut.size) as usize;
        Self {
            full: VectorStack::default(),
            empty: VectorStack::default(),
            limit: DEPOT_BYTES.checked_div(vector_bytes).unwrap_or(0),
        }
    }

    /// Takes a full vector in, or hands it back if there are enough.
    pub(crate) fn put_full(&mut self, vector: ShuffleVector) -> Option<ShuffleVector> {
        if self.full.count() >= self.limit {
            return Some(vector);
        }
        self.full.push(vector);
        None
    }

    /// The vector that came in last.
    pub(crate) fn take_full(&mut self) -> Option<ShuffleVector> {
        self.full.pop()
    }

    /// Takes an empty vector in, or hands it back if there are enough.
    pub(crate) fn put_empty(&mut self, vector: ShuffleVector) -> Option<ShuffleVector> {
        if self.empty.count() >= EMPTIES {
            return Some(vector);
        }
        self.empty.push(vector);
        None
    }

    /// An empty vector.
    pub(crate) fn take_empty(&mut self) -> Option<ShuffleVector> {
        self.empty.pop()
    }
}
