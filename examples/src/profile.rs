//! A heap profile: who allocated what, and what of it is alive, in the format that pprof reads.
//!
//! ```text
//! heap profile: 3: 9000 [ 10: 30000] @ heap_v2/524288      samples alive: their bytes [all samples: their bytes] @ interval
//!   2: 6000 [ 9: 27000] @ 0x55d0c0de 0x55d0c1a2 ...        the same for each place, by its stack
//! MAPPED_LIBRARIES: ...                                    what the addresses belong to
//! ```
//!
//! Figures are those of the samples; pprof scales them up by the interval.

use core::ptr::NonNull;
use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use meshheap::{Profiler, Sample};

/// Frames of a stack that are kept.
const FRAMES: usize = 32;

/// Samples and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// Samples.
    pub samples: usize,
    /// The bytes that were asked for in them.
    pub bytes: usize,
}

impl Count {
    const fn add(&mut self, bytes: usize) {
        self.samples += 1;
        self.bytes += bytes;
    }
}

/// What was allocated at one place, and what of it is alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// Not freed yet.
    pub alive: Count,
    /// All.
    pub allocated: Count,
}

#[derive(Debug, Default)]
struct Tables {
    /// By return addresses, the innermost first.
    places: HashMap<Vec<usize>, Place>,
    /// Where each live sample was allocated, and its size.
    alive: HashMap<usize, (Vec<usize>, usize)>,
}

/// Collects samples; its memory is the system's, not the heap's.
#[derive(Debug, Default)]
pub struct HeapProfile(Mutex<Tables>);

impl HeapProfile {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        // Tables are whole at any moment at which a thread could panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All places together.
    #[must_use]
    pub fn total(&self) -> Place {
        let mut total = Place::default();
        for place in self.tables().places.values() {
            total.alive.samples += place.alive.samples;
            total.alive.bytes += place.alive.bytes;
            total.allocated.samples += place.allocated.samples;
            total.allocated.bytes += place.allocated.bytes;
        }
        total
    }

    /// Writes the profile, for samples taken each `interval` bytes.
    ///
    /// # Errors
    /// `out` cannot be written, or the process's mappings not be read.
    pub fn write(&self, interval: usize, out: &mut impl Write) -> io::Result<()> {
        let line = |place: &Place| {
            let Place { alive, allocated } = place;
            format!("{}: {} [{}: {}] @", alive.samples, alive.bytes, allocated.samples, allocated.bytes)
        };
        writeln!(out, "heap profile: {} heap_v2/{interval}", line(&self.total()))?;
        for (stack, place) in &self.tables().places {
            write!(out, "  {}", line(place))?;
            stack.iter().try_for_each(|address| write!(out, " {address:#x}"))?;
            writeln!(out)?;
        }
        writeln!(out, "\nMAPPED_LIBRARIES:")?;
        out.write_all(&fs::read("/proc/self/maps")?)
    }
}

/// Frames between [`stack`] and whoever allocates: the profiler's, and the handle's that samples.
const OWN_FRAMES: usize = 2;

/// The return addresses of the calling thread, from the allocation on.
#[inline(never)]
fn stack() -> Vec<usize> {
    let mut addresses = Vec::with_capacity(FRAMES);
    let own = (stack as fn() -> Vec<usize>) as usize;
    let mut skipped = None;
    backtrace::trace(|frame| {
        match &mut skipped {
            None if frame.symbol_address().addr() == own => skipped = Some(0),
            Some(frames) if *frames < OWN_FRAMES => *frames += 1,
            Some(_) => addresses.push(frame.ip().addr()),
            None => {}
        }
        addresses.len() < FRAMES
    });
    addresses
}

impl Profiler for HeapProfile {
    // A frame of its own: see `OWN_FRAMES`.
    #[inline(never)]
    fn allocated(&self, sample: Sample) {
        let stack = stack();
        let mut tables = self.tables();
        let place = tables.places.entry(stack.clone()).or_default();
        place.alive.add(sample.size);
        place.allocated.add(sample.size);
        tables.alive.insert(sample.object.addr().get(), (stack, sample.size));
    }

    fn freed(&self, object: NonNull<u8>) {
        let mut tables = self.tables();
        let Some((stack, size)) = tables.alive.remove(&object.addr().get()) else { return };
        if let Some(Place { alive, .. }) = tables.places.get_mut(&stack) {
            alive.samples -= 1;
            alive.bytes -= size;
        }
    }
}
