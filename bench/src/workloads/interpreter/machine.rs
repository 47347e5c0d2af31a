//! Runs trees.

use core::hash::Hasher;
use std::collections::BTreeMap;
use std::hash::DefaultHasher;
use std::rc::Rc;

use super::tree::{Expression, Operator, Statement};

#[derive(Clone)]
enum Value {
    Number(i64),
    Text(Rc<str>),
    List(Rc<Vec<Value>>),
}

type Variables = BTreeMap<String, Value>;

/// Texts and lists stop growing here.
const LONGEST: usize = 200;

/// Runs the program with no variables; the result depends on what they are at its end.
pub(super) fn run(program: &[Statement]) -> u64 {
    let mut variables = Variables::new();
    for statement in program {
        let value = evaluate(&statement.value, &variables);
        variables.insert(statement.name.clone(), value);
    }
    let mut hasher = DefaultHasher::new();
    for (name, value) in &variables {
        hasher.write(name.as_bytes());
        mix(&mut hasher, value);
    }
    hasher.finish()
}

fn mix(hasher: &mut DefaultHasher, value: &Value) {
    match value {
        Value::Number(number) => hasher.write_i64(*number),
        Value::Text(text) => hasher.write(text.as_bytes()),
        Value::List(elements) => elements.iter().for_each(|element| mix(hasher, element)),
    }
}

fn evaluate(expression: &Expression, variables: &Variables) -> Value {
    match expression {
        Expression::Number(number) => Value::Number(*number),
        Expression::Text(text) => Value::Text(text.as_str().into()),
        Expression::Name(name) => variables.get(name).cloned().unwrap_or(Value::Number(0)),
        Expression::List(elements) => {
            Value::List(Rc::new(elements.iter().map(|element| evaluate(element, variables)).collect()))
        }
        Expression::Call(name, argument) => call(name, &evaluate(argument, variables)),
        Expression::Binary(left, operator, right) => {
            combine(&evaluate(left, variables), *operator, &evaluate(right, variables))
        }
        Expression::Condition(parts) => {
            let [condition, then, otherwise] = &**parts;
            evaluate(if number(&evaluate(condition, variables)) != 0 { then } else { otherwise }, variables)
        }
    }
}

fn combine(left: &Value, operator: Operator, right: &Value) -> Value {
    match (left, operator, right) {
        (Value::Text(left), Operator::Add, Value::Text(right)) => {
            let joined = format!("{left}{right}");
            Value::Text(joined.get(..LONGEST).unwrap_or(&joined).into())
        }
        (Value::List(left), Operator::Add, Value::List(right)) => {
            Value::List(Rc::new(left.iter().chain(right.iter()).take(LONGEST).cloned().collect()))
        }
        (left, Operator::Add, right) => Value::Number(number(left).wrapping_add(number(right))),
        (left, Operator::Subtract, right) => Value::Number(number(left).wrapping_sub(number(right))),
        (left, Operator::Multiply, right) => Value::Number(number(left).wrapping_mul(number(right))),
        (left, Operator::Less, right) => Value::Number((number(left) < number(right)).into()),
    }
}

/// A text or a list counts as long as it is.
fn number(value: &Value) -> i64 {
    match value {
        Value::Number(number) => *number,
        Value::Text(text) => text.len() as i64,
        Value::List(elements) => elements.len() as i64,
    }
}

fn call(name: &str, argument: &Value) -> Value {
    match (name, argument) {
        ("sum", Value::List(elements)) => Value::Number(elements.iter().map(number).fold(0, i64::wrapping_add)),
        ("text", value) => Value::Text(number(value).to_string().into()),
        ("reverse", Value::List(elements)) => Value::List(Rc::new(elements.iter().rev().cloned().collect())),
        (_, value) => Value::Number(number(value)),
    }
}
