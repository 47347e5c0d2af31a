//! Heap profiles: one allocation in so many bytes is told to the embedder, and its free. A type around local heaps, so that
//! those without it have no instruction for it.
//!
//! ```text
//!   bytes allocated by one handle  ──┬─────┬──┬─────────────┬───▶    points of a Poisson process
//!                                 └a┘└───b───┘└─c─┘└────d────┘       an object with points is sampled: b (2), d (1)
//! ```

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;

use crate::base::error::{AllocError, Misuse};
use crate::base::rng::Rng;
use crate::base::sync::{AtomicUsize, Ordering};
use crate::heap::Heap;
use crate::heap::marks::MarkBits;
use crate::local_heap::LocalHeap;
use crate::platform::Platform;

/// Beyond so many intervals an object has as many points as are expected: chance hardly matters there.
const COUNTED_INTERVALS: u64 = 64;

/// One sampled allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Sample {
    /// The object.
    pub object: NonNull<u8>,
    /// The bytes that were asked for.
    pub size: usize,
    /// The bytes that it stands for: a multiple of the interval. Summed up, they are on average what was allocated, for each
    /// place in the program and each size.
    pub weight_bytes: usize,
}

/// What becomes of samples: a heap profile. Called by the thread that allocates or frees, which holds no lock of the heap.
/// It must not use the handle that calls it.
pub trait Profiler: Sync {
    /// An object was sampled when it was allocated. The caller's stack is that of the allocation.
    fn allocated(&self, sample: Sample);

    /// A sampled object is about to be freed: nobody else has its address before this returns.
    fn freed(&self, object: NonNull<u8>);
}

/// Sampling for one heap: makes handles that tell a [`Profiler`] of one allocation in `interval_bytes` on average, whatever
/// their sizes, and of the frees of these.
///
/// The points at which a handle samples are those of a Poisson process along the bytes that it allocates, as pprof and its
/// kin expect: a profile in their `heap_v2` format names the interval and counts samples. With an interval of 1 each object
/// is sampled.
///
/// All handles of the heap that allocate or free should be its own: an object that is freed in another way keeps its mark, and
/// its free is told when the next object at its place is freed. It needs a bit for each slot, as a collector does:
/// [`Heap::marks`].
///
/// ```
/// # #[cfg(feature = "simulated")]
/// # fn main() -> Result<(), meshheap::AllocError> {
/// # use core::alloc::Layout;
/// # use core::ptr::NonNull;
/// # use std::sync::atomic::{AtomicUsize, Ordering};
/// # let platform = meshheap::SimulatedPlatform::new(4096);
/// # let mut options = meshheap::Options::default();
/// # options.arena_bytes = 4 << 20;
/// # let heap = meshheap::Heap::with_options(&platform, options)?;
/// use meshheap::{Profiler, Sample, Sampling};
///
/// struct Total(AtomicUsize);
/// impl Profiler for Total {
///     fn allocated(&self, sample: Sample) {
///         self.0.fetch_add(sample.weight_bytes, Ordering::Relaxed);
///     }
///     fn freed(&self, _: NonNull<u8>) {}
/// }
/// let sampling = Sampling::new(&heap, 4096, Total(AtomicUsize::new(0)))?;
/// let mut local = sampling.local();
/// for _ in 0..10_000 {
///     local.alloc(Layout::new::<[u64; 8]>())?;
/// }
/// let estimate = sampling.profiler().0.load(Ordering::Relaxed);
/// assert!(estimate.abs_diff(640_000) < 200_000, "{estimate}");
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "simulated"))]
/// # fn main() {}
/// ```
pub struct Sampling<'h, P: Platform, S> {
    heap: &'h Heap<P>,
    /// The objects that were sampled: what a free looks at.
    sampled: MarkBits<'h, P>,
    interval_bytes: u64,
    seed: u64,
    handles: AtomicUsize,
    profiler: S,
}

impl<P: Platform, S> fmt::Debug for Sampling<'_, P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampling").field("interval_bytes", &self.interval_bytes).finish_non_exhaustive()
    }
}

