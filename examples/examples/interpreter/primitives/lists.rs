//! Pairs and lists.

use crate::atoms::Fixnum;
use crate::error::{LispError, Stop};
use crate::machine::Machine;
use crate::memory::Value;
use crate::primitives::Call;
use crate::primitives::predicates::equal;

type Made<'id> = Result<Value<'id>, Stop>;

pub(super) fn cons<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    Ok(machine.memory.cons(call.arguments[0], call.arguments[1])?)
}

pub(super) fn car<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    Ok(call.pair(machine, 0)?.head())
}

pub(super) fn cdr<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    Ok(call.pair(machine, 0)?.tail())
}

pub(super) fn list<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    Ok(machine.memory.list(call.arguments, Value::Nil)?)
}

pub(super) fn length<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    Ok(Value::Integer(Fixnum::of_count(call.list(machine, 0)?.len())))
}

pub(super) fn reverse<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    let mut items = call.list(machine, 0)?;
    items.reverse();
    Ok(machine.memory.list(&items, Value::Nil)?)
}

/// All lists in a row. The last is shared, not copied.
pub(super) fn append<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    let Some((&last, lists)) = call.arguments.split_last() else { return Ok(Value::Nil) };
    let mut result = last;
    for index in (0..lists.len()).rev() {
        let items = call.list(machine, index)?;
        result = machine.memory.list(&items, result)?;
    }
    Ok(result)
}

pub(super) fn list_ref<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    let index = call.integer(machine, 1)?;
    let item = usize::try_from(index).ok().and_then(|index| call.arguments[0].items().nth(index));
    let length = || call.arguments[0].items().count();
    Ok(item.ok_or_else(|| LispError::OutOfRange { user: call.user, index, length: length() })?)
}

/// The first pair of a list of pairs whose head is equal to the key, or `#f`.
pub(super) fn assoc<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    let key = call.arguments[0];
    for item in call.arguments[1].items() {
        let Value::Pair(pair) = item else {
            return Err(call.wrong_type(machine, "a list of pairs", item).into());
        };
        if equal(call.user, key, pair.head())? {
            return Ok(item);
        }
    }
    Ok(Value::Bool(false))
}

/// The rest of the list from the first item on that is equal to the key, or `#f`.
pub(super) fn member<'id>(_: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    let mut rest = call.arguments[1];
    while let Value::Pair(pair) = rest {
        if equal(call.user, call.arguments[0], pair.head())? {
            return Ok(rest);
        }
        rest = pair.tail();
    }
    Ok(Value::Bool(false))
}
