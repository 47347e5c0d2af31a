//! The evaluator: a loop over small steps, with its stack in the store's roots instead of Rust's stack.
//!
//! ```text
//!   Evaluate { expression, scope } ──▶ a frame for what is to be done afterwards, and a smaller Evaluate
//!   Return(value)                  ──▶ the top frame says what to do with the value
//! ```
//!
//! # Why this way
//! * A call in tail position leaves no frame behind, so loops written as recursion run in constant space.
//! * Recursion that is too deep is a count that is too large, not an overflow of the stack.
//! * Between two steps all that is needed lies in the roots or in the state, so that the machine can pause anywhere: for a
//!   collection, for a step of meshing, or to make a step that had no memory once more.
//!
//! So a step allocates before it changes anything that others can see.

use std::io::Write;

use meshheap::AllocError;

use crate::error::{LispError, Stop};
use crate::forms;
use crate::memory::{Mutator, Value};
use crate::printer::{Style, print};
use crate::scope;
use crate::symbols::{Keyword, Symbols};
use crate::task::Task;

/// What the machine does next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum State<'id> {
    Evaluate { expression: Value<'id>, scope: Value<'id> },
    Return(Value<'id>),
}

/// The state after a step.
pub(crate) type Step<'id> = Result<State<'id>, Stop>;

/// Why the machine stands still. But for the first and the last, it can go on.
#[derive(Debug)]
pub(crate) enum Pause {
    /// The form has this value.
    Done(String),
    /// A moment for housekeeping.
    Safepoint,
    /// The next step found no memory.
    Memory(AllocError),
    /// Nothing handled this error.
    Failed(LispError),
}

/// What the machine uses besides memory.
pub(crate) struct World {
    pub(crate) symbols: Symbols,
    pub(crate) output: Box<dyn Write>,
    /// The state of `random`.
    pub(crate) random: u64,
    /// More frames are an error.
    pub(crate) frame_limit: usize,
    /// The script called `collect`.
    pub(crate) collection_requested: bool,
    /// An error whose handler could not be called yet, for want of memory.
    pub(crate) pending: Option<LispError>,
}

/// One stretch of evaluation.
pub(crate) struct Machine<'m, 'id, 'heap> {
    pub(crate) memory: Mutator<'id, 'heap>,
    pub(crate) world: &'m mut World,
}

impl<'id> Machine<'_, 'id, '_> {
    /// Goes on from the top frame, for at most `limit` steps. Says how many were made. `refused`: not even a collection made
    /// room for the first step.
    pub(crate) fn run(&mut self, limit: usize, refused: Option<AllocError>) -> (Pause, usize) {
        let mut state = match self.resume(refused) {
            Ok(state) => state,
            Err(pause) => return (pause, 0),
        };
        for steps in 0..limit {
            if self.memory.collection_due() || self.world.collection_requested {
                self.save(state);
                return (Pause::Safepoint, steps);
            }
            let stepped = match self.step(state) {
                Err(Stop::Error(error)) => self.raise(error),
                Err(Stop::Memory(error)) => {
                    self.save(state);
                    Err(Pause::Memory(error))
                }
                Ok(State::Return(value)) if self.memory.depth() == 0 => {
                    Err(Pause::Done(print(value, &self.world.symbols, Style::Write)))
                }
                Ok(next) => Ok(next),
            };
            match stepped {
                Ok(next) => state = next,
                Err(pause) => return (pause, steps),
            }
        }
        self.save(state);
        (Pause::Safepoint, limit)
    }

    fn save(&mut self, state: State<'id>) {
        match state {
            State::Evaluate { expression, scope } => self.memory.push(Task::Evaluate, [expression, scope, Value::Nil]),
            State::Return(value) => self.memory.push(Task::Return, [value, Value::Nil, Value::Nil]),
        }
    }

