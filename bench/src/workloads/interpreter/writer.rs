//! Writes programs.

use core::fmt::Write;

/// A program of so many statements on some twenty variables.
pub(super) fn program(seed: u64, statements: usize) -> String {
    let mut writer = Writer { rng: fastrand::Rng::with_seed(seed), text: String::new() };
    for _ in 0..statements {
        writer.name();
        writer.put(" = ");
        writer.expression(4);
        writer.put(";\n");
    }
    writer.text
}

struct Writer {
    rng: fastrand::Rng,
    text: String,
}

impl Writer {
    fn put(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn name(&mut self) {
        let number = self.rng.u8(..20);
        write!(self.text, "variable{number}").expect("strings take all");
    }

    fn expression(&mut self, depth: usize) {
        if depth > 2 && self.rng.u8(..8) == 0 {
            self.put("if ");
            self.sum(depth - 1);
            self.put(" < ");
            self.sum(depth - 1);
            self.put(" then ");
            self.sum(depth - 1);
            self.put(" else ");
        }
        self.sum(depth);
    }

    fn sum(&mut self, depth: usize) {
        self.value(depth);
        for _ in 0..self.rng.usize(..3) {
            let operator = self.rng.choice([" + ", " + ", " - ", " * "]).expect("there are some");
            self.put(operator);
            self.value(depth);
        }
    }

    fn value(&mut self, depth: usize) {
        match self.rng.u8(..if depth == 0 { 3 } else { 7 }) {
            0 => write!(self.text, "{}", self.rng.u16(..)).expect("strings take all"),
            1 => self.name(),
            2 => write!(self.text, "\"text{}\"", self.rng.u16(..)).expect("strings take all"),
            3 => self.enclosed("(", depth, ")"),
            4 => {
                let function = self.rng.choice(["sum(", "text(", "reverse(", "length("]).expect("there are some");
                self.enclosed(function, depth, ")");
            }
            _ => {
                self.enclosed("[", depth, ", ");
                self.enclosed("", depth, "]");
            }
        }
    }

    fn enclosed(&mut self, start: &str, depth: usize, end: &str) {
        self.put(start);
        self.expression(depth - 1);
        self.put(end);
    }
}
