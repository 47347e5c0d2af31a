//! Objects survive collections and meshing just as long as they are reachable.

use crate::interpreter::{Interpreter, Settings};
use crate::memory::{Kind, Store, Value};
use crate::task::Task;

use super::{ARENA_BYTES, assert_empty, heap, interpreter, interpreter_with, last_value};

#[test]
fn a_collection_frees_what_no_root_reaches_and_nothing_else() {
    let mut heap = heap(ARENA_BYTES);
    let mut store = Store::new(&mut heap);
    store.enter(|mut memory| {
        let text = memory.text(&["kept", " text"]).expect("room");
        let kept = memory.list(&[text, Value::Bool(true)], Value::Nil).expect("room");
        memory.push(Task::Return, [kept, Value::Nil, Value::Nil]);
        memory.list(&[text; 10], kept).expect("room");
        // A cycle that nothing refers to.
        let cycle = memory.record(Kind::Scope, &[Value::Nil, Value::Nil]).expect("room");
        cycle.set(1, Value::Scope(cycle));
    });
    let before = store.live_bytes();
    assert_eq!(store.collect(), 10 * 32 + 32);
    assert_eq!(store.live_bytes(), before - 11 * 32);
    assert_eq!(store.collect(), 0);
    store.enter(|mut memory| {
        let (_, [kept, ..]) = memory.pop().expect("it was pushed");
        let items: Vec<_> = kept.items().collect();
        assert!(matches!(items[..], [Value::Text(text), Value::Bool(true)] if text.text() == "kept text"));
    });
    store.collect();
    assert_eq!(store.live_bytes(), 0);
}

#[test]
fn a_long_list_is_marked_without_recursion() {
    let mut heap = heap(ARENA_BYTES);
    let mut store = Store::new(&mut heap);
    store.enter(|mut memory| {
        let list = memory.list(&vec![Value::Nil; 500_000], Value::Nil).expect("room");
        memory.push(Task::Return, [list, Value::Nil, Value::Nil]);
    });
    assert_eq!(store.collect(), 0);
    drop(store);
    assert_empty(&heap);
}

/// What the script's list is to hold: numbers, texts of many lengths, and closures over them.
struct Model {
    entries: Vec<(i64, String)>,
    next: i64,
}

impl Model {
    /// Adds `count` entries to the list, and here.
    fn grow(&mut self, interpreter: &mut Interpreter<'_>, count: usize) {
        for _ in 0..count {
            let number = self.next;
            let text = format!("entry {number}{}", "!".repeat(usize::try_from(number * 7 % 90).expect("small")));
            last_value(interpreter, &format!("(add {number} \"{text}\")")).expect("it fits");
            self.entries.insert(0, (number, text));
            self.next += 1;
        }
    }

    /// Drops all but every seventh or so, from another place each time.
    fn thin(&mut self, interpreter: &mut Interpreter<'_>, round: i64) {
        let keep = |number: i64| (number * 5 + round) % 7 == 0 || number % 31 == 0;
        self.entries.retain(|&(number, _)| keep(number));
        let script = format!(
            "(set! entries (filter (lambda (entry) (let ((n (car entry)))
               (or (= 0 (modulo (+ (* n 5) {round}) 7)) (= 0 (modulo n 31))))) entries))"
        );
        last_value(interpreter, &script).expect("it needs little memory");
    }

    fn check(&self, interpreter: &mut Interpreter<'_>) {
        let shown: Vec<_> = self.entries.iter().map(|(number, text)| format!("({number} \"{text}\")")).collect();
        let script = "(map (lambda (entry) (list (car entry) ((cdr entry)))) entries)";
        assert_eq!(last_value(interpreter, script), Ok(format!("({})", shown.join(" "))));
    }
}

#[test]
fn churn_with_meshing_after_each_collection_changes_no_value() {
    churn(false);
}

/// Lists, texts and closures that come and go, looked at after each collection and each mesh.
pub(super) fn churn(conservative: bool) {
    let mut heap = heap(ARENA_BYTES);
    let settings = Settings { frame_limit: 10_000, conservative, ..Settings::default() };
    let mut interpreter = interpreter_with(&mut heap, settings);
    let add = "(define entries '())
               (define (add n text) (set! entries (cons (cons n (lambda () text)) entries)))";
    last_value(&mut interpreter, add).expect("definitions");
    let mut model = Model { entries: Vec::new(), next: 0 };
    for round in 0..12 {
        model.grow(&mut interpreter, 500);
        model.check(&mut interpreter);
        model.thin(&mut interpreter, round);
        interpreter.safepoints.settle(&mut interpreter.store);
        model.check(&mut interpreter);
    }
    let statistics = interpreter.store.heap().statistics();
    assert!(statistics.pages_meshed > 100, "{statistics:?}");
    drop(interpreter);
    assert_empty(&heap);
}

#[test]
fn long_evaluations_are_collected_and_meshed_on_the_way() {
    let mut heap = heap(ARENA_BYTES);
    let mut interpreter = interpreter(&mut heap, 10_000);
    let script = "(define (spin n kept)
                    (if (= n 0) kept (spin (- n 1) (if (= 0 (modulo n 64)) (cons (list n) kept) kept))))
                  (length (spin 300000 '()))";
    assert_eq!(last_value(&mut interpreter, script).as_deref(), Ok("4687"));
    // The first collection was the interpreter's own, before the script.
    assert!(interpreter.safepoints.collections > 1);
    assert!(interpreter.store.heap().statistics().mesh_passes > 0);
}
