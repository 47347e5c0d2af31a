//! Threads that live briefly, as in a server with a thread a connection. Some of what they make outlives them.

use std::collections::VecDeque;
use std::thread;

use crate::objects::{object, tag};
use crate::sizes::Sizes;
use crate::{End, Scale};

const THREADS: usize = 4_000;
/// Threads that run at the same time.
const TOGETHER: usize = 4;
const OBJECTS: usize = 600;
/// How many threads' results are held.
const HELD: usize = 64;

pub(crate) fn churn(scale: Scale) -> End {
    let mut held: VecDeque<Vec<Vec<u8>>> = VecDeque::new();
    let mut checksum = 0;
    for first in (0..scale.of(THREADS)).step_by(TOGETHER) {
        let threads: Vec<_> = (first..first + TOGETHER).map(|seed| thread::spawn(move || connection(seed))).collect();
        held.extend(threads.into_iter().map(|thread| thread.join().expect("no thread panics")));
        while held.len() > HELD {
            checksum += held.pop_front().into_iter().flatten().map(|object| tag(&object)).sum::<u64>();
        }
    }
    End::new(checksum, held)
}

/// Every fourth object is the result.
fn connection(seed: usize) -> Vec<Vec<u8>> {
    let sizes = Sizes::by_doublings(16, 1024);
    let mut rng = fastrand::Rng::with_seed(seed as u64);
    let mut objects: Vec<_> = (0..OBJECTS).map(|at| object(sizes.draw(&mut rng), at)).collect();
    let mut at = 0;
    objects.retain(|_| {
        at += 1;
        at % 4 == 0
    });
    objects
}
