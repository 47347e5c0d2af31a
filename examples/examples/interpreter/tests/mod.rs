//! Tests of the interpreter as a whole.

mod collector;
mod conservative;
mod errors;
mod evaluator;
mod inventory;

use meshheap::{Heap, Options};
use meshheap_linux::LinuxPlatform;

use crate::interpreter::{Failure, Interpreter, Settings};

/// Address space of most tests' heaps.
const ARENA_BYTES: usize = 64 << 20;

fn heap(arena_bytes: usize) -> Heap<LinuxPlatform> {
    let options = Options { arena_bytes, ..Options::default() };
    Heap::with_options(LinuxPlatform::new(), options).expect("a small arena")
}

/// An interpreter whose recursion may be only so deep.
fn interpreter(heap: &mut Heap<LinuxPlatform>, frame_limit: usize) -> Interpreter<'_> {
    interpreter_with(heap, Settings { frame_limit, ..Settings::default() })
}

fn interpreter_with(heap: &mut Heap<LinuxPlatform>, settings: Settings) -> Interpreter<'_> {
    Interpreter::new(heap, settings, Box::new(std::io::sink())).expect("the prelude is small")
}

/// The last value of `text` that shows.
fn last_value(interpreter: &mut Interpreter<'_>, text: &str) -> Result<String, Failure> {
    let mut last = String::new();
    interpreter.evaluate(text, |value| value.clone_into(&mut last))?;
    Ok(last)
}

/// The last value of `text`, or the message of its failure, in a fresh interpreter.
fn outcome(text: &str) -> String {
    let mut heap = heap(ARENA_BYTES);
    let mut interpreter = interpreter(&mut heap, 10_000);
    last_value(&mut interpreter, text).unwrap_or_else(|failure| failure.to_string())
}

/// No object is left, and none was freed wrongly.
fn assert_empty(heap: &Heap<LinuxPlatform>) {
    heap.purge().expect("Linux takes pages back");
    assert_eq!((heap.statistics().taken_bytes, heap.statistics().misuses), (0, 0));
}