impl<'h, P: Platform, S: Profiler> Sampling<'h, P, S> {
    /// One sample in `interval_bytes` bytes on average (0 counts as 1); common are 512 KiB.
    ///
    /// # Errors
    /// The platform refuses the memory for the marks.
    pub fn new(heap: &'h Heap<P>, interval_bytes: usize, profiler: S) -> Result<Self, AllocError> {
        Ok(Self {
            heap,
            sampled: heap.marks()?,
            interval_bytes: interval_bytes.max(1) as u64,
            seed: heap.arena().new_stream().next(),
            handles: AtomicUsize::new(0),
            profiler,
        })
    }

    /// A handle for the calling thread.
    pub fn local(&self) -> SampledLocal<'_, 'h, P, S> {
        // Relaxed: only the numbers have to differ.
        let mut rng = Rng::new(self.seed, self.handles.fetch_add(1, Ordering::Relaxed) as u64);
        SampledLocal { local: self.heap.local(), left: next_gap(self.interval_bytes, &mut rng), rng, sampling: self }
    }

    /// The profiler.
    pub const fn profiler(&self) -> &S {
        &self.profiler
    }
}

/// A [`LocalHeap`] whose allocations are sampled: a subtraction more for an allocation, and a look at a mark for a free.
pub struct SampledLocal<'s, 'h, P: Platform, S> {
    local: LocalHeap<&'h Heap<P>>,
    /// Bytes up to the next point, that of the point included.
    left: u64,
    rng: Rng,
    sampling: &'s Sampling<'h, P, S>,
}

impl<P: Platform, S> fmt::Debug for SampledLocal<'_, '_, P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SampledLocal").field("left", &self.left).finish_non_exhaustive()
    }
}

impl<P: Platform, S: Profiler> SampledLocal<'_, '_, P, S> {
    /// As [`LocalHeap::alloc`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn alloc(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        let object = self.local.alloc(layout)?;
        self.count(object, layout.size());
        Ok(object)
    }

    /// As [`LocalHeap::alloc_zeroed`].
    ///
    /// # Errors
    /// As there.
    pub fn alloc_zeroed(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        let object = self.local.alloc_zeroed(layout)?;
        self.count(object, layout.size());
        Ok(object)
    }

    /// As [`LocalHeap::dealloc`].
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub unsafe fn dealloc(&mut self, object: NonNull<u8>, layout: Layout) {
        self.forget(object);
        // SAFETY: the caller keeps the same contract.
        unsafe { self.local.dealloc(object, layout) };
    }

    /// As [`LocalHeap::free`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn free(&mut self, object: NonNull<u8>) -> Result<(), Misuse> {
        self.sampling.heap.slot_size(object)?;
        self.forget(object);
        // SAFETY: the caller keeps the same contract.
        unsafe { self.local.free(object) }
    }

    /// As [`LocalHeap::realloc`]. For the profile, an object is freed and another allocated.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn realloc(
        &mut self,
        object: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Result<NonNull<u8>, AllocError> {
        if !self.sampling.sampled.is_marked(object) {
            // SAFETY: the caller keeps the same contract.
            let resized = unsafe { self.local.realloc(object, layout, new_size) }?;
            self.count(resized, new_size);
            return Ok(resized);
        }
        // By hand: its free is told before its place is anybody else's, and only if there is a new one.
        let new_layout = Layout::from_size_align(new_size, layout.align()).map_err(|_| AllocError::TooLarge)?;
        let moved = self.alloc(new_layout)?;
        // SAFETY: both objects hold at least as many bytes, and they are two.
        unsafe { moved.copy_from_nonoverlapping(object, layout.size().min(new_size)) };
        // SAFETY: the caller gave the object up.
        unsafe { self.dealloc(object, layout) };
        Ok(moved)
    }

    /// As [`LocalHeap::flush`].
    pub fn flush(&mut self) {
        self.local.flush();
    }

    /// `object`, of `size` bytes, was allocated.
    #[inline]
    fn count(&mut self, object: NonNull<u8>, size: usize) {
        let bytes = size.max(1) as u64;
        if bytes < self.left {
            self.left -= bytes;
        } else {
            self.sample(object, size, bytes);
        }
    }

    #[cold]
    #[inline(never)]
    fn sample(&mut self, object: NonNull<u8>, size: usize, bytes: u64) {
        let interval = self.sampling.interval_bytes;
        let (mut points, mut rest) = (1, bytes - self.left);
        if rest / interval >= COUNTED_INTERVALS {
            points += rest / interval;
            rest %= interval;
        }
        self.left = next_gap(interval, &mut self.rng);
        // Bounded: each round takes a byte at least off less than `COUNTED_INTERVALS` intervals, and on average a whole one.
        while rest >= self.left {
            points += 1;
            rest -= self.left;
            self.left = next_gap(interval, &mut self.rng);
        }
        self.left -= rest;
        let weight_bytes = usize::try_from(points.saturating_mul(interval)).unwrap_or(usize::MAX);
        self.sampling.sampled.mark(object);
        self.sampling.profiler.allocated(Sample { object, size, weight_bytes });
    }

    /// `object` is about to be freed.
    #[inline]
    fn forget(&self, object: NonNull<u8>) {
        if self.sampling.sampled.is_marked(object) {
            self.tell_free(object);
        }
    }

    #[cold]
    #[inline(never)]
    fn tell_free(&self, object: NonNull<u8>) {
        if self.sampling.sampled.unmark(object) {
            self.sampling.profiler.freed(object);
        }
    }
}

