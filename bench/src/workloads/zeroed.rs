//! Large zeroed arrays (hash tables, matrices, bitmaps) of which a tenth is touched: whoever zeroes by hand pays for all.

use crate::sizes::Sizes;
use crate::{End, Scale};

const ARRAYS: usize = 8;
const REPLACEMENTS: usize = 500;
/// One page of so many is touched.
const SPARSE: usize = 10;
/// Numbers of a page.
const PAGE: usize = 512;

pub(crate) fn run(scale: Scale) -> End {
    let sizes = Sizes::by_doublings(1 << 20, 32 << 20);
    let mut rng = fastrand::Rng::with_seed(21);
    let mut arrays: Vec<Vec<u64>> = vec![Vec::new(); ARRAYS];
    let mut checksum = 0;
    for count in 0..scale.of(REPLACEMENTS) {
        let place = &mut arrays[rng.usize(..ARRAYS)];
        *place = Vec::new();
        let mut array = vec![0_u64; sizes.draw(&mut rng) / size_of::<u64>()];
        for number in array.iter_mut().step_by(SPARSE * PAGE) {
            *number += count as u64;
            checksum += *number;
        }
        *place = array;
    }
    End::new(checksum, arrays)
}
