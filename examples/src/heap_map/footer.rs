//! What stands below the maps: where the physical memory goes, and what the colours mean.

use super::figure::{MARGIN, Panel};
use super::map::{Cell, LEVELS};
use super::palette::{LIVE, METADATA, PAPER, SAVED, SLACK, colour};
use super::svg::{Area, Style, Svg};
use crate::units::Mib;

/// From one bar to the next.
const BAR_STEP: u32 = 38;
const BAR_HEIGHT: u32 = 26;
/// Room for a bar's name.
const BAR_NAME: u32 = 150;
/// Room for a bar's total, behind its end.
const BAR_TOTAL: u32 = 100;
/// From the maps to the legend, and from the legend to the bars.
const GAP: u32 = 48;
/// The side of a legend's sample.
const SAMPLE: u32 = 16;

/// Pixels that the footer takes for so many panels.
pub(super) fn height(panels: usize) -> u32 {
    let bars = u32::try_from(panels).unwrap_or(1);
    GAP + 50 + 18 + bars * BAR_STEP + 14 + SAMPLE + MARGIN
}

/// Draws it below `top`.
pub(super) fn draw(svg: &mut Svg, panels: &[Panel<'_>], top: u32, width: u32) {
    draw_legend(svg, top + GAP - 10);
    let bars = top + GAP + 50;
    svg.text(MARGIN, bars, Style::strong(18), "Physical memory");
    let scale = panels.iter().map(|panel| panel.held).max().unwrap_or(0).max(1);
    for (y, panel) in (bars + 18..).step_by(BAR_STEP as usize).zip(panels) {
        draw_bar(svg, panel, scale, Area { x: MARGIN, y, width: width - 2 * MARGIN, height: BAR_HEIGHT });
    }
    let end = bars + 18 + BAR_STEP * u32::try_from(panels.len()).unwrap_or(1);
    draw_parts(svg, end + 14, panels.len() > 1);
}

/// Pages' colours.
fn draw_legend(svg: &mut Svg, y: u32) {
    let mut x = MARGIN;
    let baseline = y + SAMPLE - 3;
    svg.text(x, baseline, Style::pale(16), "nearly empty");
    x += 100;
    for level in 0..LEVELS {
        svg.rectangle(Area { x, y, width: 2 * SAMPLE, height: SAMPLE }, &colour(Cell::Span(level)));
        x += 2 * SAMPLE;
    }
    svg.text(x + 8, baseline, Style::pale(16), "full");
    let samples = [
        (Cell::Alias, "alias: shows another page, takes no memory"),
        (Cell::Large, "large object"),
        (Cell::Dirty, "free, not yet given back"),
        (Cell::Clean, "free, without memory"),
    ];
    x += 70;
    for (cell, meaning) in samples {
        draw_sample(svg, x, y, cell, meaning);
        x += sample_step(meaning);
    }
}

/// From one sample to the next.
fn sample_step(meaning: &str) -> u32 {
    SAMPLE + 34 + 8 * u32::try_from(meaning.len()).unwrap_or(0)
}

fn draw_sample(svg: &mut Svg, x: u32, y: u32, cell: Cell, meaning: &str) {
    svg.rectangle(Area { x, y, width: SAMPLE, height: SAMPLE }, &colour(cell));
    if cell == Cell::Clean {
        svg.raw(format_args!(
            r##"<rect x="{x}.5" y="{y}.5" width="{s}" height="{s}" fill="none" stroke="#3d444d"/>"##,
            s = SAMPLE - 1
        ));
    }
    svg.text(x + SAMPLE + 8, y + SAMPLE - 3, Style::pale(16), meaning);
}

/// One heap's memory in its parts.
fn draw_bar(svg: &mut Svg, panel: &Panel<'_>, scale: usize, area: Area) {
    svg.text(area.x, area.y + BAR_HEIGHT - 8, Style::pale(16), panel.caption);
    let room = area.width - BAR_NAME - BAR_TOTAL;
    let mut x = area.x + BAR_NAME;
    svg.rectangle(Area { x, width: room, ..area }, PAPER);
    let dirty = colour(Cell::Dirty);
    let used = panel.live + panel.dirty + panel.metadata;
    let parts = [
        (panel.live, LIVE),
        (panel.held.saturating_sub(used), SLACK),
        (panel.dirty, dirty.as_str()),
        (panel.metadata, METADATA),
    ];
    for (bytes, colour) in parts {
        let width = u32::try_from(bytes.saturating_mul(room as usize) / scale).unwrap_or(room);
        svg.rectangle(Area { x, width, ..area }, colour);
        x += width;
    }
    let total = format!("{} MiB", Mib(panel.held));
    svg.text(area.x + area.width, area.y + BAR_HEIGHT - 8, Style::strong(16).to_the_left(), &total);
}

/// The bars' colours.
fn draw_parts(svg: &mut Svg, y: u32, saved: bool) {
    let mut x = MARGIN + BAR_NAME;
    let dirty = colour(Cell::Dirty);
    let parts = [
        (LIVE, "live objects"),
        (SLACK, "unused slots and rounding"),
        (dirty.as_str(), "free pages, not yet given back"),
        (METADATA, "the heap's tables"),
        (PAPER, if saved { "given back" } else { "" }),
    ];
    for (colour, meaning) in parts.into_iter().filter(|(_, meaning)| !meaning.is_empty()) {
        svg.rectangle(Area { x, y, width: SAMPLE, height: SAMPLE }, colour);
        if colour == PAPER {
            svg.raw(format_args!(
                r#"<rect x="{x}.5" y="{y}.5" width="{s}" height="{s}" fill="none" stroke="{SAVED}"/>"#,
                s = SAMPLE - 1
            ));
        }
        svg.text(x + SAMPLE + 8, y + SAMPLE - 3, Style::pale(16), meaning);
        x += sample_step(meaning);
    }
}
