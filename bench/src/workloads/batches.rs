//! Batches far larger than any cache of free objects, freed in different orders. At the end nothing is held.

use std::collections::VecDeque;

use crate::objects::{object, tag};
use crate::sizes::Sizes;
use crate::{End, Scale};

const BATCH: usize = 600_000;
const ROUNDS: usize = 5;

pub(crate) fn lifo(scale: Scale) -> End {
    rounds(scale, |mut batch, _| {
        let mut checksum = 0;
        while let Some(object) = batch.pop() {
            checksum += tag(&object);
        }
        checksum
    })
}

pub(crate) fn fifo(scale: Scale) -> End {
    rounds(scale, |batch, _| {
        let mut checksum = 0;
        let mut batch = VecDeque::from(batch);
        while let Some(object) = batch.pop_front() {
            checksum += tag(&object);
        }
        checksum
    })
}

pub(crate) fn random(scale: Scale) -> End {
    rounds(scale, |mut batch, rng| {
        rng.shuffle(&mut batch);
        batch.into_iter().map(|object| tag(&object)).sum()
    })
}

fn rounds(scale: Scale, free: impl Fn(Vec<Vec<u8>>, &mut fastrand::Rng) -> u64) -> End {
    let sizes = Sizes::by_doublings(16, 512);
    let mut rng = fastrand::Rng::with_seed(12);
    let mut checksum = 0;
    for _ in 0..ROUNDS {
        let batch = (0..scale.of(BATCH)).map(|at| object(sizes.draw(&mut rng), at)).collect();
        checksum += free(batch, &mut rng);
    }
    End::new(checksum, ())
}
