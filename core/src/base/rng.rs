//! Random numbers for placement: wyrand by Wang Yi (2019, public domain), 64 bits of state, one multiplication a number.
//! Not for cryptography. One seed a heap, from which every local heap takes its own stream by an ordinal, never by an
//! address, so that a seed and a sequence of operations give the same placement again.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Rng {
    state: u64,
}

const INCREMENT: u64 = 0xa076_1d64_78bd_642f;
const MIX: u64 = 0xe703_7ed1_a0b4_28db;

impl Rng {
    /// The stream number `ordinal` of `seed`.
    pub(crate) fn new(seed: u64, ordinal: u64) -> Self {
        let mut rng = Self { state: seed ^ ordinal.wrapping_mul(MIX) };
        // The first number of neighbouring states differs in few bits: drop it.
        let _ = rng.next();
        rng
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(INCREMENT);
        let product = u128::from(self.state) * u128::from(self.state ^ MIX);
        #[expect(clippy::cast_possible_truncation, reason = "both halves are wanted")]
        let folded = (product >> 64) as u64 ^ product as u64;
        folded
    }

    /// A number in `0..bound`, by multiply-shift (Lemire 2019) without the rejection step: the bias is below 2^-32.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        (((self.next() >> 32) * u64::from(bound)) >> 32) as u32
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Rng;

    #[test]
    fn numbers_stay_below_their_bound_and_reach_all_of_it() {
        let mut rng = Rng::new(1, 2);
        let mut seen = [false; 7];
        for _ in 0..1000 {
            seen[rng.below(7) as usize] = true;
        }
        assert_eq!(seen, [true; 7]);
    }

    #[test]
    fn streams_of_one_seed_differ_and_repeat() {
        let first: [u64; 4] = core::array::from_fn(|ordinal| Rng::new(9, ordinal as u64).next());
        let again: [u64; 4] = core::array::from_fn(|ordinal| Rng::new(9, ordinal as u64).next());
        assert_eq!(first, again);
        assert!((1..4).all(|i| first[i] != first[0]));
    }
}
