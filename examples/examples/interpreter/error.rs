//! What can go wrong in a script, as values.

use core::fmt;

use meshheap::AllocError;

/// A place in a source text, both from 1; columns count characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Position {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A text that is no program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ParseError {
    pub(crate) position: Position,
    pub(crate) kind: ParseErrorKind,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ParseErrorKind {
    /// The text ends within the list that opens here.
    UnclosedList,
    /// The text ends within the string that opens here.
    UnclosedString,
    /// The text ends behind this quote.
    NothingQuoted,
    UnexpectedClose,
    MisplacedDot,
    UnknownEscape(char),
    UnknownHash(String),
    IntegerTooLarge(String),
}

impl ParseError {
    /// Whether more text could make it right.
    pub(crate) const fn is_incomplete(&self) -> bool {
        use ParseErrorKind::{NothingQuoted, UnclosedList, UnclosedString};
        matches!(self.kind, UnclosedList | UnclosedString | NothingQuoted)
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.position)?;
        match &self.kind {
            ParseErrorKind::UnclosedList => f.write_str("this '(' is never closed"),
            ParseErrorKind::UnclosedString => f.write_str("this string is never closed"),
            ParseErrorKind::NothingQuoted => f.write_str("nothing follows this quote"),
            ParseErrorKind::UnexpectedClose => f.write_str("unexpected ')'"),
            ParseErrorKind::MisplacedDot => f.write_str("a '.' belongs before the last item of a list"),
            ParseErrorKind::UnknownEscape(escape) => write!(f, "unknown escape '\\{escape}' in a string"),
            ParseErrorKind::UnknownHash(word) => write!(f, "unknown word {word}"),
            ParseErrorKind::IntegerTooLarge(digits) => write!(f, "the integer {digits} does not fit 63 bits"),
        }
    }
}

/// A program that cannot go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum LispError {
    Unbound(String),
    WrongType {
        user: String,
        expected: &'static str,
        found: String,
    },
    WrongCount {
        user: String,
        expected: String,
        found: usize,
    },
    NotAFunction(String),
    BadForm {
        form: &'static str,
        reason: &'static str,
    },
    Overflow(&'static str),
    DivisionByZero(&'static str),
    OutOfRange {
        user: &'static str,
        index: i64,
        length: usize,
    },
    TooDeep(usize),
    TooComplex(&'static str),
    OutOfMemory(AllocError),
    /// The script called `error`.
    Raised(String),
}

impl fmt::Display for LispError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unbound(name) => write!(f, "unbound symbol: {name}"),
            Self::WrongType { user, expected, found } => write!(f, "{user}: expected {expected}, found {found}"),
            Self::WrongCount { user, expected, found } => {
                write!(f, "{user}: expected {expected}, found {found}")
            }
            Self::NotAFunction(found) => write!(f, "not a function: {found}"),
            Self::BadForm { form, reason } => write!(f, "{form}: {reason}"),
            Self::Overflow(user) => write!(f, "{user}: the result does not fit 63 bits"),
            Self::DivisionByZero(user) => write!(f, "{user}: division by zero"),
            Self::OutOfRange { user, index, length } => {
                write!(f, "{user}: {index} is outside of 0 to {length}")
            }
            Self::TooDeep(limit) => write!(f, "recursion too deep: more than {limit} frames"),
            Self::TooComplex(user) => write!(f, "{user}: the values are too large to walk through"),
            Self::OutOfMemory(error) => match error {
                AllocError::OutOfMemory => error.fmt(f),
                other => write!(f, "out of memory: {other}"),
            },
            Self::Raised(message) => f.write_str(message),
        }
    }
}

/// Why a step of the machine was not made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    Error(LispError),
    /// The heap had no room. A collection may make some, so that the same step succeeds.
    Memory(AllocError),
}

impl From<LispError> for Stop {
    fn from(error: LispError) -> Self {
        Self::Error(error)
    }
}

impl From<AllocError> for Stop {
    fn from(error: AllocError) -> Self {
        Self::Memory(error)
    }
}
