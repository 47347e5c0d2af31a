//! SVG text, as little of it as the pictures need.

use core::fmt::Write;

use super::palette::{INK, PALE_INK};

/// The font that the PNG is drawn with, and what browsers take instead.
const FONTS: &str = "Ubuntu, 'Segoe UI', Helvetica, Arial, sans-serif";

/// Where a text's `x` is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    End,
}

/// How a text looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub(super) size: u32,
    pub(super) colour: &'static str,
    pub(super) anchor: Anchor,
}

impl Style {
    pub(super) const fn strong(size: u32) -> Self {
        Self { size, colour: INK, anchor: Anchor::Start }
    }

    pub(super) const fn pale(size: u32) -> Self {
        Self { size, colour: PALE_INK, anchor: Anchor::Start }
    }

    pub(super) const fn coloured(self, colour: &'static str) -> Self {
        Self { colour, ..self }
    }

    pub(super) const fn to_the_left(self) -> Self {
        Self { anchor: Anchor::End, ..self }
    }
}

/// A rectangle in pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) x: u32,
    pub(super) y: u32,
    pub(super) width: u32,
    pub(super) height: u32,
}

/// An SVG document in the making.
#[derive(Debug)]
pub(super) struct Svg {
    body: String,
    width: u32,
    height: u32,
}

impl Svg {
    pub(super) fn new(width: u32, height: u32, ground: &str) -> Self {
        let mut svg = Self { body: String::new(), width, height };
        svg.rectangle(Area { x: 0, y: 0, width, height }, ground);
        svg
    }

    /// Adds markup as it is.
    pub(super) fn raw(&mut self, markup: core::fmt::Arguments<'_>) {
        self.body.write_fmt(markup).expect("a string takes any text");
        self.body.push('\n');
    }

    pub(super) fn rectangle(&mut self, area: Area, colour: &str) {
        let Area { x, y, width, height } = area;
        self.raw(format_args!(r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{colour}"/>"#));
    }

    pub(super) fn text(&mut self, x: u32, y: u32, style: Style, text: &str) {
        let Style { size, colour, anchor } = style;
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::End => "end",
        };
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        self.raw(format_args!(
            r#"<text x="{x}" y="{y}" font-size="{size}" fill="{colour}" text-anchor="{anchor}">{text}</text>"#
        ));
    }

    pub(super) fn finish(self) -> String {
        let Self { body, width, height } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"{FONTS}\">\n{body}</svg>\n"
        )
    }
}
