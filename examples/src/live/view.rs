//! A snapshot in a terminal: how much is held for how much, what each class and each page is used for.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell as TableCell, LineGauge, Paragraph, Row, Table, Widget};

use super::snapshot::{BudgetNode, SizeClass, Snapshot};
use crate::heap_map::{Cell, LEVELS, rgb};
use crate::units::{Mib, grouped};

/// Columns of the table of classes.
const TABLE_WIDTH: u16 = 62;

/// How the map shows what pages are used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Paint {
    /// In colours, two points in each character.
    Colours,
    /// In letters, where there are no colours: digits are spans, from nearly empty (0) to full (9).
    Letters,
}

/// Draws `snapshot`, with `message` in the last line.
pub fn draw(frame: &mut Frame<'_>, snapshot: &Snapshot, paint: Paint, message: &str) {
    let gauges = gauges(snapshot);
    let heights = [
        Constraint::Length(3),
        Constraint::Length(u16::try_from(gauges.len()).unwrap_or(u16::MAX)),
        Constraint::Min(3),
        Constraint::Length(1),
        Constraint::Length(1),
    ];
    let [head, bars, body, legend, foot] = Layout::vertical(heights).areas(frame.area());
    frame.render_widget(Paragraph::new(summary(snapshot)), head);
    for ((label, used, most), area) in gauges.into_iter().zip(bars.rows()) {
        frame.render_widget(gauge(&label, used, most), area);
    }
    let [map, table] = Layout::horizontal([Constraint::Min(10), Constraint::Length(TABLE_WIDTH)]).areas(body);
    frame.render_widget(PageMap { snapshot, paint }, map);
    frame.render_widget(classes(&snapshot.classes), table);
    match paint {
        Paint::Colours => frame.render_widget(legend_line(), legend),
        Paint::Letters => {
            frame.render_widget(Line::raw("0-9 spans by occupancy, a alias, L large object, d dirty"), legend)
        }
    }
    frame.render_widget(Paragraph::new(message).style(Style::new().add_modifier(Modifier::DIM)), foot);
}

fn summary(snapshot: &Snapshot) -> Vec<Line<'static>> {
    let mib = |name| Mib(snapshot.figure(name));
    let count = |name| grouped(snapshot.figure(name));
    let (pages, aliases) =
        (snapshot.figure("span_bytes") / snapshot.page_size, snapshot.figure("aliased_bytes") / snapshot.page_size);
    vec![
        Line::styled(
            format!("{}: {} MiB held for {} MiB live", snapshot.name, mib("held_bytes"), mib("taken_bytes")),
            Style::new().add_modifier(Modifier::BOLD),
        ),
        Line::raw(format!(
            "{} pages in use, {} of them aliases ({} MiB saved); {} MiB dirty, {} MiB metadata",
            grouped(pages),
            grouped(aliases),
            mib("aliased_bytes"),
            mib("dirty_bytes"),
            mib("metadata_bytes"),
        )),
        Line::raw(format!(
            "{} pages meshed in {} passes, {} steps; the longest took {} us; {} wrong pointers",
            count("pages_meshed"),
            count("mesh_passes"),
            count("mesh_steps"),
            grouped(snapshot.figure("longest_step_ns") / 1000),
            count("misuses"),
        )),
    ]
}

/// What is limited: label, use, limit.
fn gauges(snapshot: &Snapshot) -> Vec<(String, usize, usize)> {
    let (mappings, mapping_budget) = (snapshot.figure("mappings"), snapshot.figure("mapping_budget"));
    let (live, held) = (snapshot.figure("taken_bytes"), snapshot.figure("held_bytes"));
    let (span, arena) = (snapshot.figure("span_bytes"), snapshot.figure("arena_bytes"));
    let mut gauges = vec![
        (format!("live in held   {:>9} of {:>9} MiB", Mib(live), Mib(held)), live, held),
        (format!("arena          {:>9} of {:>9} MiB", Mib(span), Mib(arena)), span, arena),
        (
            format!("mappings       {:>9} of {:>9}    ", grouped(mappings), grouped(mapping_budget)),
            mappings,
            mapping_budget,
        ),
    ];
    gauges.extend(snapshot.budgets.iter().map(|BudgetNode { id, resource, used, hard, .. }| {
        (format!("{:<14} {:>9} of {:>9} MiB", format!("#{id} {resource}"), Mib(*used), Mib(*hard)), *used, *hard)
    }));
    gauges
}

fn gauge(label: &str, used: usize, most: usize) -> LineGauge<'_> {
    let ratio = if most == 0 { 0.0 } else { (used as f64 / most as f64).clamp(0.0, 1.0) };
    let colour = if ratio > 0.9 { Color::Red } else { Color::Cyan };
    LineGauge::default().ratio(ratio).label(label).filled_style(Style::new().fg(colour))
}

