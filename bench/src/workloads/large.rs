//! Buffers of a server of files or pictures: 100 KiB to 8 MiB, a few at a time, each page touched.

use crate::objects::{tag, touched};
use crate::sizes::Sizes;
use crate::{End, Scale};

const BUFFERS: usize = 24;
const REPLACEMENTS: usize = 5_000;

pub(crate) fn run(scale: Scale) -> End {
    let sizes = Sizes::by_doublings(100 << 10, 8 << 20);
    let mut rng = fastrand::Rng::with_seed(20);
    let mut buffers = vec![Vec::new(); BUFFERS];
    let mut checksum = 0;
    for count in 0..scale.of(REPLACEMENTS) {
        let place = &mut buffers[rng.usize(..BUFFERS)];
        checksum += tag(place);
        // The old one goes first, as where a buffer is not needed any more.
        *place = Vec::new();
        *place = touched(sizes.draw(&mut rng), count);
    }
    End::new(checksum, buffers)
}