/// Bytes from one point to the next, at least 1 and on average `interval`: geometrically distributed.
fn next_gap(interval: u64, rng: &mut Rng) -> u64 {
    if interval == 1 {
        return 1;
    }
    // An exponential number of this mean, rounded up, has the mean `interval` (but for one part in twelve of its square).
    let mean_of_two = u128::from(2 * interval - 1);
    let gap = (mean_of_two * u128::from(exponential(rng))) >> (32 + 1);
    u64::try_from(gap).unwrap_or(u64::MAX).saturating_add(1)
}

/// An exponentially distributed number of mean 1, with 32 bits behind the point: by comparisons alone (von Neumann 1951), as
/// there are no logarithms without a library.
fn exponential(rng: &mut Rng) -> u64 {
    // Each round ends it with probability 1 - 1/e; beyond the last there is less than one in 10^27.
    for whole in 0..64 {
        let fraction = rng.next() >> 32;
        let (mut lowest, mut descending) = (fraction, 1);
        // The run of numbers that descend is odd with probability exp(-fraction). It is short: of `n` with probability 1 - 1/n!.
        loop {
            let next = rng.next() >> 32;
            if next >= lowest {
                break;
            }
            (lowest, descending) = (next, descending + 1);
        }
        if descending % 2 == 1 {
            return whole << 32 | fraction;
        }
    }
    64 << 32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{exponential, next_gap};
    use crate::base::rng::Rng;

    const DRAWS: u32 = 200_000;

    #[test]
    fn gaps_have_the_mean_that_was_asked_for() {
        let mut rng = Rng::new(1, 0);
        assert!((0..100).all(|_| next_gap(1, &mut rng) == 1));
        for interval in [2, 10, 1000, 512 << 10] {
            let sum: u64 = (0..DRAWS).map(|_| next_gap(interval, &mut rng)).sum();
            let mean = sum as f64 / f64::from(DRAWS);
            let off = (mean / interval as f64 - 1.0).abs();
            // The mean's deviation is a 450th of it.
            assert!(off < if interval == 2 { 0.08 } else { 0.01 }, "{mean} for {interval}");
        }
    }

    #[test]
    fn exponential_numbers_exceed_x_in_one_case_of_e_to_the_x() {
        let mut rng = Rng::new(2, 0);
        let draws: std::vec::Vec<_> = (0..DRAWS).map(|_| exponential(&mut rng) as f64 / 2.0_f64.powi(32)).collect();
        for x in [0.1, 0.5, 1.0, 2.0, 4.0_f64] {
            let above = draws.iter().filter(|&&draw| draw > x).count() as f64 / f64::from(DRAWS);
            assert!((above - (-x).exp()).abs() < 0.005, "{above} beyond {x}");
        }
    }
}
