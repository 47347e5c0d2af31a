//! A recorded program instead of made-up sizes and deaths: many states of it replay the same trace side by side, each a little
//! further than the one before, as the sessions of a server would be; then most states end.

use core::alloc::Layout;
use core::ptr::NonNull;

use anyhow::{Context, ensure};
use meshheap::{MeshBudget, SlotOrder};
use serde::Serialize;
use workloads::trace::{Call, lua};

use crate::measure::{cpu_time, milliseconds, ratio, warm};
use crate::residue::heap::{self, Local};
use crate::residue::passes::{self, Passes};

/// States at the same time: some 48 MiB.
const STATES: usize = 256;
/// Calls of one state before it is the next one's turn.
const TURN: usize = 500;
/// More than the states take.
const WARM_BYTES: usize = 64 << 20;

/// One heap that the states lived on.
#[derive(Serialize)]
pub(crate) struct Traced {
    /// States that live on when it is meshed: one in so many.
    pub(crate) one_in: usize,
    pub(crate) shuffled: bool,
    pub(crate) live_bytes: usize,
    pub(crate) held_before_bytes: usize,
    pub(crate) held_bytes: usize,
    /// CPU time of the calls alone, with a write to every byte of every object.
    pub(crate) replay_cpu_ms: f64,
    pub(crate) passes: Passes,
}

impl Traced {
    pub(crate) fn held_before_per_live(&self) -> f64 {
        ratio(self.held_before_bytes, self.live_bytes)
    }

    pub(crate) fn held_per_live(&self) -> f64 {
        ratio(self.held_bytes, self.live_bytes)
    }
}

/// All states alive, and one in ten of them; each with the slots in either order.
pub(crate) fn run_all(seed: u64) -> anyhow::Result<Vec<Traced>> {
    let calls = lua();
    let mut traced = Vec::new();
    for one_in in [1, 10] {
        for order in [SlotOrder::RandomRotation, SlotOrder::FullShuffle] {
            traced.push(run(&calls, STATES, one_in, order, seed)?);
        }
    }
    Ok(traced)
}

fn run(calls: &[Call], states: usize, one_in: usize, order: SlotOrder, seed: u64) -> anyhow::Result<Traced> {
    warm(WARM_BYTES);
    let mut rng = fastrand::Rng::with_seed(seed);
    let heap = heap::new(seed, order)?;
    let mut local = heap.local();
    let mut states: Vec<State> = (0..states).map(|tag| State { tag: tag as u8, ..State::default() }).collect();
    let (outcome, replay) = cpu_time(|| replay(&mut states, calls, &mut local));
    outcome?;
    states.retain_mut(|state| {
        let lives_on = rng.usize(..one_in) == 0;
        if !lives_on {
            state.end(&mut local);
        }
        lives_on
    });
    local.flush();
    let before = heap.statistics();
    let passes = passes::to_the_end(&heap, MeshBudget::UNLIMITED)?;
    states.iter().try_for_each(State::verify)?;
    Ok(Traced {
        one_in,
        shuffled: order == SlotOrder::FullShuffle,
        live_bytes: states.iter().map(State::live_bytes).sum(),
        held_before_bytes: before.held_bytes,
        held_bytes: heap.statistics().held_bytes,
        replay_cpu_ms: milliseconds(replay),
        passes,
    })
}

/// Turn by turn; the states stop at moments that are spread over the whole trace.
fn replay(states: &mut [State], calls: &[Call], local: &mut Local<'_>) -> anyhow::Result<()> {
    let count = states.len();
    for (turn, some) in calls.chunks(TURN).enumerate() {
        for (number, state) in states.iter_mut().enumerate() {
            let stops_at = calls.len() * (number + 1) / (count + 1);
            let left = stops_at.saturating_sub(turn * TURN).min(some.len());
            some[..left].iter().try_for_each(|&call| state.step(call, local))?;
        }
    }
    Ok(())
}

/// One program's objects, of which every byte is the state's tag.
#[derive(Default)]
struct State {
    tag: u8,
    slots: Vec<Option<(NonNull<u8>, usize)>>,
    free: Vec<usize>,
}

fn layout(size: usize) -> anyhow::Result<Layout> {
    Ok(Layout::from_size_align(size, align_of::<u64>())?)
}

impl State {
    fn step(&mut self, call: Call, local: &mut Local<'_>) -> anyhow::Result<()> {
        match call {
            Call::Alloc(size) => {
                let object = local.alloc(layout(size)?).map_err(heap::failed)?;
                // SAFETY: the object is ours and this large.
                unsafe { object.write_bytes(self.tag, size) };
                let slot = self.free.pop().unwrap_or(self.slots.len());
                if slot == self.slots.len() {
                    self.slots.push(None);
                }
                self.slots[slot] = Some((object, size));
            }
            Call::Free(slot) => {
                let (object, size) = self.slots[slot].take().context("the program freed what it had")?;
                // SAFETY: allocated with this layout, and forgotten.
                unsafe { local.dealloc(object, layout(size)?) };
                self.free.push(slot);
            }
            Call::Resize(slot, size) => {
                let (object, old) = self.slots[slot].context("the program resized what it had")?;
                // SAFETY: allocated with this layout; the old pointer is overwritten below.
                let object = unsafe { local.realloc(object, layout(old)?, size) }.map_err(heap::failed)?;
                if size > old {
                    // SAFETY: the object has room for `size` bytes, of which the first `old` are written.
                    let grown = unsafe { object.add(old) };
                    // SAFETY: as above.
                    unsafe { grown.write_bytes(self.tag, size - old) };
                }
                self.slots[slot] = Some((object, size));
            }
        }
        Ok(())
    }

    fn end(&mut self, local: &mut Local<'_>) {
        for (object, size) in self.slots.drain(..).flatten() {
            let layout = layout(size).expect("it was allocated with it");
            // SAFETY: allocated with this layout, and forgotten.
            unsafe { local.dealloc(object, layout) };
        }
    }

    fn live_bytes(&self) -> usize {
        self.slots.iter().flatten().map(|&(_, size)| size).sum()
    }

    fn verify(&self) -> anyhow::Result<()> {
        for &(object, size) in self.slots.iter().flatten() {
            // SAFETY: the object is alive, and all of its bytes were written.
            let bytes = unsafe { core::slice::from_raw_parts(object.as_ptr(), size) };
            ensure!(
                bytes.iter().all(|&byte| byte == self.tag),
                "an object of {size} bytes at {object:?} lost its bytes"
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{State, run};
    use crate::residue::heap;
    use meshheap::SlotOrder;
    use workloads::trace::{Call, lua};

    #[test]
    fn a_few_states_are_meshed_and_verified() {
        let traced = run(&lua(), 16, 4, SlotOrder::RandomRotation, 1).expect("the states' bytes are theirs");
        assert!(traced.live_bytes > 0 && traced.passes.pages_meshed > 0);
        assert!(traced.held_bytes < traced.held_before_bytes);
    }

    #[test]
    fn a_changed_byte_is_found() {
        let heap = heap::new(1, SlotOrder::RandomRotation).expect("a heap");
        let mut state = State { tag: 7, ..State::default() };
        state.step(Call::Alloc(100), &mut heap.local()).expect("there is memory");
        state.verify().expect("as it was written");
        let (object, size) = state.slots[0].expect("it was allocated");
        // SAFETY: the object is alive and this large.
        let last = unsafe { object.add(size - 1) };
        // SAFETY: as above.
        unsafe { last.write(8) };
        assert!(state.verify().is_err());
    }
}
