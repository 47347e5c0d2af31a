//! What the collector starts from: the machine's frames and the global variables.

use crate::atoms::Symbol;
use crate::memory::word::Word;
use crate::memory::{Mutator, Value};
use crate::task::Task;

/// One frame: what to do when a value comes back, and the values that are needed for it.
pub(super) type Frame = (Task, [Word; 3]);

/// All roots of one store.
#[derive(Debug, Default)]
pub(super) struct Roots {
    pub(super) frames: Vec<Frame>,
    /// By the number of the variable's symbol.
    globals: Vec<Option<Word>>,
}

impl Roots {
    /// Every word that must stay valid.
    pub(super) fn words(&self) -> impl Iterator<Item = Word> {
        let in_frames = self.frames.iter().flat_map(|(_, words)| words.iter().copied());
        in_frames.chain(self.globals.iter().copied().flatten())
    }
}

impl<'id> Mutator<'id, '_> {
    pub(crate) fn global(&mut self, symbol: Symbol) -> Option<Value<'id>> {
        let word = self.roots().globals.get(symbol.0 as usize).copied().flatten()?;
        Some(self.value(word))
    }

    pub(crate) fn set_global(&mut self, symbol: Symbol, value: Value<'id>) {
        let index = symbol.0 as usize;
        let globals = &mut self.roots().globals;
        if globals.len() <= index {
            globals.resize(index + 1, None);
        }
        globals[index] = Some(value.word());
    }

    /// How many frames there are.
    pub(crate) fn depth(&mut self) -> usize {
        self.roots().frames.len()
    }

    /// Forgets all frames but the first `depth`.
    pub(crate) fn unwind_to(&mut self, depth: usize) {
        self.roots().frames.truncate(depth);
    }

    pub(crate) fn push(&mut self, task: Task, operands: [Value<'id>; 3]) {
        self.roots().frames.push((task, operands.map(Value::word)));
    }

    pub(crate) fn pop(&mut self) -> Option<(Task, [Value<'id>; 3])> {
        let (task, words) = self.roots().frames.pop()?;
        Some((task, words.map(|word| self.value(word))))
    }
}
