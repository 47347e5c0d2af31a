//! Writes down what a program does, by the addresses that it knows.

use std::collections::HashMap;

use super::format::Call;

/// A trace in the making.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    calls: Vec<Call>,
    slots: HashMap<usize, usize>,
    free: Vec<usize>,
    fresh: usize,
}

impl Recorder {
    /// The program got an object.
    pub fn alloc(&mut self, address: usize, size: usize) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.fresh += 1;
            self.fresh - 1
        });
        self.slots.insert(address, slot);
        self.calls.push(Call::Alloc(size));
    }

    /// The program gave an object back. Addresses that were never recorded are left out.
    pub fn free(&mut self, address: usize) {
        let Some(slot) = self.slots.remove(&address) else { return };
        self.free.push(slot);
        self.calls.push(Call::Free(slot));
    }

    /// An object got another size, and perhaps another address.
    pub fn resize(&mut self, old: usize, new: usize, size: usize) {
        let Some(slot) = self.slots.remove(&old) else { return };
        self.slots.insert(new, slot);
        self.calls.push(Call::Resize(slot, size));
    }

    /// Everything so far.
    #[must_use]
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }
}

#[cfg(test)]
mod tests {
    use super::super::replay::Replay;
    use super::Recorder;
    use crate::trace::Call;

    #[test]
    fn a_recorded_program_replays() {
        let mut recorder = Recorder::default();
        recorder.alloc(0x1000, 10);
        recorder.alloc(0x2000, 20);
        recorder.resize(0x1000, 0x3000, 100);
        recorder.free(0x2000);
        recorder.alloc(0x2000, 30);
        recorder.free(0x3000);
        let calls = recorder.calls();
        assert_eq!(calls[3..], [Call::Free(1), Call::Alloc(30), Call::Free(0)]);
        let mut replay = Replay::default();
        calls.iter().for_each(|&call| replay.step(call));
        assert_eq!(replay.live_bytes(), 30);
    }
}
