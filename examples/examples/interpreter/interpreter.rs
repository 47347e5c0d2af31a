//! One interpreter: reads forms, evaluates them, and sees to its memory between and within them.

use core::fmt;
use std::io::Write;

use core::time::Duration;
use meshheap::{AllocError, Heap};
use meshheap_linux::LinuxPlatform;

use crate::atoms::Symbol;
use crate::error::{LispError, ParseError, Position};
use crate::lexer::Lexer;
use crate::machine::{Machine, Pause, World};
use crate::memory::{Store, Value};
use crate::primitives;
use crate::reader::{Unread, read};
use crate::safepoint::Safepoints;
use crate::symbols::Symbols;
use crate::task::Task;

/// Functions that are written in Lisp.
const PRELUDE: &str = include_str!("prelude.lisp");

/// Steps of the machine between two safepoints: about two milliseconds, so that steps of meshing take a fifth of the time
/// while there is something to mesh.
const STEPS_PER_STRETCH: usize = 20_000;

/// How an interpreter is set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// How long a step of meshing may take.
    pub(crate) mesh_step: Duration,
    /// How many frames the machine's stack may have.
    pub(crate) frame_limit: usize,
    /// The seed of `random`.
    pub(crate) seed: u64,
    /// Collect conservatively.
    pub(crate) conservative: bool,
    /// All objects from malloc, to compare with; not with a conservative collector.
    pub(crate) on_malloc: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mesh_step: Duration::from_micros(500),
            frame_limit: 1_000_000,
            seed: 1,
            conservative: false,
            on_malloc: false,
        }
    }
}

/// Why a text was not evaluated to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    Parse(ParseError),
    /// The form that starts here failed.
    Evaluation(Position, LispError),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parse(error) => error.fmt(f),
            Self::Evaluation(position, error) => write!(f, "{position}: {error}"),
        }
    }
}

/// A Lisp with a heap of its own.
pub(crate) struct Interpreter<'heap> {
    pub(crate) store: Store<'heap>,
    pub(crate) safepoints: Safepoints,
    world: World,
}

impl<'heap> Interpreter<'heap> {
    /// An interpreter that has `heap` for itself, with all primitives and the prelude.
    pub(crate) fn new(
        heap: &'heap mut Heap<LinuxPlatform>,
        settings: Settings,
        output: Box<dyn Write>,
    ) -> Result<Self, Failure> {
        let world = World {
            symbols: Symbols::new(),
            output,
            random: settings.seed,
            frame_limit: settings.frame_limit,
            collection_requested: false,
            pending: None,
        };
        let safepoints = Safepoints::new(settings.mesh_step);
        let store = if settings.conservative {
            let refused = |error| Failure::Evaluation(Lexer::new("").position(), LispError::OutOfMemory(error));
            Store::conservative(heap).map_err(refused)?
        } else if settings.on_malloc {
            Store::on_malloc(heap)
        } else {
            Store::new(heap)
        };
        let mut interpreter = Self { store, safepoints, world };
        let world = &mut interpreter.world;
        interpreter.store.enter(|mut memory| primitives::define_all(&mut memory, &mut world.symbols));
        // The first collection sets the bound for the next ones.
        interpreter.safepoints.collect(&mut interpreter.store);
        interpreter.evaluate(PRELUDE, |_| {})?;
        Ok(interpreter)
    }

    /// Makes a truth value known to scripts.
    pub(crate) fn define_bool(&mut self, name: &str, truth: bool) {
        let symbol: Symbol = self.world.symbols.intern(name);
        self.store.enter(|mut memory| memory.set_global(symbol, Value::Bool(truth)));
    }

    /// Evaluates every form of `text`, and shows each value to `see`. After a failure the interpreter can be used on.
    pub(crate) fn evaluate(&mut self, text: &str, mut see: impl FnMut(&str)) -> Result<(), Failure> {
        let mut lexer = Lexer::new(text);
        while let Some(position) = self.read(&mut lexer)? {
            let evaluated = self.evaluate_form();
            self.world.collection_requested = false;
            match evaluated {
                Ok(value) => see(&value),
                Err(error) => {
                    self.store.clear_frames();
                    return Err(Failure::Evaluation(position, error));
                }
            }
            self.safepoints.visit(&mut self.store);
        }
        Ok(())
    }

    /// Writes what the script's output still holds back.
    pub(crate) fn flush_output(&mut self) -> std::io::Result<()> {
        self.world.output.flush()
    }

    /// Reads a form and leaves a frame that evaluates it.
    fn read(&mut self, lexer: &mut Lexer<'_>) -> Result<Option<Position>, Failure> {
        let mut retried = false;
        loop {
            let symbols = &mut self.world.symbols;
            let position = lexer.position();
            let done = self.store.enter(|mut memory| {
                let form = read(lexer, symbols, &mut memory)?;
                Ok(form.map(|(position, form)| {
                    memory.push(Task::Evaluate, [form, Value::Nil, Value::Nil]);
                    position
                }))
            });
            match done {
                Ok(position) => return Ok(position),
                Err(Unread::Parse(error)) => return Err(Failure::Parse(error)),
                Err(Unread::Memory(error)) => {
                    if retried || !self.safepoints.make_room(&mut self.store) {
                        return Err(Failure::Evaluation(position, LispError::OutOfMemory(error)));
                    }
                    retried = true;
                }
            }
        }
    }

    /// Runs the machine until the form has a value, with a safepoint after each stretch.
    fn evaluate_form(&mut self) -> Result<String, LispError> {
        let mut refused = None;
        let mut room_was_made = false;
        loop {
            let (pause, steps) = self.stretch(refused.take());
            match pause {
                Pause::Done(value) => return Ok(value),
                Pause::Failed(error) => return Err(error),
                Pause::Safepoint if core::mem::take(&mut self.world.collection_requested) => {
                    self.safepoints.collect(&mut self.store);
                }
                Pause::Safepoint => self.safepoints.visit(&mut self.store),
                Pause::Memory(error) => {
                    let stuck = room_was_made && steps == 0;
                    room_was_made = !stuck && self.safepoints.make_room(&mut self.store);
                    if !room_was_made {
                        refused = Some(error);
                    }
                    continue;
                }
            }
            room_was_made = false;
        }
    }

    fn stretch(&mut self, refused: Option<AllocError>) -> (Pause, usize) {
        let world = &mut self.world;
        self.store.enter(|memory| Machine { memory, world }.run(STEPS_PER_STRETCH, refused))
    }
}
