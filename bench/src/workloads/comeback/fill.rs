//! Filling a heap with objects by a power law.

use super::kept::Kept;
use crate::sizes::Sizes;

/// Sizes of objects, always the same ones in the same order, up to so many bytes in all.
pub(super) struct Fill {
    sizes: Sizes,
    rng: fastrand::Rng,
    left_bytes: usize,
}

impl Fill {
    pub(super) fn power_law(bytes: usize) -> Self {
        Self { sizes: Sizes::power_law(16, 64 << 10), rng: fastrand::Rng::with_seed(29), left_bytes: bytes }
    }

    pub(super) fn into(self, kept: &mut Kept) {
        self.for_each(|size| kept.add(size));
    }
}

impl Iterator for Fill {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let size = self.sizes.draw(&mut self.rng);
        self.left_bytes = self.left_bytes.checked_sub(size)?;
        Some(size)
    }
}
