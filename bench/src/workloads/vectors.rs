//! Vectors and strings that grow side by side, by doubling: `realloc` on all sizes.

use core::fmt::Write;

use crate::sizes::Sizes;
use crate::{End, Scale};

const ROUNDS: usize = 400;
const VECTORS: usize = 400;

pub(crate) fn grow(scale: Scale) -> End {
    let lengths = Sizes::power_law(200, 400_000);
    let mut rng = fastrand::Rng::with_seed(15);
    let mut checksum = 0;
    let mut last = (Vec::new(), Vec::new());
    for _ in 0..scale.of(ROUNDS) {
        let numbers = vectors(&lengths, &mut rng);
        let texts = strings(&lengths, &mut rng);
        checksum += numbers.iter().map(|vector| vector.iter().sum::<u64>()).sum::<u64>();
        checksum += texts.iter().map(|text| text.len() as u64).sum::<u64>();
        last = (numbers, texts);
    }
    End::new(checksum, last)
}

/// Each grows by a few elements at a time until it has its length.
fn vectors(lengths: &Sizes, rng: &mut fastrand::Rng) -> Vec<Vec<u64>> {
    let wanted: Vec<usize> = (0..VECTORS).map(|_| lengths.draw(rng)).collect();
    let mut vectors = vec![Vec::new(); VECTORS];
    let mut growing: Vec<usize> = (0..VECTORS).collect();
    while !growing.is_empty() {
        growing.retain(|&at| {
            let vector = &mut vectors[at];
            vector.extend(0..(wanted[at] - vector.len()).min(16) as u64);
            vector.len() < wanted[at]
        });
    }
    vectors
}

fn strings(lengths: &Sizes, rng: &mut fastrand::Rng) -> Vec<String> {
    let mut strings = vec![String::new(); VECTORS];
    for text in &mut strings {
        let parts = lengths.draw(rng) / 64;
        for part in 0..parts {
            write!(text, "{part};").expect("strings take all");
        }
    }
    strings
}
