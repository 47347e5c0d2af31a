//! Runs recorded traces.

use super::format::{Call, decode};
use crate::objects::{object, tag};
use crate::{End, Scale};

/// `traces/record.lua`, recorded by `record_lua`.
const LUA: &[u8] = include_bytes!("../../../traces/lua.trace");

/// Replays that go on at the same time, as the states of a server would.
const STATES: usize = 16;
const ROUNDS: usize = 24;
/// Calls of one replay before it is the next one's turn.
const TURN: usize = 500;

/// The calls of the recorded Lua program.
#[must_use]
pub fn lua() -> Vec<Call> {
    decode(LUA).expect("the trace is part of the program")
}

pub(crate) fn run(scale: Scale) -> End {
    let calls = lua();
    let mut checksum = 0;
    let mut replays = Vec::new();
    for _ in 0..scale.of(ROUNDS) {
        replays = (0..STATES).map(|_| Replay::default()).collect::<Vec<_>>();
        for turn in calls.chunks(TURN) {
            for replay in &mut replays {
                turn.iter().for_each(|&call| replay.step(call));
            }
        }
        checksum += replays.iter().map(|replay| replay.checksum).sum::<u64>();
    }
    End::new(checksum, replays)
}

/// One program's objects.
#[derive(Default)]
pub(super) struct Replay {
    slots: Vec<Option<Vec<u8>>>,
    free: Vec<usize>,
    checksum: u64,
}

impl Replay {
    /// Does what the program did.
    pub(super) fn step(&mut self, call: Call) {
        match call {
            Call::Alloc(size) => {
                let object = Some(object(size, size));
                match self.free.pop() {
                    Some(slot) => self.slots[slot] = object,
                    None => self.slots.push(object),
                }
            }
            Call::Free(slot) => {
                let object = self.slots[slot].take().expect("the program freed what it had");
                self.checksum += tag(&object);
                self.free.push(slot);
            }
            Call::Resize(slot, size) => {
                resize(self.slots[slot].as_mut().expect("the program resized what it had"), size)
            }
        }
    }

    #[cfg(test)]
    pub(super) fn live_bytes(&self) -> usize {
        self.slots.iter().flatten().map(Vec::capacity).sum()
    }
}

fn resize(object: &mut Vec<u8>, size: usize) {
    if size > object.capacity() {
        object.reserve_exact(size - object.len());
    } else {
        object.truncate(size);
        object.shrink_to(size);
    }
}
