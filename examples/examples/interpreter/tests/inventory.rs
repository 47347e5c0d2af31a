//! The script that runs if none is named, in its short form.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use crate::INVENTORY;
use crate::interpreter::{Interpreter, Settings};
use crate::rival;

use super::{ARENA_BYTES, assert_empty, heap};

/// What a script writes, to be read afterwards.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Runs the script, and then `look` at what it left.
fn run(settings: Settings, look: impl FnOnce(&mut Interpreter<'_>)) -> String {
    let written = Written::default();
    let mut heap = heap(ARENA_BYTES);
    {
        let mut interpreter =
            Interpreter::new(&mut heap, settings, Box::new(written.clone())).expect("the prelude is small");
        interpreter.define_bool("short?", true);
        interpreter.evaluate(INVENTORY, |_| {}).expect("it runs to its end");
        look(&mut interpreter);
    }
    assert_empty(&heap);
    written.text()
}

#[test]
fn the_shop_gets_its_memory_back_with_either_collector_and_says_what_it_says_on_malloc() {
    let on_malloc = run(Settings { on_malloc: true, ..Settings::default() }, |interpreter| {
        let statistics = interpreter.store.heap().statistics();
        assert_eq!(statistics.span_bytes_peak, 0, "no object is the heap's");
        let figures = rival::measure(interpreter);
        assert!(figures.bytes("live") > Some(0) && figures.time("longest_collection").is_some());
        assert!(figures.bytes("trimmed") <= figures.bytes("collected"));
    });
    assert!(on_malloc.contains("evening: "), "{on_malloc}");
    for conservative in [false, true] {
        let said = run(Settings { conservative, ..Settings::default() }, |interpreter| {
            let before = interpreter.safepoints.settle(&mut interpreter.store);
            let (live, after) = (interpreter.store.live_bytes(), interpreter.store.heap().statistics().held_bytes);
            assert!(live < after && 2 * after < before, "live {live}, before {before}, after {after}");
        });
        assert_eq!(said, on_malloc, "conservative: {conservative}");
    }
}