fn classes(classes: &[SizeClass]) -> Table<'_> {
    let titles = ["slot", "taken", "slots", "spans", "aliases", "held KiB", "free"];
    let rows = classes.iter().map(|class| {
        let free = class.free_percent();
        let numbers = [class.slot_size, class.taken, class.slots, class.spans, class.aliases, class.held_bytes / 1024];
        let cells = numbers.into_iter().map(|number| TableCell::from(Line::raw(grouped(number)).right_aligned()));
        let colour = if free > 50 { Color::Yellow } else { Color::Reset };
        let free = Line::styled(format!("{free} %"), Style::new().fg(colour)).right_aligned();
        Row::new(cells.chain([TableCell::from(free)]))
    });
    let widths = [6, 10, 10, 8, 8, 9, 5].map(Constraint::Length);
    let head = Row::new(titles.map(|title| TableCell::from(Line::raw(title).right_aligned())));
    let head = head.style(Style::new().add_modifier(Modifier::BOLD));
    Table::new(rows, widths).header(head).column_spacing(1).block(Block::bordered().title("size classes"))
}

fn legend_line() -> Line<'static> {
    let kinds = [
        (Cell::Span(1), "sparse span"),
        (Cell::Span(LEVELS - 1), "full span"),
        (Cell::Alias, "alias"),
        (Cell::Large, "large object"),
        (Cell::Dirty, "dirty"),
    ];
    let spans = kinds.into_iter().flat_map(|(cell, name)| {
        [Line::styled("██", Style::new().fg(colour(cell))).spans.remove(0), format!(" {name}  ").into()]
    });
    Line::from(spans.collect::<Vec<_>>())
}

fn colour(cell: Cell) -> Color {
    let [red, green, blue] = rgb(cell);
    Color::Rgb(red, green, blue)
}

/// The map of pages, in points of as many pages as need be.
struct PageMap<'s> {
    snapshot: &'s Snapshot,
    paint: Paint,
}

const fn letter(cell: Cell) -> char {
    match cell {
        Cell::Clean => ' ',
        Cell::Dirty => 'd',
        Cell::Alias => 'a',
        Cell::Large => 'L',
        Cell::Span(level) => (b'0' + level * 10 / LEVELS) as char,
    }
}

/// What stands for several pages: the kind that most of them are; of spans, how full they are on average.
fn dominant(cells: &[Cell]) -> Cell {
    let kind = |cell: &Cell| match cell {
        Cell::Clean => 0,
        Cell::Dirty => 1,
        Cell::Alias => 2,
        Cell::Large => 3,
        Cell::Span(_) => 4,
    };
    let mut counts = [0_usize; 5];
    let mut levels = 0;
    for cell in cells {
        counts[kind(cell)] += 1;
        levels += if let Cell::Span(level) = cell { usize::from(*level) } else { 0 };
    }
    // Of equals, what is in use.
    let most = (0..5).filter(|&index| counts[index] > 0).max_by_key(|&index| counts[index]).unwrap_or(0);
    match most {
        1 => Cell::Dirty,
        2 => Cell::Alias,
        3 => Cell::Large,
        4 => Cell::Span(u8::try_from(levels / counts[4].max(1)).unwrap_or(LEVELS - 1)),
        _ => Cell::Clean,
    }
}

impl Widget for PageMap<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let map = self.snapshot.map();
        let cells = map.cells();
        let frame = Block::bordered();
        let inside = frame.inner(area);
        let points_per_character = if self.paint == Paint::Colours { 2 } else { 1 };
        let (columns, rows) = (usize::from(inside.width), points_per_character * usize::from(inside.height));
        let pages_per_point = cells.len().div_ceil((columns * rows).max(1)).max(1);
        let title = format!("{} pages, {pages_per_point} a point", grouped(cells.len()));
        frame.title(title).render(area, buffer);
        let points: Vec<Cell> = cells.chunks(pages_per_point).map(dominant).collect();
        for (index, position) in inside.positions().enumerate() {
            let (row, column) = (index / columns, index % columns);
            let point = |half: usize| {
                points.get((points_per_character * row + half) * columns + column).copied().unwrap_or(Cell::Clean)
            };
            let Some(place) = buffer.cell_mut(position) else { continue };
            match self.paint {
                Paint::Colours => place.set_char('▀').set_fg(colour(point(0))).set_bg(colour(point(1))),
                Paint::Letters => place.set_char(letter(point(0))),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Cell, dominant};

    #[test]
    fn a_point_shows_what_most_of_its_pages_are() {
        assert_eq!(dominant(&[Cell::Alias, Cell::Alias, Cell::Span(3)]), Cell::Alias);
        assert_eq!(dominant(&[Cell::Span(2), Cell::Span(4), Cell::Large]), Cell::Span(3));
        assert_eq!(dominant(&[]), Cell::Clean);
    }
}
