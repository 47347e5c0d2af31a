//! The ratios as bars: a panel for CPU time and one for peak memory, a group of bars for each workload.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::{
    Color, DrawingArea, IntoDrawingArea, Palette, Palette99, PathElement, RGBColor, Rectangle, SVGBackend, Text,
};
use plotters::style::{BLACK, IntoFont, WHITE};

use crate::compare::figures::{CPU, Figure, PEAK, Table};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Widths, in pixels.
const LABELS: i32 = 150;
const PANEL: i32 = 420;
const GAP: i32 = 30;
/// Heights.
const BAR: i32 = 7;
const SPACE: i32 = 10;
const HEAD: i32 = 70;
/// Bars that would be longer are cut off, with their figure beside them.
const LONGEST: f64 = 3.0;

const GREY: RGBColor = RGBColor(150, 150, 150);

/// Draws to a file.
pub(crate) fn draw(file: &Path, table: &Table) -> anyhow::Result<()> {
    // Workloads, and the means as one more.
    let groups = table.rows.len() as i32 + 1;
    let group = table.allocators.len() as i32 * BAR + SPACE;
    let (width, height) = (LABELS + 2 * (PANEL + GAP), HEAD + groups * group);
    let area = SVGBackend::new(file, (width as u32, height as u32)).into_drawing_area();
    area.fill(&WHITE)?;
    legend(&area, table)?;
    let names = table.rows.iter().map(|row| row.workload.as_str()).chain(["geometric mean"]);
    for (name, top) in names.zip((HEAD..).step_by(group as usize)) {
        area.draw(&Text::new(name.to_owned(), (8, top), ("sans-serif", 15).into_font()))?;
    }
    for (figure, left) in [CPU, PEAK].into_iter().zip([LABELS, LABELS + PANEL + GAP]) {
        panel(&area, table, figure, left, height)?;
    }
    area.present()?;
    Ok(())
}

/// The names in their colours.
fn legend(area: &Area<'_>, table: &Table) -> anyhow::Result<()> {
    for (place, allocator) in table.allocators.iter().enumerate() {
        let left = 8 + place as i32 * 110;
        let square = [(left, 10), (left + 10, 20)];
        area.draw(&Rectangle::new(square, Palette99::pick(place).filled()))?;
        area.draw(&Text::new(allocator.name.clone(), (left + 15, 9), ("sans-serif", 15).into_font()))?;
    }
    Ok(())
}

fn panel(area: &Area<'_>, table: &Table, figure: Figure, left: i32, bottom: i32) -> anyhow::Result<()> {
    let baseline = &table.allocators[table.baseline].name;
    let title = format!("{}, as a multiple of {baseline}", figure.name);
    area.draw(&Text::new(title, (left, 30), ("sans-serif", 16).into_font()))?;
    for mark in 0..=LONGEST as i32 {
        let x = left + length(f64::from(mark));
        let colour = if mark == 1 { BLACK } else { GREY };
        area.draw(&PathElement::new(vec![(x, HEAD - 8), (x, bottom - 4)], colour.stroke_width(1)))?;
        area.draw(&Text::new(mark.to_string(), (x - 3, HEAD - 22), ("sans-serif", 13).into_font()))?;
    }
    let mut top = HEAD;
    for row in &table.rows {
        let ratios = (0..table.allocators.len()).map(|place| row.ratio(place, table.baseline, figure));
        top = group(area, ratios, left, top)?;
    }
    let means = (0..table.allocators.len()).map(|place| table.mean(place, table.baseline, figure));
    group(area, means, left, top).map(drop)
}

/// Draws a group of bars and says where the next one starts.
fn group(area: &Area<'_>, ratios: impl Iterator<Item = Option<f64>>, left: i32, mut top: i32) -> anyhow::Result<i32> {
    for (place, ratio) in ratios.enumerate() {
        if let Some(ratio) = ratio {
            let right = left + length(ratio.min(LONGEST));
            area.draw(&Rectangle::new([(left, top), (right, top + BAR - 1)], Palette99::pick(place).filled()))?;
            if ratio > LONGEST {
                let figure = Text::new(format!("{ratio:.1}"), (right + 3, top - 2), ("sans-serif", 11).into_font());
                area.draw(&figure)?;
            }
        }
        top += BAR;
    }
    Ok(top + SPACE)
}

fn length(ratio: f64) -> i32 {
    (ratio / LONGEST * f64::from(PANEL)) as i32
}
