//! The figures as a table, and their limits.

use comfy_table::Cell;
use serde_json::json;

use crate::fastpath::{Found, Kind};
use crate::report::{Report, judged_cell, optional, table};

/// How much more than a bare array the heap may cost, where the compiler knows the layout.
const LIMIT: f64 = 1.5;

const fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Empty => "the loop alone",
        Kind::UncheckedArray => "array, bounds not looked at",
        Kind::Array => "bare array",
        Kind::Known => "alloc + dealloc, layout known to the compiler",
        Kind::Unknown => "alloc + dealloc, layout known at run time only",
    }
}

/// A figure as a multiple of the two arrays' figures.
#[derive(Clone, Copy, Default, serde::Serialize)]
struct Multiples {
    of_bare: Option<f64>,
    of_unchecked: Option<f64>,
}

fn multiples(found: &[Found], one: &Found, figure: impl Fn(&Found) -> Option<f64>) -> Multiples {
    if one.kind == Kind::Empty {
        return Multiples::default();
    }
    let of = |kind| Some(figure(one)? / figure(found.iter().find(|found| found.kind == kind)?)?);
    Multiples { of_bare: of(Kind::Array), of_unchecked: of(Kind::UncheckedArray) }
}

/// Adds everything that was found.
pub(crate) fn add(report: &mut Report, found: &[Found]) -> anyhow::Result<()> {
    let heads =
        ["one pair of", "instructions", "of bare", "(of unchecked)", "ns CPU", "of bare", "(of unchecked)", "limit"];
    let mut figures = table(heads);
    let mut rows = Vec::new();
    for one in found {
        let limit = (one.kind == Kind::Known).then_some(LIMIT);
        let instructions = multiples(found, one, |found| found.instructions);
        let time = multiples(found, one, |found| Some(found.nanoseconds));
        let cell = |ratio: Option<f64>| ratio.map_or_else(|| Cell::new("-"), |ratio| judged_cell(ratio, limit));
        figures.add_row(vec![
            Cell::new(name(one.kind)),
            Cell::new(optional(one.instructions, 1)),
            cell(instructions.of_bare),
            Cell::new(optional(instructions.of_unchecked, 2)),
            Cell::new(format!("{:.3}", one.nanoseconds)),
            cell(time.of_bare),
            Cell::new(optional(time.of_unchecked, 2)),
            Cell::new(optional(limit, 1)),
        ]);
        for (what, multiples) in [("instructions", instructions), ("time", time)] {
            if let Some(limit) = limit {
                report.judge(format!("{}: {what} of a bare array's", name(one.kind)), multiples.of_bare, limit);
            }
        }
        rows.push(json!({
            "loop": name(one.kind),
            "instructions": one.instructions,
            "instruction_multiples": instructions,
            "nanoseconds": one.nanoseconds,
            "time_multiples": time,
            "limit": limit,
        }));
    }
    report.add_rows("fastpath", &rows)?;
    report.add_table("A 64-byte object, hot", figures);
    report.add_note(
        "Instructions are without the loop's own; the time is with it, as the processor does both at once. The bare array can \
         be empty and full and says so, as a heap has to; the other one is a floor.",
    );
    Ok(())
}
