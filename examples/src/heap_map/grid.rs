//! Pages laid out in rows, in address order, and drawn with one path a colour: equal neighbours become one rectangle, so
//! that 100 000 pages take a megabyte of SVG.

use core::fmt::Write;
use std::collections::BTreeMap;

use super::map::Cell;
use super::palette::{PAPER, colour};
use super::svg::{Area, Svg};

/// Cells from this size on are set apart by lines, and aliases get a dot.
const ROOMY_PIXELS: u32 = 5;

/// A larger cell says no more than this one.
const MAX_PIXELS: u32 = 12;

/// How cells fill an area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Grid {
    /// The side of a cell.
    pub(super) pixels: u32,
    pub(super) columns: u32,
    pub(super) rows: u32,
}

impl Grid {
    /// The largest whole cells with which `pages` fit into `width` x `height` pixels. So many that even cells of one pixel
    /// do not: the rows go on below.
    pub(super) fn fit(pages: usize, width: u32, height: u32) -> Self {
        let pages = u32::try_from(pages.max(1)).unwrap_or(u32::MAX);
        let with = |pixels: u32| {
            let columns = (width / pixels).max(1);
            Self { pixels, columns, rows: pages.div_ceil(columns) }
        };
        let fits = |grid: &Self| grid.rows.saturating_mul(grid.pixels) <= height;
        (1..=MAX_PIXELS).rev().map(with).find(fits).unwrap_or_else(|| with(1))
    }

    pub(super) const fn height(self) -> u32 {
        self.rows * self.pixels
    }

    /// Draws `cells` with the upper left corner at `x`, `y`.
    pub(super) fn draw(self, svg: &mut Svg, cells: &[Cell], x: u32, y: u32) {
        let (width, height) = (self.columns * self.pixels, self.height());
        svg.rectangle(Area { x, y, width, height }, PAPER);
        let pixels = self.pixels;
        svg.raw(format_args!(r#"<g transform="translate({x} {y}) scale({pixels})" shape-rendering="crispEdges">"#));
        for (cell, path) in self.paths(cells) {
            svg.raw(format_args!(r#"<path fill="{}" d="{path}"/>"#, colour(cell)));
        }
        svg.raw(format_args!("</g>"));
        if pixels >= ROOMY_PIXELS {
            self.draw_details(svg, cells, x, y);
        }
    }

    /// For each kind of cell, all its rectangles. Free pages are the paper.
    fn paths(self, cells: &[Cell]) -> BTreeMap<Cell, String> {
        let mut paths = BTreeMap::<Cell, String>::new();
        for (row, cells) in cells.chunks(self.columns as usize).enumerate() {
            let mut column = 0;
            for run in cells.chunk_by(|left, right| left == right) {
                let length = run.len();
                if run[0] != Cell::Clean {
                    let path = paths.entry(run[0]).or_default();
                    write!(path, "M{column} {row}h{length}v1h-{length}z").expect("a string takes any text");
                }
                column += length;
            }
        }
        paths
    }

    /// What only large cells have room for: a dot on each alias, and lines between cells.
    fn draw_details(self, svg: &mut Svg, cells: &[Cell], x: u32, y: u32) {
        let (pixels, mut dots, mut lines) = (self.pixels, String::new(), String::new());
        for (index, _) in cells.iter().enumerate().filter(|(_, cell)| **cell == Cell::Alias) {
            let (row, column) = (index / self.columns as usize, index % self.columns as usize);
            write!(dots, "M{column} {row}h0").expect("a string takes any text");
        }
        for column in 1..self.columns {
            write!(lines, "M{column} 0v{}", self.rows).expect("a string takes any text");
        }
        for row in 1..self.rows {
            write!(lines, "M0 {row}h{}", self.columns).expect("a string takes any text");
        }
        svg.raw(format_args!(
            r##"<g transform="translate({x} {y}) scale({pixels})"><path d="{dots}" transform="translate(.5 .5)" stroke="#56d4b0" stroke-width=".34" stroke-linecap="round"/><path d="{lines}" stroke="{PAPER}" stroke-width=".16"/></g>"##
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::{Cell, Grid};

    #[test]
    fn cells_are_as_large_as_fits() {
        assert_eq!(Grid::fit(100, 100, 100), Grid { pixels: 10, columns: 10, rows: 10 });
        assert_eq!(Grid::fit(101, 100, 100), Grid { pixels: 9, columns: 11, rows: 10 });
        assert_eq!(Grid::fit(20_000, 100, 100), Grid { pixels: 1, columns: 100, rows: 200 });
        assert_eq!(Grid::fit(0, 100, 100).rows, 1);
    }

    #[test]
    fn equal_neighbours_are_one_rectangle() {
        let grid = Grid { pixels: 1, columns: 4, rows: 2 };
        let cells = [Cell::Alias, Cell::Alias, Cell::Clean, Cell::Alias, Cell::Alias, Cell::Dirty];
        let paths = grid.paths(&cells);
        assert_eq!(paths[&Cell::Alias], "M0 0h2v1h-2zM3 0h1v1h-1zM0 1h1v1h-1z");
        assert_eq!(paths.len(), 2);
    }
}
