//! A small language: programs are written, parsed to trees, and run a number of times with fresh variables.
//!
//! ```text
//! program    = { name "=" expression ";" }
//! expression = "if" expression "then" expression "else" expression | sum [ "<" sum ]
//! sum        = product { ( "+" | "-" ) product }
//! product    = value { "*" value }
//! value      = number | text | name | name "(" expression ")" | "(" expression ")" | "[" { expression "," } "]"
//! ```

mod lexer;
mod machine;
mod parser;
mod tree;
mod writer;

use std::collections::VecDeque;

use crate::{End, Scale};

const PROGRAMS: usize = 280;
const STATEMENTS: usize = 150;
/// How often each program is run.
const RUNS: usize = 6;
/// Trees that are held at a time.
const HELD: usize = 32;

pub(crate) fn run(scale: Scale) -> End {
    let mut held = VecDeque::new();
    let mut checksum = 0_u64;
    for seed in 0..scale.of(PROGRAMS) {
        let text = writer::program(seed as u64, STATEMENTS);
        let program = parser::parse(&text);
        for _ in 0..RUNS {
            checksum = checksum.wrapping_mul(31).wrapping_add(machine::run(&program));
        }
        held.push_back(program);
        if held.len() > HELD {
            held.pop_front();
        }
    }
    End::new(checksum, held)
}

#[cfg(test)]
mod tests {
    use super::{machine, parser};

    fn result(text: &str) -> u64 {
        machine::run(&parser::parse(text))
    }

    #[test]
    fn products_bind_closer_than_sums() {
        assert_eq!(result("a = 1 + 2 * 3 - 1;"), result("a = 6;"));
        assert_eq!(result("a = (1 + 2) * 3;"), result("a = 9;"));
    }

    #[test]
    fn a_condition_takes_one_branch() {
        assert_eq!(result("a = 4; a = if a < 5 then a + 1 else 0;"), result("a = 5;"));
    }

    #[test]
    fn texts_and_lists_are_joined() {
        assert_eq!(result("a = \"x\" + \"yz\"; b = length(a);"), result("a = \"xyz\"; b = 3;"));
        assert_eq!(result("a = sum([1, 2] + [3]);"), result("a = 6;"));
    }
}
