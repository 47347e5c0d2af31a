//! Tokens to trees, by recursive descent. The programs are well-formed; anything else panics.

use core::iter::Peekable;
use std::vec::IntoIter;

use super::lexer::{Token, tokens};
use super::tree::{Expression, Operator, Statement};

pub(super) fn parse(text: &str) -> Vec<Statement> {
    let mut parser = Parser { tokens: tokens(text).into_iter().peekable() };
    let mut program = Vec::new();
    while parser.tokens.peek().is_some() {
        program.push(parser.statement());
    }
    program
}

struct Parser {
    tokens: Peekable<IntoIter<Token>>,
}

impl Parser {
    fn statement(&mut self) -> Statement {
        let Some(Token::Name(name)) = self.tokens.next() else { panic!("a statement begins with a name") };
        self.expect('=');
        let value = self.expression();
        self.expect(';');
        Statement { name, value }
    }

    fn expression(&mut self) -> Expression {
        if self.takes_word("if") {
            let condition = self.expression();
            assert!(self.takes_word("then"), "a condition has `then`");
            let then = self.expression();
            assert!(self.takes_word("else"), "a condition has `else`");
            return Expression::Condition(Box::new([condition, then, self.expression()]));
        }
        let left = self.sum();
        if self.takes('<') { binary(left, Operator::Less, self.sum()) } else { left }
    }

    fn sum(&mut self) -> Expression {
        let mut left = self.product();
        loop {
            let operator = if self.takes('+') {
                Operator::Add
            } else if self.takes('-') {
                Operator::Subtract
            } else {
                return left;
            };
            left = binary(left, operator, self.product());
        }
    }

    fn product(&mut self) -> Expression {
        let mut left = self.value();
        while self.takes('*') {
            left = binary(left, Operator::Multiply, self.value());
        }
        left
    }

    fn value(&mut self) -> Expression {
        match self.tokens.next() {
            Some(Token::Number(number)) => Expression::Number(number),
            Some(Token::Text(text)) => Expression::Text(text),
            Some(Token::Name(name)) if self.takes('(') => Expression::Call(name, Box::new(self.closed(')'))),
            Some(Token::Name(name)) => Expression::Name(name),
            Some(Token::Sign('(')) => self.closed(')'),
            Some(Token::Sign('[')) => self.list(),
            other => panic!("no value begins with {other:?}"),
        }
    }

    fn list(&mut self) -> Expression {
        let mut elements = Vec::new();
        while !self.takes(']') {
            elements.push(self.expression());
            self.takes(',');
        }
        Expression::List(elements)
    }

    fn closed(&mut self, end: char) -> Expression {
        let inside = self.expression();
        self.expect(end);
        inside
    }

    fn takes(&mut self, sign: char) -> bool {
        self.tokens.next_if(|token| *token == Token::Sign(sign)).is_some()
    }

    fn takes_word(&mut self, word: &str) -> bool {
        self.tokens.next_if(|token| matches!(token, Token::Name(name) if name == word)).is_some()
    }

    fn expect(&mut self, sign: char) {
        assert!(self.takes(sign), "{sign} is missing");
    }
}

fn binary(left: Expression, operator: Operator, right: Expression) -> Expression {
    Expression::Binary(Box::new(left), operator, Box::new(right))
}
