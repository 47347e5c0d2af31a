//! From characters to tokens with positions.

use crate::atoms::Fixnum;
use crate::error::{ParseError, ParseErrorKind, Position};

/// The smallest part of a text with a meaning.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Token<'t> {
    Open,
    Close,
    Quote,
    Dot,
    Bool(bool),
    Integer(Fixnum),
    Text(String),
    Symbol(&'t str),
}

/// A text, read up to some place.
#[derive(Clone, Debug)]
pub(crate) struct Lexer<'t> {
    rest: &'t str,
    position: Position,
}

impl<'t> Lexer<'t> {
    pub(crate) const fn new(text: &'t str) -> Self {
        Self { rest: text, position: Position { line: 1, column: 1 } }
    }

    /// Where the next token is looked for.
    pub(crate) const fn position(&self) -> Position {
        self.position
    }

    /// The next token and where it starts; none at the end of the text.
    pub(crate) fn next(&mut self) -> Result<Option<(Position, Token<'t>)>, ParseError> {
        self.skip_blanks();
        let position = self.position;
        let Some(first) = self.rest.chars().next() else { return Ok(None) };
        let token = match first {
            '(' | ')' | '\'' => {
                self.take_char();
                match first {
                    '(' => Token::Open,
                    ')' => Token::Close,
                    _ => Token::Quote,
                }
            }
            '"' => Token::Text(self.take_text()?),
            _ => word_token(self.take_word()).map_err(|kind| ParseError { position, kind })?,
        };
        Ok(Some((position, token)))
    }

    fn take_char(&mut self) -> Option<char> {
        let taken = self.rest.chars().next()?;
        self.rest = &self.rest[taken.len_utf8()..];
        if taken == '\n' {
            self.position = Position { line: self.position.line + 1, column: 1 };
        } else {
            self.position.column += 1;
        }
        Some(taken)
    }

    /// Skips white space, and comments from `;` to the end of the line.
    fn skip_blanks(&mut self) {
        let mut in_comment = false;
        while let Some(next) = self.rest.chars().next() {
            match next {
                ';' => in_comment = true,
                '\n' => in_comment = false,
                _ if in_comment || next.is_whitespace() => {}
                _ => return,
            }
            self.take_char();
        }
    }

    fn take_word(&mut self) -> &'t str {
        let text = self.rest;
        let ends = |c: char| c.is_whitespace() || matches!(c, '(' | ')' | '\'' | '"' | ';');
        let length = text.find(ends).unwrap_or(text.len());
        let (word, rest) = text.split_at(length);
        self.rest = rest;
        self.position.column += word.chars().count();
        word
    }

    /// A string, from its opening quote on.
    fn take_text(&mut self) -> Result<String, ParseError> {
        let open = self.position;
        self.take_char();
        let mut text = String::new();
        loop {
            let position = self.position;
            match self.take_char() {
                None => return Err(ParseError { position: open, kind: ParseErrorKind::UnclosedString }),
                Some('"') => return Ok(text),
                Some('\\') => match self.take_char() {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some(same @ ('"' | '\\')) => text.push(same),
                    Some(other) => {
                        return Err(ParseError { position, kind: ParseErrorKind::UnknownEscape(other) });
                    }
                    None => {}
                },
                Some(other) => text.push(other),
            }
        }
    }
}

/// What a run of other characters means.
fn word_token(word: &str) -> Result<Token<'_>, ParseErrorKind> {
    match word {
        "." => return Ok(Token::Dot),
        "#t" => return Ok(Token::Bool(true)),
        "#f" => return Ok(Token::Bool(false)),
        _ if word.starts_with('#') => return Err(ParseErrorKind::UnknownHash(word.to_owned())),
        _ => {}
    }
    let digits = word.strip_prefix(['+', '-']).unwrap_or(word);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(Token::Symbol(word));
    }
    let number = word.parse().ok().and_then(Fixnum::new);
    number.map(Token::Integer).ok_or_else(|| ParseErrorKind::IntegerTooLarge(word.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{Lexer, Token};
    use crate::atoms::Fixnum;

    #[test]
    fn tokens_come_with_their_positions() {
        let mut lexer = Lexer::new("(a ; note (\n  -12 'ß \"x\\n\\\"y\" . #t)");
        let mut tokens = Vec::new();
        while let Some((position, token)) = lexer.next().expect("no mistakes in it") {
            tokens.push((position.line, position.column, token));
        }
        let number = Fixnum::new(-12).expect("small");
        let expected = vec![
            (1, 1, Token::Open),
            (1, 2, Token::Symbol("a")),
            (2, 3, Token::Integer(number)),
            (2, 7, Token::Quote),
            (2, 8, Token::Symbol("ß")),
            (2, 10, Token::Text("x\n\"y".to_owned())),
            (2, 19, Token::Dot),
            (2, 21, Token::Bool(true)),
            (2, 23, Token::Close),
        ];
        assert_eq!(tokens, expected);
    }

    #[test]
    fn mistakes_are_named_with_line_and_column() {
        let message = |text: &str| Lexer::new(text).next().expect_err("a mistake").to_string();
        assert_eq!(message("\n  \"abc"), "2:3: this string is never closed");
        assert_eq!(message("\"a\\q\""), "1:3: unknown escape '\\q' in a string");
        assert_eq!(message("4611686018427387904"), "1:1: the integer 4611686018427387904 does not fit 63 bits");
        assert_eq!(message(" #true"), "1:2: unknown word #true");
        assert!(Lexer::new("-4611686018427387904").next().is_ok());
        assert_eq!(message("99999999999999999999999"), "1:1: the integer 99999999999999999999999 does not fit 63 bits");
    }
}
