//! Slots on their way between spans and shuffle vectors: refill, flush, and single ones for callers without a local heap.

use crate::base::config::{EMPTY_SPANS_PER_UNIT, MAX_DRAIN_UNITS, REFILL_MAX_SPANS, ROW_SPANS_PART};
use crate::base::error::{AllocError, Misuse};
use crate::base::rng::Rng;
use crate::base::sync::MutexGuard;
use crate::base::units::{PageRun, SizeClass};
use crate::ds::shuffle_vector::{Object, ShuffleVector, shuffle};
use crate::page_heap::{Content, Fit, PageHeap};
use crate::platform::{Platform, Touch};
use crate::span::arena::{Arena, Class, SlotOrder, all_classes};
use crate::span::emptied::Emptied;

impl<P: Platform> Arena<P> {
    /// Fills the empty `vector` of `class` with free slots, at least one: from the depot, else `most` from spans, as far as they
    /// fit. The depot's vector comes in exchange for the given one.
    pub(crate) fn refill(
        &self,
        class: SizeClass,
        vector: ShuffleVector,
        most: usize,
        rng: &mut Rng,
    ) -> Result<ShuffleVector, (AllocError, ShuffleVector)> {
        match self.try_refill(class, vector, most, rng) {
            Err((AllocError::OutOfMemory, vector)) => {
                self.reclaim();
                self.try_refill(class, vector, most, rng)
            }
            other => other,
        }
    }

    fn try_refill(
        &self,
        class: SizeClass,
        mut vector: ShuffleVector,
        most: usize,
        rng: &mut Rng,
    ) -> Result<ShuffleVector, (AllocError, ShuffleVector)> {
        let mut guard = self.class(class);
        if let Some(full) = guard.depot.take_full() {
            let surplus = guard.depot.put_empty(vector);
            drop(guard);
            self.free_vector(surplus);
            return Ok(full);
        }
        if let Err(error) = self.claim_from_spans(&mut guard, class, &mut vector, most, rng) {
            return Err((error, vector));
        }
        drop(guard);
        if self.options.slot_order == SlotOrder::FullShuffle {
            shuffle(vector.objects_mut(), rng);
        }
        Ok(vector)
    }

    /// Claims slots of several spans until the vector is full or holds `most`, and at least one.
    fn claim_from_spans(
        &self,
        guard: &mut MutexGuard<'_, Class>,
        class: SizeClass,
        vector: &mut ShuffleVector,
        most: usize,
        rng: &mut Rng,
    ) -> Result<(), AllocError> {
        let most = most.min(vector.capacity());
        for _ in 0..REFILL_MAX_SPANS {
            if vector.length() >= most {
                break;
            }
            let filled = self.fill_fullest(guard);
            if filled.is_err() && vector.length() > 0 {
                break;
            }
            filled?;
            if guard.spans.claim(&self.map, vector, most - vector.length(), rng) == 0 {
                if vector.length() > 0 {
                    break;
                }
                self.add_span(guard, class)?;
            }
        }
        Ok(())
    }

    /// Gives `class` one more span; where it has many, with neighbours, so that they can be meshed as a row.
    fn add_span(&self, guard: &mut MutexGuard<'_, Class>, class: SizeClass) -> Result<Content, AllocError> {
        let span_pages = self.cut(class).pages;
        let (run, content) = {
            let mut pages = self.page_heap();
            let (run, content) = self.take_spans(&mut pages, guard, class)?;
            // Both locks are held (I2).
            for head in run.pages().step_by(span_pages as usize) {
                self.map.set_span(PageRun::new(head, span_pages), class);
            }
            pages.note_tables(run.end(), self.cut(class));
            (run, content)
        };
        self.commit_fresh(run, content, Touch::Dense)?;
        self.forget_pins(run);
        // The first is claimed from first.
        for span in (0..run.count / span_pages).rev() {
            guard.spans.install(&self.map, run.start.plus(span * span_pages));
        }
        Ok(content)
    }

    /// Pages for as many spans as a row has, if so many are few beside those that `class` has; for one where only one does
    /// without fresh memory, or more cannot be had.
    fn take_spans(
        &self,
        pages: &mut PageHeap,
        guard: &Class,
        class: SizeClass,
    ) -> Result<(PageRun, Content), AllocError> {
        let (cut, facts) = (self.cut(class), self.facts());
        let one = Fit::anywhere(cut.pages);
        let rows = facts.can_alias && cut.can_mesh();
        let most = if rows { cut.row_spans() } else { 1 };
        let row = Fit::anywhere(cut.pages * most.min(1 + guard.spans.counts().spans / ROW_SPANS_PART));
        if row.count > one.count && (pages.has_free_run(row.count) || !pages.has_free_run(one.count)) {
            let taken = pages.take(&self.map, row);
            if taken.is_ok() {
                return taken;
            }
        }
        pages.take(&self.map, one)
    }

    /// One free slot of `class`, and what it holds: for callers without a vector.
    pub(crate) fn claim_one(&self, class: SizeClass) -> Result<(Object, Content), AllocError> {
        self.or_reclaim(|| self.try_claim_one(class))
    }

    fn try_claim_one(&self, class: SizeClass) -> Result<(Object, Content), AllocError> {
        let mut guard = self.class(class);
        self.fill_fullest(&mut guard)?;
        if let Some(object) = guard.spans.claim_one(&self.map) {
            return Ok((object, Content::Old));
        }
        let content = self.add_span(&mut guard, class)?;
        let object = guard.spans.claim_one(&self.map).expect("a new span has free slots");
        Ok((object, content))
    }

