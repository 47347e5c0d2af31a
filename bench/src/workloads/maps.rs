//! Maps of strings: filled, asked, half of them replaced. Both are held at the end.

use core::hash::BuildHasherDefault;
use std::collections::{BTreeMap, HashMap};
use std::hash::DefaultHasher;

use crate::{End, Scale};

const HASHED: usize = 250_000;
const SORTED: usize = 200_000;
const ROUNDS: usize = 3;

/// Without a random seed, for the same order in every run.
pub(crate) type Hash = BuildHasherDefault<DefaultHasher>;

pub(crate) fn hash(scale: Scale) -> End {
    let mut map: HashMap<String, String, Hash> = HashMap::default();
    let mut checksum = 0;
    let mut keys = Keys::new(scale.of(HASHED));
    for _ in 0..ROUNDS {
        while map.len() < keys.count {
            let (key, value) = keys.pair();
            map.insert(key, value);
        }
        let asked = (0..keys.count).map(|_| keys.pair().0);
        checksum += asked.filter_map(|key| map.get(&key)).map(|value| value.len() as u64).sum::<u64>();
        map.retain(|key, _| !key.len().is_multiple_of(2));
    }
    End::new(checksum, map)
}

pub(crate) fn tree(scale: Scale) -> End {
    let mut map = BTreeMap::new();
    let mut checksum = 0;
    let mut keys = Keys::new(scale.of(SORTED));
    for _ in 0..ROUNDS {
        while map.len() < keys.count {
            let (key, value) = keys.pair();
            map.insert(key, value);
        }
        for _ in 0..keys.count / 8 {
            let range = map.range(keys.pair().0..).take(8);
            checksum += range.map(|(key, value)| (key.len() + value.len()) as u64).sum::<u64>();
        }
        map.retain(|key, _| !key.len().is_multiple_of(2));
    }
    End::new(checksum, map)
}

/// Random keys, about twice as many different ones as a map shall hold.
struct Keys {
    count: usize,
    rng: fastrand::Rng,
}

impl Keys {
    const fn kinds(&self) -> usize {
        2 * self.count + 16
    }

    fn new(count: usize) -> Self {
        Self { count, rng: fastrand::Rng::with_seed(16) }
    }

    fn pair(&mut self) -> (String, String) {
        let number = self.rng.usize(..self.kinds());
        let tail = "abcdefghijklmnopqrstuvwxyz";
        let key = format!("user/{number}/{}", &tail[..number * 7 % 24]);
        let value = tail.repeat(1 + number % 5);
        (key, value)
    }
}
