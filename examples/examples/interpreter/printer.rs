//! From values to text.

use core::fmt::Write;

use crate::memory::Value;
use crate::symbols::Symbols;

/// Lists in lists are shown down to here: the printer calls itself, and no data may overflow its stack.
const MAX_DEPTH: usize = 100;

/// So many atoms are shown at the most: a value may share its parts so often that it has no end in practice.
const MAX_ATOMS: usize = 10_000;

/// How texts are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    /// As they are: for people.
    Display,
    /// In quotes, with escapes: as the reader takes them.
    Write,
}

/// The text of `value`. What is too much to be shown is three dots.
pub(crate) fn print(value: Value<'_>, symbols: &Symbols, style: Style) -> String {
    let mut printer = Printer { symbols, style, text: String::new(), atoms_left: MAX_ATOMS };
    printer.print(value, 0);
    printer.text
}

struct Printer<'s> {
    symbols: &'s Symbols,
    style: Style,
    text: String,
    atoms_left: usize,
}

impl Printer<'_> {
    fn print(&mut self, value: Value<'_>, depth: usize) {
        if self.atoms_left == 0 || depth > MAX_DEPTH {
            self.text.push_str("...");
            return;
        }
        self.atoms_left -= 1;
        match value {
            Value::Nil => self.text.push_str("()"),
            Value::Void => {}
            Value::Bool(true) => self.text.push_str("#t"),
            Value::Bool(false) => self.text.push_str("#f"),
            Value::Integer(number) => self.print_integer(number.get()),
            Value::Symbol(symbol) => self.text.push_str(self.symbols.name(symbol)),
            Value::Primitive(_) => self.text.push_str("#<primitive>"),
            Value::Closure(_) => self.text.push_str("#<lambda>"),
            Value::Scope(_) | Value::Binding(_) => self.text.push_str("#<scope>"),
            Value::Text(text) if self.style == Style::Display => self.text.push_str(text.text()),
            Value::Text(text) => self.print_quoted(text.text()),
            Value::Pair(_) => self.print_list(value, depth),
        }
    }

    fn print_integer(&mut self, number: i64) {
        write!(self.text, "{number}").expect("a string takes everything");
    }

    fn print_quoted(&mut self, text: &str) {
        self.text.push('"');
        for char in text.chars() {
            match char {
                '"' | '\\' => self.text.extend(['\\', char]),
                '\n' => self.text.push_str("\\n"),
                '\t' => self.text.push_str("\\t"),
                other => self.text.push(other),
            }
        }
        self.text.push('"');
    }

    fn print_list(&mut self, list: Value<'_>, depth: usize) {
        let mut rest = list;
        let mut before = "(";
        while let Value::Pair(pair) = rest {
            self.text.push_str(before);
            self.print(pair.head(), depth + 1);
            rest = pair.tail();
            before = " ";
            if self.atoms_left == 0 && matches!(rest, Value::Pair(_)) {
                self.text.push_str(" ...)");
                return;
            }
        }
        if !matches!(rest, Value::Nil) {
            self.text.push_str(" . ");
            self.print(rest, depth + 1);
        }
        self.text.push(')');
    }
}
