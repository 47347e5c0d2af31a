//! Strings. Indices count characters.

use crate::atoms::Fixnum;
use crate::error::{LispError, Stop};
use crate::machine::Machine;
use crate::memory::Value;
use crate::primitives::Call;

type Made<'id> = Result<Value<'id>, Stop>;

pub(super) fn append<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    let texts = (0..call.arguments.len()).map(|index| call.text(machine, index));
    let texts = texts.collect::<Result<Vec<_>, _>>()?;
    Ok(machine.memory.text(&texts)?)
}

pub(super) fn length<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    Ok(Value::Integer(Fixnum::of_count(call.text(machine, 0)?.chars().count())))
}

/// The characters from one index up to, but without, another.
pub(super) fn substring<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    let text = call.text(machine, 0)?;
    let (from, to) = (call.integer(machine, 1)?, call.integer(machine, 2)?);
    let offset = |index: i64| {
        let index = usize::try_from(index).ok()?;
        let ends = text.char_indices().map(|(offset, _)| offset).chain([text.len()]);
        ends.clone().nth(index)
    };
    let length = || text.chars().count();
    let outside = |index| LispError::OutOfRange { user: call.user, index, length: length() };
    let start = offset(from).ok_or_else(|| outside(from))?;
    let end = offset(to).filter(|&end| end >= start).ok_or_else(|| outside(to))?;
    Ok(machine.memory.text(&[&text[start..end]])?)
}

pub(super) fn is_equal<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    Ok(Value::Bool(call.text(machine, 0)? == call.text(machine, 1)?))
}

pub(super) fn of_number<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    let number = call.integer(machine, 0)?;
    Ok(machine.memory.text(&[&number.to_string()])?)
}

pub(super) fn of_symbol<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    match call.arguments[0] {
        Value::Symbol(symbol) => Ok(machine.memory.text(&[machine.world.symbols.name(symbol)])?),
        other => Err(call.wrong_type(machine, "a symbol", other).into()),
    }
}
