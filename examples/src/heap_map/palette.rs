//! Colours: a dark ground, light and warm where memory is used well.

use super::map::{Cell, LEVELS};

/// Around everything.
pub(super) const GROUND: &str = "#0d1117";
/// Behind maps and bars; also what a free page without memory looks like.
pub(super) const PAPER: &str = "#161b22";
/// Titles and figures.
pub(super) const INK: &str = "#f0f3f6";
/// Everything else that is written.
pub(super) const PALE_INK: &str = "#9aa4b2";
/// What meshing saved.
pub(super) const SAVED: &str = "#56d4b0";
/// The heap's own tables.
pub(super) const METADATA: &str = "#b6c2cf";
/// Pages of spans, without their live objects.
pub(super) const SLACK: &str = "#7a2882";
/// Live objects.
pub(super) const LIVE: &str = "#fec287";

/// Magma from 0.25 on, where it stands out from the ground: perceptually uniform, so that twice as full looks it, to colour-blind
/// eyes, too.
const RAMP: [[u8; 3]; 7] = [
    [0x51, 0x12, 0x7c],
    [0x7d, 0x24, 0x82],
    [0xab, 0x33, 0x7c],
    [0xd6, 0x45, 0x6c],
    [0xf4, 0x6f, 0x5c],
    [0xfe, 0xa8, 0x73],
    [0xfc, 0xf0, 0xb2],
];

/// The colour of a page.
pub(super) fn colour(cell: Cell) -> String {
    match cell {
        Cell::Clean => PAPER.to_owned(),
        Cell::Dirty => "#5b6472".to_owned(),
        Cell::Alias => "#1c5a5e".to_owned(),
        Cell::Span(level) => ramp(f64::from(level) / f64::from(LEVELS - 1)),
        Cell::Large => "#4c8dff".to_owned(),
    }
}

/// The same as red, green and blue.
pub(crate) fn rgb(cell: Cell) -> [u8; 3] {
    let [_, red, green, blue] = u32::from_str_radix(&colour(cell)[1..], 16).unwrap_or(0).to_be_bytes();
    [red, green, blue]
}

/// The ramp at `place`, from 0 to 1.
fn ramp(place: f64) -> String {
    let scaled = place.clamp(0.0, 1.0) * (RAMP.len() - 1) as f64;
    let (low, part) = (scaled as usize, scaled.fract());
    let high = (low + 1).min(RAMP.len() - 1);
    let mix = |channel: usize| f64::from(RAMP[low][channel]) * (1.0 - part) + f64::from(RAMP[high][channel]) * part;
    format!("#{:02x}{:02x}{:02x}", mix(0) as u8, mix(1) as u8, mix(2) as u8)
}
