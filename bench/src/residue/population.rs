//! The objects of one heap: their making, their dying and the proof that the survivors' bytes are theirs.

use core::alloc::Layout;
use core::ptr::NonNull;

use anyhow::{Context, ensure};

use crate::residue::heap::{self, Local};
use crate::residue::scenario::{Scenario, Survivors};

/// Objects and, at the same index, the seed of their bytes. Its own memory is allocated and touched when it is made, before
/// anything is measured.
pub(crate) struct Population {
    layout: Layout,
    objects: Vec<Option<NonNull<u8>>>,
    /// The order in which objects meet their fate.
    order: Vec<u32>,
    rng: fastrand::Rng,
}

impl Population {
    pub(crate) fn new(scenario: &Scenario, seed: u64) -> anyhow::Result<Self> {
        let layout = Layout::from_size_align(scenario.size, align_of::<u64>())?;
        ensure!(layout.size().is_multiple_of(size_of::<u64>()), "objects are filled by words");
        let count = u32::try_from(scenario.objects()).context("too many objects")?;
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut order: Vec<u32> = (0..count).collect();
        rng.shuffle(&mut order);
        // Not none: memory of zeros would be left untouched.
        Ok(Self { layout, objects: vec![Some(NonNull::dangling()); scenario.objects()], order, rng })
    }

    /// Allocates all objects and writes all of their bytes.
    pub(crate) fn fill(&mut self, local: &mut Local<'_>) -> anyhow::Result<()> {
        for (index, place) in self.objects.iter_mut().enumerate() {
            let object = local.alloc(self.layout).map_err(heap::failed)?;
            for word in 0..self.layout.size() / size_of::<u64>() {
                // SAFETY: the word lies in the object, which is ours.
                let at = unsafe { object.cast::<u64>().add(word) };
                // SAFETY: as above; objects are aligned to 16 bytes.
                unsafe { at.write(pattern(index, word)) };
            }
            *place = Some(object);
        }
        Ok(())
    }

    /// Frees all but the survivors, in random order.
    pub(crate) fn thin(&mut self, local: &mut Local<'_>, survivors: Survivors) {
        for &index in &self.order {
            let index = index as usize;
            let survives = match survivors {
                Survivors::Random(share) => self.rng.f64() < share,
                Survivors::Every(n) => index.is_multiple_of(n),
            };
            if survives {
                continue;
            }
            if let Some(object) = self.objects[index].take() {
                // SAFETY: `fill` allocated it with this layout, and nothing knows of it any more.
                unsafe { local.dealloc(object, self.layout) };
            }
        }
    }

    /// Reads every byte of every survivor.
    pub(crate) fn verify(&self) -> anyhow::Result<()> {
        for (index, object) in self.objects.iter().enumerate() {
            let Some(object) = object else { continue };
            for word in 0..self.layout.size() / size_of::<u64>() {
                // SAFETY: the word lies in the object, which is alive.
                let at = unsafe { object.cast::<u64>().add(word) };
                // SAFETY: as above, and `fill` wrote it.
                let found = unsafe { at.read() };
                ensure!(found == pattern(index, word), "object {index} at {object:?} lost its bytes at word {word}");
            }
        }
        Ok(())
    }

    /// Bytes that survivors asked for.
    pub(crate) fn live_bytes(&self) -> usize {
        self.objects.iter().flatten().count() * self.layout.size()
    }
}

/// What word `word` of object `index` holds: another value in each.
const fn pattern(index: usize, word: usize) -> u64 {
    ((index as u64) << 20 | word as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::Population;
    use crate::residue::heap;
    use crate::residue::scenario::Scenario;

    #[test]
    fn a_changed_byte_is_found() {
        let scenario = Scenario::rehearsal();
        let heap = heap::new(1, scenario.order).expect("a heap");
        let mut local = heap.local();
        let mut population = Population::new(&scenario, 1).expect("a population");
        population.fill(&mut local).expect("objects");
        population.thin(&mut local, scenario.survivors);
        population.verify().expect("nothing has changed yet");
        let survivor = population.objects.iter().flatten().last().expect("some survive");
        // SAFETY: the last byte of an object that is alive.
        let last = unsafe { survivor.add(scenario.size - 1) };
        // SAFETY: as above; it was written by `fill`.
        let old = unsafe { last.read() };
        // SAFETY: as above.
        unsafe { last.write(!old) };
        population.verify().expect_err("a byte has changed");
    }
}
