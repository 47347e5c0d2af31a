//! From tokens to lists in the heap.

use crate::atoms::Symbol;
use crate::error::{ParseError, ParseErrorKind, Position};
use crate::lexer::{Lexer, Token};
use crate::memory::{Mutator, Value};
use crate::symbols::{Keyword, Symbols};
use meshheap::AllocError;

/// Why a form was not read.
#[derive(Debug)]
pub(crate) enum Unread {
    Parse(ParseError),
    /// The heap had no room; the same form can be read again after a collection.
    Memory(AllocError),
}

impl From<ParseError> for Unread {
    fn from(error: ParseError) -> Self {
        Self::Parse(error)
    }
}

impl From<AllocError> for Unread {
    fn from(error: AllocError) -> Self {
        Self::Memory(error)
    }
}

/// Something begun and not ended yet. Kept on a list of its own, so that the nesting of a text is bounded by memory alone.
enum Open<'id> {
    List { position: Position, items: Vec<Value<'id>>, tail: Tail<'id> },
    Quote { position: Position },
}

/// What follows the last pair of a list.
enum Tail<'id> {
    Nil,
    /// A dot was read.
    Awaited,
    Given(Value<'id>),
}

/// The next form of a text and where it starts; none at the end of the text. On an error the lexer stands where it was.
pub(crate) fn read<'id>(
    lexer: &mut Lexer<'_>,
    symbols: &mut Symbols,
    memory: &mut Mutator<'id, '_>,
) -> Result<Option<(Position, Value<'id>)>, Unread> {
    let mut ahead = lexer.clone();
    let mut open = Vec::new();
    let mut start = None;
    while let Some((position, token)) = ahead.next()? {
        let start = *start.get_or_insert(position);
        let Some(value) = begin_or_end(position, token, &mut open, symbols, memory)? else { continue };
        if let Some(form) = place(value, position, &mut open, memory)? {
            *lexer = ahead;
            return Ok(Some((start, form)));
        }
    }
    match open.pop() {
        None => {
            *lexer = ahead;
            Ok(None)
        }
        Some(Open::List { position, .. }) => Err(mistake(position, ParseErrorKind::UnclosedList)),
        Some(Open::Quote { position }) => Err(mistake(position, ParseErrorKind::NothingQuoted)),
    }
}

const fn mistake(position: Position, kind: ParseErrorKind) -> Unread {
    Unread::Parse(ParseError { position, kind })
}

/// Takes a token in. Gives the value that it completes, if any.
fn begin_or_end<'id>(
    position: Position,
    token: Token<'_>,
    open: &mut Vec<Open<'id>>,
    symbols: &mut Symbols,
    memory: &mut Mutator<'id, '_>,
) -> Result<Option<Value<'id>>, Unread> {
    Ok(Some(match token {
        Token::Open => {
            open.push(Open::List { position, items: Vec::new(), tail: Tail::Nil });
            return Ok(None);
        }
        Token::Quote => {
            open.push(Open::Quote { position });
            return Ok(None);
        }
        Token::Dot => match open.last_mut() {
            Some(Open::List { items, tail: tail @ Tail::Nil, .. }) if !items.is_empty() => {
                *tail = Tail::Awaited;
                return Ok(None);
            }
            _ => return Err(mistake(position, ParseErrorKind::MisplacedDot)),
        },
        Token::Close => match open.pop() {
            Some(Open::List { items, tail: Tail::Nil, .. }) => memory.list(&items, Value::Nil)?,
            Some(Open::List { items, tail: Tail::Given(tail), .. }) => memory.list(&items, tail)?,
            Some(Open::List { tail: Tail::Awaited, .. }) => {
                return Err(mistake(position, ParseErrorKind::MisplacedDot));
            }
            Some(Open::Quote { position }) => return Err(mistake(position, ParseErrorKind::NothingQuoted)),
            None => return Err(mistake(position, ParseErrorKind::UnexpectedClose)),
        },
        Token::Bool(truth) => Value::Bool(truth),
        Token::Integer(number) => Value::Integer(number),
        Token::Text(text) => memory.text(&[&text])?,
        Token::Symbol(name) => Value::Symbol(symbols.intern(name)),
    }))
}

/// Puts a complete value where it belongs. Gives it back if that is at the top.
fn place<'id>(
    mut value: Value<'id>,
    position: Position,
    open: &mut Vec<Open<'id>>,
    memory: &mut Mutator<'id, '_>,
) -> Result<Option<Value<'id>>, Unread> {
    const QUOTE: Symbol = Keyword::Quote.symbol();
    while let Some(Open::Quote { .. }) = open.last() {
        open.pop();
        value = memory.list(&[Value::Symbol(QUOTE), value], Value::Nil)?;
    }
    match open.last_mut() {
        None => return Ok(Some(value)),
        Some(Open::List { items, tail: Tail::Nil, .. }) => items.push(value),
        Some(Open::List { tail: tail @ Tail::Awaited, .. }) => *tail = Tail::Given(value),
        _ => return Err(mistake(position, ParseErrorKind::MisplacedDot)),
    }
    Ok(None)
}
