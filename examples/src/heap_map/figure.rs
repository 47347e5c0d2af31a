//! Whole pictures: a title, one map or two side by side, bars of physical memory, a legend.

use super::footer;
use super::grid::Grid;
use super::map::{Cell, HeapMap};
use super::palette::{GROUND, SAVED};
use super::picture::Picture;
use super::svg::{Style, Svg};
use crate::units::{Mib, grouped};

/// A picture's width.
const WIDTH: u32 = 1640;
/// Around everything and between panels.
pub(super) const MARGIN: u32 = 40;
/// A panel's map is as high as this at the most, unless there are millions of pages.
const MAP_HEIGHT: u32 = 860;
/// Room for the title.
const TITLE_HEIGHT: u32 = 96;
/// Room for what stands above a panel's map.
const PANEL_HEAD: u32 = 64;

/// One heap at one moment, with its figures in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Panel<'a> {
    /// What stands above it: "before", "after".
    pub caption: &'a str,
    /// Its pages.
    pub map: &'a HeapMap,
    /// Bytes in live objects.
    pub live: usize,
    /// Bytes that the heap holds.
    pub held: usize,
    /// The part of them in the heap's own tables.
    pub metadata: usize,
    /// The part of them in free pages with old content.
    pub dirty: usize,
}

/// A picture of one heap.
#[must_use]
pub fn single(title: &str, panel: &Panel<'_>) -> Picture {
    draw(title, core::slice::from_ref(panel))
}

/// Two moments of one heap side by side, with what was saved between them.
#[must_use]
pub fn pair(title: &str, before: &Panel<'_>, after: &Panel<'_>) -> Picture {
    draw(title, &[*before, *after])
}

fn draw(title: &str, panels: &[Panel<'_>]) -> Picture {
    let pages = panels.iter().map(|panel| panel.map.cells().len()).max().unwrap_or(0);
    let panel_step = (WIDTH - MARGIN) / u32::try_from(panels.len()).unwrap_or(1);
    // One grid for all panels, so that a page is at the same place in each of them.
    let grid = Grid::fit(pages, panel_step - MARGIN, MAP_HEIGHT);
    let maps_end = TITLE_HEIGHT + PANEL_HEAD + grid.height();

    let mut svg = Svg::new(WIDTH, maps_end + footer::height(panels.len()), GROUND);
    draw_title(&mut svg, title, panels);
    for (x, panel) in (MARGIN..).step_by(panel_step as usize).zip(panels) {
        draw_panel(&mut svg, panel, grid, x, panel_step - MARGIN);
    }
    footer::draw(&mut svg, panels, maps_end, WIDTH);
    Picture::new(svg.finish())
}

fn draw_title(svg: &mut Svg, title: &str, panels: &[Panel<'_>]) {
    svg.text(MARGIN, 52, Style::strong(30), title);
    let page_kib = panels.first().map_or(4, |panel| panel.map.page_size() / 1024);
    let how = format!("Each cell is one {page_kib} KiB page of the heap's address space, row by row in address order.");
    svg.text(MARGIN, 80, Style::pale(16), &how);
    if let [before, after] = panels {
        let saved = before.held.saturating_sub(after.held);
        let percent = saved * 100 / before.held.max(1);
        let style = Style::strong(30).coloured(SAVED).to_the_left();
        svg.text(WIDTH - MARGIN, 52, style, &format!("{} MiB given back", Mib(saved)));
        let note = format!("{percent} % of the heap's memory, and no object moved");
        svg.text(WIDTH - MARGIN, 80, Style::pale(16).to_the_left(), &note);
    }
}

fn draw_panel(svg: &mut Svg, panel: &Panel<'_>, grid: Grid, x: u32, width: u32) {
    let (first, second) = (TITLE_HEIGHT + 24, TITLE_HEIGHT + 48);
    svg.text(x, first, Style::strong(22), panel.caption);
    let held = format!("{} MiB held for {} MiB live", Mib(panel.held), Mib(panel.live));
    svg.text(x + width, first, Style::strong(22).to_the_left(), &held);
    let own = panel.map.count(|cell| matches!(cell, Cell::Span(_) | Cell::Large));
    let aliases = panel.map.count(|cell| cell == Cell::Alias);
    let note = format!("{} pages with memory of their own, {} aliases", grouped(own), grouped(aliases));
    svg.text(x, second, Style::pale(16), &note);
    grid.draw(svg, panel.map.cells(), x, TITLE_HEIGHT + PANEL_HEAD);
}