    /// Releases one slot.
    pub(crate) fn release_one(&self, class: SizeClass, object: Object) -> Result<(), Misuse> {
        let mut guard = self.class(class);
        let mut emptied = Emptied::new(self.cut(class).pages);
        let outcome = guard.spans.release(&self.map, object, &mut emptied);
        self.give_back(guard, emptied);
        outcome
    }

    /// Takes a vector of `class` with slots in: to the depot or, if that has enough, back to the spans. Returns an empty
    /// vector if there is one at hand.
    pub(crate) fn flush(&self, class: SizeClass, vector: ShuffleVector) -> Option<ShuffleVector> {
        let refused = {
            let mut guard = self.class(class);
            match guard.depot.put_full(vector) {
                None => return guard.depot.take_empty(),
                Some(vector) => vector,
            }
        };
        Some(self.release_all(class, refused))
    }

    /// Releases all slots of `vector`, whether it is full or not, and returns it empty.
    pub(crate) fn release_all(&self, class: SizeClass, mut vector: ShuffleVector) -> ShuffleVector {
        self.map.ask_for_spans(self.cut(class), vector.objects());
        let mut objects = vector.objects().iter();
        while !objects.as_slice().is_empty() {
            let mut guard = self.class(class);
            let mut emptied = Emptied::new(self.cut(class).pages);
            let outcome = guard.spans.release_each(&self.map, &mut objects, &mut emptied);
            self.give_back(guard, emptied);
            // Reported with no lock held; the rest goes on in the next round.
            if let Err(misuse) = outcome {
                self.report(misuse);
            }
        }
        vector.clear();
        vector
    }

    /// One unit of giving back what the class keeps for speed: a vector of its depot, full or empty, or a few empty spans.
    /// False if there is nothing left.
    pub(crate) fn drain_some(&self, class: SizeClass) -> bool {
        let mut guard = self.class(class);
        if let Some(vector) = guard.depot.take_full() {
            drop(guard);
            let vector = self.release_all(class, vector);
            self.free_vector(Some(vector));
            return true;
        }
        if let Some(vector) = guard.depot.take_empty() {
            drop(guard);
            self.free_vector(Some(vector));
            return true;
        }
        let mut emptied = Emptied::new(self.cut(class).pages);
        let found = guard.spans.give_up_empty(&self.map, EMPTY_SPANS_PER_UNIT, &mut emptied);
        self.give_back(guard, emptied);
        found
    }

    /// Gives back what the class keeps for speed.
    fn drain(&self, class: SizeClass) {
        // Bounded, as other threads may fill the depot again meanwhile.
        for _ in 0..MAX_DRAIN_UNITS {
            if !self.drain_some(class) {
                break;
            }
        }
    }

    /// Gives back what all classes keep for speed.
    pub(crate) fn drain_all(&self) {
        for class in all_classes() {
            self.drain(class);
        }
    }

    /// What `attempt` gives, tried once more after [`Arena::reclaim`] if it runs out of memory.
    pub(crate) fn or_reclaim<T>(&self, attempt: impl Fn() -> Result<T, AllocError>) -> Result<T, AllocError> {
        match attempt() {
            Err(AllocError::OutOfMemory) => {
                self.reclaim();
                attempt()
            }
            other => other,
        }
    }

    /// Makes free memory of whatever the heap holds without need, after an allocation failed.
    fn reclaim(&self) {
        self.drain_all();
        self.retry_parted();
        // Where dirty pages cannot go back, they must at least join their clean neighbours.
        if !self.facts().can_purge || self.purge(u32::MAX).is_err() {
            self.forget_zeros();
        }
    }

    /// An empty vector for `class`: the depot's, or from the pool.
    pub(crate) fn new_vector(&self, class: SizeClass) -> Result<ShuffleVector, AllocError> {
        if let Some(vector) = self.class(class).depot.take_empty() {
            return Ok(vector);
        }
        let capacity = self.cut(class).vector_slots;
        let bytes = ShuffleVector::bytes(capacity as usize);
        let mut pool = self.metadata.lock(&self.platform);
        let storage = match pool.alloc(bytes) {
            Some(storage) => storage,
            None => {
                let step = pool.next_step(bytes).ok_or(AllocError::MetadataExhausted)?;
                // SAFETY: the step is the next part of the pool's range, and the pool has been locked since.
                unsafe { pool.grow(step) };
                pool.alloc(bytes).ok_or(AllocError::MetadataExhausted)?
            }
        };
        // SAFETY: the storage is as long as `bytes` computed and is the vector's alone.
        Ok(unsafe { ShuffleVector::new(storage, capacity) })
    }

    /// Keeps an empty vector for later, or frees it.
    pub(crate) fn put_empty(&self, class: SizeClass, vector: ShuffleVector) {
        let surplus = self.class(class).depot.put_empty(vector);
        self.free_vector(surplus);
    }

    fn free_vector(&self, vector: Option<ShuffleVector>) {
        let Some(vector) = vector else { return };
        let (storage, bytes) = vector.storage();
        // SAFETY: the storage came from `new_vector` with this length, and the vector is gone.
        unsafe { self.metadata.lock(&self.platform).free(storage, bytes) };
    }
}
