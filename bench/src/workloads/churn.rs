//! One thread that holds many objects and replaces one after the other, at random.

use crate::objects::{tag, touched};
use crate::sizes::Sizes;
use crate::{End, Scale};

pub(crate) fn small(scale: Scale) -> End {
    churn(&Sizes::uniform(8, 128), scale.of(200_000), scale.of(8_000_000))
}

pub(crate) fn mixed(scale: Scale) -> End {
    churn(&Sizes::by_doublings(16, 4096), scale.of(60_000), scale.of(6_000_000))
}

pub(crate) fn power_law(scale: Scale) -> End {
    churn(&Sizes::power_law(16, 64 << 10), scale.of(400_000), scale.of(5_000_000))
}

fn churn(sizes: &Sizes, live: usize, replacements: usize) -> End {
    let mut rng = fastrand::Rng::with_seed(11);
    let mut objects: Vec<Vec<u8>> = (0..live).map(|at| touched(sizes.draw(&mut rng), at)).collect();
    let mut checksum = 0;
    for count in 0..replacements {
        let place = &mut objects[rng.usize(..live)];
        checksum += tag(place);
        *place = touched(sizes.draw(&mut rng), count);
    }
    End::new(checksum, objects)
}
