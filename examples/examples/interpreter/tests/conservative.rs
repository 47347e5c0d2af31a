//! The conservative collector keeps whatever is still used, and little else.

use core::hint::black_box;

use meshheap::MeshBudget;

use crate::interpreter::Settings;
use crate::memory::{Mutator, Store, Value};
use crate::task::Task;

use super::{ARENA_BYTES, assert_empty, collector, heap, interpreter_with, last_value};

/// A list of numbered texts, made in a frame of its own.
#[inline(never)]
fn numbered<'id>(memory: &mut Mutator<'id, '_>, count: usize) -> Value<'id> {
    let cons = |rest, number: usize| {
        let text = memory.text(&["number ", &number.to_string()]).expect("room");
        memory.cons(text, rest).expect("room")
    };
    (0..count).rev().fold(Value::Nil, cons)
}

/// Many short lists, of which nobody keeps any. One or the other may be found on the stack by chance.
#[inline(never)]
fn waste(memory: &mut Mutator<'_, '_>, lists: usize) {
    for _ in 0..lists {
        black_box(numbered(memory, 10));
    }
}

fn assert_numbered(list: Value<'_>, count: usize) {
    let mut items = list.items();
    for number in 0..count {
        let item = items.next();
        assert!(
            matches!(item, Some(Value::Text(text)) if text.text() == format!("number {number}")),
            "{number}: {item:?}"
        );
    }
    assert!(items.next().is_none());
}

#[test]
fn what_only_a_variable_holds_lives_through_collections_and_meshes() {
    let mut heap = heap(ARENA_BYTES);
    let mut store = Store::conservative(&mut heap).expect("room for marks");
    let freed = store.enter(|mut memory| {
        let kept = black_box(numbered(&mut memory, 3000));
        waste(&mut memory, 3000);
        let freed = memory.collect();
        // New objects take the places of those that were freed.
        waste(&mut memory, 1000);
        assert_numbered(kept, 3000);
        freed
    });
    assert!(freed > 20_000 * 64, "most of 60,000 objects are gone: {freed} bytes");
    drop(store);
    assert_empty(&heap);
}

#[test]
fn what_roots_reach_stays_and_the_rest_goes_at_once() {
    let mut heap = heap(ARENA_BYTES);
    let mut store = Store::conservative(&mut heap).expect("room for marks");
    store.enter(|mut memory| {
        let kept = numbered(&mut memory, 2000);
        memory.push(Task::Return, [kept, Value::Nil, Value::Nil]);
        waste(&mut memory, 2000);
    });
    let before = store.live_bytes();
    let freed = store.collect();
    assert!(freed > before * 8 / 10, "{freed} of {before}");
    store.flush();
    while store.mesh(MeshBudget::UNLIMITED).pages_freed > 0 {}
    store.enter(|mut memory| {
        let (_, [kept, ..]) = memory.pop().expect("it was pushed");
        assert_numbered(kept, 2000);
    });
    drop(store);
    assert_empty(&heap);
}

#[test]
fn churn_with_a_conservative_collector_changes_no_value() {
    collector::churn(true);
}

#[test]
fn long_evaluations_are_collected_conservatively_on_the_way() {
    let mut heap = heap(ARENA_BYTES);
    {
        let settings = Settings { conservative: true, ..Settings::default() };
        let mut interpreter = interpreter_with(&mut heap, settings);
        let script = "(define (spin n kept)
                        (if (= n 0) kept (spin (- n 1) (if (= 0 (modulo n 64)) (cons (list n) kept) kept))))
                      (length (spin 300000 '()))";
        assert_eq!(last_value(&mut interpreter, script).as_deref(), Ok("4687"));
        assert!(interpreter.safepoints.collections > 1);
        // 30 MB of scopes and bindings came and went.
        assert!(interpreter.store.live_bytes() < 20 << 20, "{}", interpreter.store.live_bytes());
    }
    assert_empty(&heap);
}
