//! Producers and consumers: every object is freed on another thread than the one that made it.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use crate::objects::{object, tag};
use crate::sizes::Sizes;
use crate::{End, Scale};

const PAIRS: u64 = 2;
const BATCHES: usize = 25_000;
const BATCH: usize = 256;
/// Batches on their way at a time.
const WAITING: usize = 32;

type Batch = Vec<Vec<u8>>;

pub(crate) fn pairs(scale: Scale) -> End {
    let checksum = thread::scope(|scope| {
        let consumers: Vec<_> = (0..PAIRS)
            .map(|pair| {
                let (sender, receiver) = sync_channel(WAITING);
                scope.spawn(move || produce(pair, scale.of(BATCHES), &sender));
                scope.spawn(move || consume(&receiver))
            })
            .collect();
        consumers.into_iter().map(|consumer| consumer.join().expect("consumers do not panic")).sum()
    });
    End::new(checksum, ())
}

fn produce(pair: u64, batches: usize, sender: &SyncSender<Batch>) {
    let sizes = Sizes::uniform(16, 256);
    let mut rng = fastrand::Rng::with_seed(13 + pair);
    for _ in 0..batches {
        let batch = (0..BATCH).map(|at| object(sizes.draw(&mut rng), at)).collect();
        sender.send(batch).expect("the consumer waits for all batches");
    }
}

fn consume(receiver: &Receiver<Batch>) -> u64 {
    receiver.iter().flatten().map(|object| tag(&object)).sum()
}
