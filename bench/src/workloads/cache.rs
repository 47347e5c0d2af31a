//! A cache in memory: least recently used entries go once the values are over a budget. Twice the values' size changes:
//! the memory of the old sizes should serve the new ones.

use std::collections::{BTreeMap, HashMap};

use crate::maps::Hash;
use crate::objects::{tag, touched};
use crate::sizes::Sizes;
use crate::{End, Scale};

const BUDGET: usize = 64 << 20;
const REQUESTS: usize = 900_000;
const KEYS: f64 = 600_000.0;

pub(crate) fn run(scale: Scale) -> End {
    let mut cache = Cache::new(scale.of(BUDGET));
    let keys = KEYS * (scale.of(REQUESTS) as f64 / REQUESTS as f64);
    let mut rng = fastrand::Rng::with_seed(19);
    let mut checksum = 0;
    for sizes in [Sizes::uniform(150, 400), Sizes::uniform(800, 1600), Sizes::uniform(300, 700)] {
        for _ in 0..scale.of(REQUESTS) / 3 {
            // Few keys are asked for often, many seldom.
            let key = (rng.f64().powi(2) * keys) as u64;
            checksum += cache.get(key).unwrap_or_else(|| {
                cache.insert(key, touched(sizes.draw(&mut rng), key as usize));
                1
            });
        }
    }
    End::new(checksum, cache)
}

struct Entry {
    name: String,
    value: Vec<u8>,
    /// When it was used last: its key in `by_use`.
    used: u64,
}

struct Cache {
    entries: HashMap<u64, Entry, Hash>,
    by_use: BTreeMap<u64, u64>,
    clock: u64,
    bytes: usize,
    budget: usize,
}

impl Cache {
    fn new(budget: usize) -> Self {
        Self { entries: HashMap::default(), by_use: BTreeMap::new(), clock: 0, bytes: 0, budget }
    }

    fn get(&mut self, key: u64) -> Option<u64> {
        let entry = self.entries.get_mut(&key)?;
        self.by_use.remove(&entry.used);
        self.clock += 1;
        entry.used = self.clock;
        self.by_use.insert(self.clock, key);
        Some(tag(&entry.value) + entry.name.len() as u64)
    }

    fn insert(&mut self, key: u64, value: Vec<u8>) {
        self.clock += 1;
        self.bytes += value.capacity();
        self.entries.insert(key, Entry { name: format!("session:{key}"), value, used: self.clock });
        self.by_use.insert(self.clock, key);
        while self.bytes > self.budget
            && let Some((_, oldest)) = self.by_use.pop_first()
            && let Some(entry) = self.entries.remove(&oldest)
        {
            self.bytes -= entry.value.capacity();
        }
    }
}
