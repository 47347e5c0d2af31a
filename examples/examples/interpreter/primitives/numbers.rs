//! Integers.

use crate::error::{LispError, Stop};
use crate::machine::Machine;
use crate::memory::Value;
use crate::primitives::Call;

type Made<'id> = Result<Value<'id>, Stop>;

/// Combines the arguments from left to right.
fn fold<'id>(
    machine: &Machine<'_, 'id, '_>,
    call: &Call<'_, 'id>,
    start: i64,
    skipped: usize,
    combine: fn(i64, i64) -> Option<i64>,
) -> Made<'id> {
    let mut result = Some(start);
    for index in skipped..call.arguments.len() {
        let next = call.integer(machine, index)?;
        result = result.and_then(|so_far| combine(so_far, next));
    }
    call.number(result)
}

pub(super) fn add<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    fold(machine, &call, 0, 0, i64::checked_add)
}

pub(super) fn multiply<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    fold(machine, &call, 1, 0, i64::checked_mul)
}

pub(super) fn subtract<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    if call.arguments.len() == 1 {
        return fold(machine, &call, 0, 0, i64::checked_sub);
    }
    let start = call.integer(machine, 0)?;
    fold(machine, &call, start, 1, i64::checked_sub)
}

fn divide<'id>(
    machine: &Machine<'_, 'id, '_>,
    call: &Call<'_, 'id>,
    combine: fn(i64, i64) -> Option<i64>,
) -> Made<'id> {
    let (dividend, divisor) = (call.integer(machine, 0)?, call.integer(machine, 1)?);
    if divisor == 0 {
        return Err(LispError::DivisionByZero(call.user).into());
    }
    call.number(combine(dividend, divisor))
}

pub(super) fn quotient<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    divide(machine, &call, i64::checked_div)
}

/// The result has the divisor's sign.
pub(super) fn modulo<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    divide(machine, &call, |dividend, divisor| {
        let remainder = dividend.checked_rem(divisor)?;
        Some(if remainder != 0 && (remainder < 0) != (divisor < 0) { remainder + divisor } else { remainder })
    })
}

/// Whether `holds` for all neighbours among the arguments.
fn compare<'id>(machine: &Machine<'_, 'id, '_>, call: &Call<'_, 'id>, holds: fn(&i64, &i64) -> bool) -> Made<'id> {
    let mut previous = call.integer(machine, 0)?;
    let mut all = true;
    for index in 1..call.arguments.len() {
        let next = call.integer(machine, index)?;
        all &= holds(&previous, &next);
        previous = next;
    }
    Ok(Value::Bool(all))
}

pub(super) fn equal<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    compare(machine, &call, i64::eq)
}

pub(super) fn less<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    compare(machine, &call, i64::lt)
}

pub(super) fn greater<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    compare(machine, &call, i64::gt)
}

pub(super) fn at_most<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    compare(machine, &call, i64::le)
}

pub(super) fn at_least<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    compare(machine, &call, i64::ge)
}

/// A number from 0 up to, but without, the argument.
pub(super) fn random<'id>(machine: &mut Machine<'_, 'id, '_>, call: Call<'_, 'id>) -> Made<'id> {
    let bound = call.integer(machine, 0)?;
    if bound <= 0 {
        return Err(call.wrong_type(machine, "a positive integer", call.arguments[0]).into());
    }
    // SplitMix64: short, and any seed will do.
    machine.world.random = machine.world.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = machine.world.random;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    call.number(i64::try_from(mixed % bound.unsigned_abs()).ok())
}
