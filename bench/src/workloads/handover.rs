//! A server, after Larson and Krishnan: each thread replaces objects of its array at random; then it ends, and a fresh thread
//! goes on with another thread's array. So most objects are freed by a thread that did not make them.

use std::thread;

use crate::objects::{object, tag};
use crate::sizes::Sizes;
use crate::{End, Scale};

const THREADS: usize = 4;
const OBJECTS: usize = 10_000;
const GENERATIONS: usize = 40;
const REPLACEMENTS: usize = 50_000;

pub(crate) fn larson(scale: Scale) -> End {
    let mut arrays: Vec<Vec<Vec<u8>>> = (0..THREADS).map(|_| vec![Vec::new(); OBJECTS]).collect();
    let mut checksum = 0;
    for generation in 0..scale.of(GENERATIONS) {
        thread::scope(|scope| {
            let seeded = arrays.iter_mut().zip(generation * THREADS..);
            let threads: Vec<_> = seeded.map(|(array, seed)| scope.spawn(move || serve(seed, array))).collect();
            checksum += threads.into_iter().map(|thread| thread.join().expect("no thread panics")).sum::<u64>();
        });
        arrays.rotate_left(1);
    }
    End::new(checksum, arrays)
}

fn serve(seed: usize, array: &mut [Vec<u8>]) -> u64 {
    let sizes = Sizes::uniform(10, 500);
    let mut rng = fastrand::Rng::with_seed(seed as u64);
    let mut checksum = 0;
    for count in 0..REPLACEMENTS {
        let place = rng.usize(..array.len());
        checksum += tag(&array[place]);
        array[place] = object(sizes.draw(&mut rng), count);
    }
    checksum
}