    fn resume(&mut self, refused: Option<AllocError>) -> Result<State<'id>, Pause> {
        if let Some(error) = refused {
            if self.world.pending.is_some() {
                // There was no room to call the innermost handler: the next one gets the error.
                self.memory.pop();
            }
            self.world.pending = Some(LispError::OutOfMemory(error));
        }
        match self.world.pending.take() {
            Some(error) => self.raise(error),
            // The frame that `save` pushed needs no value.
            None => Ok(State::Return(Value::Void)),
        }
    }

    /// Leaves frames up to the innermost `try`, and calls its handler.
    fn raise(&mut self, error: LispError) -> Result<State<'id>, Pause> {
        while let Some((task, operands)) = self.memory.pop() {
            if task != Task::Try {
                continue;
            }
            let [handler, scope, _] = operands;
            return match self.memory.text(&[&error.to_string()]) {
                Ok(message) => {
                    self.memory.push(Task::Handle, [message, Value::Nil, Value::Nil]);
                    Ok(State::Evaluate { expression: handler, scope })
                }
                Err(refused) => {
                    self.memory.push(task, operands);
                    self.world.pending = Some(error);
                    Err(Pause::Memory(refused))
                }
            };
        }
        Err(Pause::Failed(error))
    }

    /// One step. If it finds no memory, the frames are as they were.
    fn step(&mut self, state: State<'id>) -> Step<'id> {
        match state {
            State::Evaluate { expression, scope } => {
                let depth = self.memory.depth();
                let stepped = self.evaluate(expression, scope);
                if let Err(Stop::Memory(_)) = stepped {
                    self.memory.unwind_to(depth);
                }
                stepped
            }
            State::Return(value) => {
                let Some((task, operands)) = self.memory.pop() else { return Ok(state) };
                let depth = self.memory.depth();
                let stepped = self.proceed(task, operands, value);
                if let Err(Stop::Memory(_)) = stepped {
                    self.memory.unwind_to(depth);
                    self.memory.push(task, operands);
                }
                stepped
            }
        }
    }

    fn evaluate(&mut self, expression: Value<'id>, scope: Value<'id>) -> Step<'id> {
        match expression {
            Value::Symbol(symbol) => {
                let value = scope::look_up(&mut self.memory, scope, symbol);
                let unbound = || LispError::Unbound(self.world.symbols.name(symbol).to_owned());
                Ok(State::Return(value.ok_or_else(unbound)?))
            }
            Value::Pair(call) => {
                if let Value::Symbol(symbol) = call.head()
                    && let Some(keyword) = Keyword::of(symbol)
                {
                    return forms::evaluate(self, keyword, call.tail(), scope);
                }
                self.push(Task::Operands, [call.tail(), Value::Nil, scope])?;
                Ok(State::Evaluate { expression: call.head(), scope })
            }
            constant => Ok(State::Return(constant)),
        }
    }

    /// Does what a frame says with the value that came back.
    fn proceed(&mut self, task: Task, [a, b, c]: [Value<'id>; 3], value: Value<'id>) -> Step<'id> {
        match task {
            Task::Evaluate => Ok(State::Evaluate { expression: a, scope: b }),
            Task::Return => Ok(State::Return(a)),
            Task::Try => Ok(State::Return(value)),
            Task::Sequence => self.sequence(a, b),
            Task::Operands => self.operand(a, b, c, value),
            Task::Handle => self.apply(value, &[a]),
            Task::If => forms::branch(a, b, value),
            Task::Cond => forms::clause(self, a, b, value),
            Task::And if !value.is_true() => Ok(State::Return(value)),
            Task::Or if value.is_true() => Ok(State::Return(value)),
            Task::And | Task::Or => forms::connective(self, task, a, b, value),
            Task::Define => forms::define_value(self, a, b, value),
            Task::Assign => forms::assign_value(self, a, b, value),
            Task::Let => forms::bind_let(self, [a, b, c], value),
            Task::LetStar => forms::bind_let_star(self, [a, b, c], value),
        }
    }

    /// Puts something off.
    pub(crate) fn push(&mut self, task: Task, operands: [Value<'id>; 3]) -> Result<(), LispError> {
        if self.memory.depth() >= self.world.frame_limit {
            return Err(LispError::TooDeep(self.world.frame_limit));
        }
        self.memory.push(task, operands);
        Ok(())
    }

    /// Evaluates forms one after another; the last is in tail position.
    pub(crate) fn sequence(&mut self, forms: Value<'id>, scope: Value<'id>) -> Step<'id> {
        let Value::Pair(pair) = forms else { return Ok(State::Return(Value::Void)) };
        if let rest @ Value::Pair(_) = pair.tail() {
            self.push(Task::Sequence, [rest, scope, Value::Nil])?;
        }
        Ok(State::Evaluate { expression: pair.head(), scope })
    }

    /// `value` as a message shows it.
    pub(crate) fn shown(&self, value: Value<'id>) -> String {
        const MESSAGE_CHARS: usize = 60;
        let text = print(value, &self.world.symbols, Style::Write);
        match text.char_indices().nth(MESSAGE_CHARS) {
            Some((end, _)) => format!("{}...", &text[..end]),
            None if text.is_empty() => "nothing".to_owned(),
            None => text,
        }
    }
}
