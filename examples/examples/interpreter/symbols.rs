//! Names: each is stored once, and a symbol is its number.

use std::collections::HashMap;

use crate::atoms::Symbol;

/// The names with a meaning of their own. Their symbols come first in the table, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keyword {
    Quote,
    If,
    Cond,
    Else,
    Begin,
    Define,
    Set,
    Lambda,
    Let,
    LetStar,
    And,
    Or,
    Try,
}

/// Each keyword with its name.
const KEYWORDS: [(Keyword, &str); 13] = [
    (Keyword::Quote, "quote"),
    (Keyword::If, "if"),
    (Keyword::Cond, "cond"),
    (Keyword::Else, "else"),
    (Keyword::Begin, "begin"),
    (Keyword::Define, "define"),
    (Keyword::Set, "set!"),
    (Keyword::Lambda, "lambda"),
    (Keyword::Let, "let"),
    (Keyword::LetStar, "let*"),
    (Keyword::And, "and"),
    (Keyword::Or, "or"),
    (Keyword::Try, "try"),
];

impl Keyword {
    /// The keyword that `symbol` names.
    pub(crate) fn of(symbol: Symbol) -> Option<Self> {
        KEYWORDS.get(symbol.0 as usize).map(|&(keyword, _)| keyword)
    }

    pub(crate) const fn name(self) -> &'static str {
        KEYWORDS[self as usize].1
    }

    pub(crate) const fn symbol(self) -> Symbol {
        Symbol(self as u32)
    }
}

/// The table of all names.
#[derive(Debug)]
pub(crate) struct Symbols {
    names: Vec<Box<str>>,
    numbers: HashMap<Box<str>, Symbol>,
}

impl Symbols {
    /// A table of the keywords alone.
    pub(crate) fn new() -> Self {
        let mut symbols = Self { names: Vec::new(), numbers: HashMap::new() };
        for (_, name) in KEYWORDS {
            symbols.intern(name);
        }
        symbols
    }

    /// The symbol of `name`. Only source text makes new ones, so their number is bounded by its length.
    pub(crate) fn intern(&mut self, name: &str) -> Symbol {
        if let Some(&symbol) = self.numbers.get(name) {
            return symbol;
        }
        let symbol = Symbol(u32::try_from(self.names.len()).expect("a source has less than four billion names"));
        self.names.push(name.into());
        self.numbers.insert(name.into(), symbol);
        symbol
    }

    pub(crate) fn name(&self, symbol: Symbol) -> &str {
        &self.names[symbol.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::{KEYWORDS, Keyword, Symbols};

    #[test]
    fn keywords_have_the_first_symbols_and_each_name_has_one() {
        let mut symbols = Symbols::new();
        for (keyword, name) in KEYWORDS {
            assert_eq!(symbols.intern(name), keyword.symbol());
            assert_eq!(Keyword::of(keyword.symbol()), Some(keyword));
            assert_eq!(keyword.name(), name);
        }
        let other = symbols.intern("other");
        assert_eq!(Keyword::of(other), None);
        assert_eq!((symbols.intern("other"), symbols.name(other)), (other, "other"));
    }
}
