//! Programs as trees.

/// What stands between two operands.
#[derive(Clone, Copy)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Less,
}

pub(super) enum Expression {
    Number(i64),
    Text(String),
    Name(String),
    List(Vec<Expression>),
    Call(String, Box<Expression>),
    Binary(Box<Expression>, Operator, Box<Expression>),
    Condition(Box<[Expression; 3]>),
}

pub(super) struct Statement {
    pub(super) name: String,
    pub(super) value: Expression,
}
