//! The objects that a scenario keeps, and what it holds for them.

use meshheap_linux::memory;

use super::Seen;

/// How many bytes are allocated from one look at the process's memory to the next: a look takes up to milliseconds.
const LOOK_BYTES: usize = 4 << 20;

/// Live objects and what was seen of the process's memory. Their table is made first, and touched: it belongs to the program.
pub(super) struct Kept {
    objects: Vec<Box<[u8]>>,
    live_bytes: usize,
    most_live_bytes: usize,
    /// Bytes allocated since the last look.
    unseen_bytes: usize,
    start_pss_bytes: Option<usize>,
    peak_pss_bytes: Option<usize>,
    rng: fastrand::Rng,
}

impl Kept {
    /// Room for so many objects.
    pub(super) fn with_room(count: usize) -> Self {
        let mut objects: Vec<Box<[u8]>> = Vec::new();
        objects.resize_with(count, Default::default);
        objects.clear();
        Self {
            objects,
            live_bytes: 0,
            most_live_bytes: 0,
            unseen_bytes: 0,
            start_pss_bytes: memory::pss_bytes(),
            peak_pss_bytes: None,
            rng: fastrand::Rng::with_seed(23),
        }
    }

    pub(super) const fn live_bytes(&self) -> usize {
        self.live_bytes
    }

    /// Allocates an object.
    pub(super) fn add(&mut self, size: usize) {
        assert!(self.objects.len() < self.objects.capacity(), "the table is made once");
        self.objects.push(vec![self.rng.u8(1..); size].into_boxed_slice());
        self.live_bytes += size;
        self.most_live_bytes = self.most_live_bytes.max(self.live_bytes);
        self.unseen_bytes += size;
        if self.unseen_bytes >= LOOK_BYTES {
            self.look();
        }
    }

    /// Frees all but one in so many objects, in random order.
    pub(super) fn thin(&mut self, one_in: usize) {
        self.rng.shuffle(&mut self.objects);
        self.free_down_to(self.objects.len() / one_in);
    }

    /// Frees all but every so many-th, in the order in which they were made.
    pub(super) fn keep_every(&mut self, nth: usize) {
        let mut at = 0;
        self.objects.retain(|_| {
            at += 1;
            at % nth == 1
        });
        self.count_live();
    }

    /// Frees every object, in random order.
    pub(super) fn free_all(&mut self) {
        self.rng.shuffle(&mut self.objects);
        self.free_down_to(0);
    }

    fn free_down_to(&mut self, count: usize) {
        self.objects.truncate(count);
        self.count_live();
    }

    fn count_live(&mut self) {
        self.live_bytes = self.objects.iter().map(|object| object.len()).sum();
    }

    /// Pss now, without what the program began with.
    pub(super) fn look(&mut self) -> Option<usize> {
        self.unseen_bytes = 0;
        let pss = memory::pss_bytes()?.saturating_sub(self.start_pss_bytes?);
        self.peak_pss_bytes = self.peak_pss_bytes.max(Some(pss));
        Some(pss)
    }

    /// # Panics
    /// If an object has lost its bytes: each is filled with one value.
    pub(super) fn into_seen(self, loaded_pss_bytes: Option<usize>, held_pss_bytes: Option<usize>) -> Seen {
        let mut checksum = 0_u64;
        for object in &self.objects {
            assert!(object.iter().all(|byte| *byte == object[0]), "an object has lost its bytes");
            checksum = checksum.rotate_left(5) ^ u64::from(object[0]);
        }
        Seen {
            checksum,
            live_bytes: self.live_bytes,
            most_live_bytes: self.most_live_bytes,
            peak_pss_bytes: self.peak_pss_bytes,
            loaded_pss_bytes,
            held_pss_bytes,
        }
    }
}
