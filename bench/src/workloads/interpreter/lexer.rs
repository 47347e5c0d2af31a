//! Text to tokens.

use core::iter::Peekable;
use core::str::Chars;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Token {
    Number(i64),
    Text(String),
    Name(String),
    Sign(char),
}

/// All tokens of `text`.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut characters = text.chars().peekable();
    let mut tokens = Vec::new();
    while let Some(character) = characters.next() {
        tokens.push(match character {
            ' ' | '\n' => continue,
            '0'..='9' => Token::Number(word(character, &mut characters).parse().unwrap_or(0)),
            'a'..='z' => Token::Name(word(character, &mut characters)),
            '"' => Token::Text(characters.by_ref().take_while(|&next| next != '"').collect()),
            sign => Token::Sign(sign),
        });
    }
    tokens
}

fn word(first: char, characters: &mut Peekable<Chars<'_>>) -> String {
    let mut word = String::from(first);
    while let Some(next) = characters.next_if(char::is_ascii_alphanumeric) {
        word.push(next);
    }
    word
}
