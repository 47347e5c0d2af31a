//! Questions about values.

use crate::error::{LispError, Stop};
use crate::machine::Machine;
use crate::memory::Value;
use crate::primitives::Call;

type Made<'id> = Result<Value<'id>, Stop>;

/// So many parts are compared at the most: values that share their parts can be larger than memory.
const MAX_COMPARED: usize = 100_000_000;

/// Whether both have the same structure and the same atoms and texts in it.
pub(super) fn equal<'id>(user: &'static str, a: Value<'id>, b: Value<'id>) -> Result<bool, LispError> {
    // A list of what is still to be compared: data may be nested deeper than Rust's stack.
    let mut pending = vec![(a, b)];
    let mut compared = 0;
    while let Some((a, b)) = pending.pop() {
        compared += 1;
        if compared > MAX_COMPARED {
            return Err(LispError::TooComplex(user));
        }
        match (a, b) {
            _ if a.is(b) => {}
            (Value::Pair(a), Value::Pair(b)) => {
                pending.push((a.tail(), b.tail()));
                pending.push((a.head(), b.head()));
            }
            (Value::Text(a), Value::Text(b)) if a.text() == b.text() => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

pub(super) fn is_same<'id>(_: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    Ok(Value::Bool(call.arguments[0].is(call.arguments[1])))
}

pub(super) fn is_equal<'id>(_: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    Ok(Value::Bool(equal(call.user, call.arguments[0], call.arguments[1])?))
}

pub(super) fn not<'id>(_: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    Ok(Value::Bool(!call.arguments[0].is_true()))
}

pub(super) fn is_nil<'id>(_: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    Ok(Value::Bool(matches!(call.arguments[0], Value::Nil)))
}

pub(super) fn is_pair<'id>(_: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    Ok(Value::Bool(matches!(call.arguments[0], Value::Pair(_))))
}

pub(super) fn is_integer<'id>(_: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    Ok(Value::Bool(matches!(call.arguments[0], Value::Integer(_))))
}

pub(super) fn is_text<'id>(_: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    Ok(Value::Bool(matches!(call.arguments[0], Value::Text(_))))
}

pub(super) fn is_symbol<'id>(_: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    Ok(Value::Bool(matches!(call.arguments[0], Value::Symbol(_))))
}

pub(super) fn is_function<'id>(_: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    Ok(Value::Bool(matches!(call.arguments[0], Value::Closure(_) | Value::Primitive(_))))
}
