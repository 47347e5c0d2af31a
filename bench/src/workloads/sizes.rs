//! Distributions of object sizes.

/// Sizes drawn beforehand, so that drawing one costs the workload next to nothing.
pub(crate) struct Sizes {
    drawn: Vec<u32>,
}

/// A power of two.
const DRAWN: usize = 8192;

impl Sizes {
    /// Each size from `least` to `most` equally often.
    pub(crate) fn uniform(least: u32, most: u32) -> Self {
        Self::drawn_by(|rng| rng.u32(least..=most))
    }

    /// Each doubling between `least` and `most` equally often.
    pub(crate) fn by_doublings(least: u32, most: u32) -> Self {
        let doublings = (f64::from(most) / f64::from(least)).log2();
        Self::drawn_by(|rng| (f64::from(least) * (rng.f64() * doublings).exp2()) as u32)
    }

    /// Sizes above s are s^-1.1 times as frequent as those above `least`; `most` bounds them.
    pub(crate) fn power_law(least: u32, most: u32) -> Self {
        const EXPONENT: f64 = -1.0 / 1.1;
        Self::drawn_by(|rng| (f64::from(least) * (1.0 - rng.f64()).powf(EXPONENT)).min(f64::from(most)) as u32)
    }

    fn drawn_by(draw: impl Fn(&mut fastrand::Rng) -> u32) -> Self {
        let mut rng = fastrand::Rng::with_seed(5);
        Self { drawn: (0..DRAWN).map(|_| draw(&mut rng)).collect() }
    }

    pub(crate) fn draw(&self, rng: &mut fastrand::Rng) -> usize {
        self.drawn[rng.usize(..) % DRAWN] as usize
    }
}

#[cfg(test)]
mod tests {
    use super::Sizes;

    #[test]
    fn every_distribution_keeps_its_bounds() {
        let mut rng = fastrand::Rng::with_seed(1);
        for sizes in [Sizes::uniform(16, 4096), Sizes::by_doublings(16, 4096), Sizes::power_law(16, 4096)] {
            assert!((0..10_000).all(|_| (16..=4096).contains(&sizes.draw(&mut rng))));
        }
    }
}
