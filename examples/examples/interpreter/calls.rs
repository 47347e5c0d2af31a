//! Function calls: operands from left to right, then the function.

use crate::error::{LispError, Stop};
use crate::machine::{Machine, State, Step};
use crate::memory::{Kind, Object, Value};
use crate::primitives;
use crate::scope;
use crate::task::Task;

/// A closure's fields.
const PARAMETERS: usize = 0;
const BODY: usize = 1;
const SCOPE: usize = 2;

impl<'id> Machine<'_, 'id, '_> {
    /// A new function whose free variables are those of `scope`.
    pub(crate) fn closure(
        &mut self,
        parameters: Value<'id>,
        body: Value<'id>,
        scope: Value<'id>,
    ) -> Result<Value<'id>, Stop> {
        Ok(Value::Closure(self.memory.record(Kind::Closure, &[parameters, body, scope])?))
    }

    /// The next operand of a call has this value; `done` has those before it, the function last.
    pub(crate) fn operand(
        &mut self,
        rest: Value<'id>,
        done: Value<'id>,
        scope: Value<'id>,
        value: Value<'id>,
    ) -> Step<'id> {
        match rest {
            Value::Pair(pair) => {
                let done = self.memory.cons(value, done)?;
                self.push(Task::Operands, [pair.tail(), done, scope])?;
                Ok(State::Evaluate { expression: pair.head(), scope })
            }
            Value::Nil => {
                let mut values: Vec<_> = core::iter::once(value).chain(done.items()).collect();
                values.reverse();
                self.apply(values[0], &values[1..])
            }
            _ => Err(LispError::BadForm { form: "a call", reason: "its operands are no list" }.into()),
        }
    }

    pub(crate) fn apply(&mut self, function: Value<'id>, arguments: &[Value<'id>]) -> Step<'id> {
        match function {
            Value::Closure(closure) => self.enter_closure(closure, arguments),
            Value::Primitive(primitive) => Ok(State::Return(primitives::call(self, primitive, arguments)?)),
            other => Err(LispError::NotAFunction(self.shown(other)).into()),
        }
    }

    fn enter_closure(&mut self, closure: Object<'id>, arguments: &[Value<'id>]) -> Step<'id> {
        let inner = scope::inside(&mut self.memory, closure.get(SCOPE))?;
        let mut parameters = closure.get(PARAMETERS);
        let mut unused = arguments.iter();
        while let Value::Pair(pair) = parameters {
            let (Some(&argument), Value::Symbol(name)) = (unused.next(), pair.head()) else {
                return Err(self.wrong_count(closure, arguments.len()));
            };
            scope::define(&mut self.memory, inner, name, argument)?;
            parameters = pair.tail();
        }
        if let Value::Symbol(name) = parameters {
            let list = self.memory.list(unused.as_slice(), Value::Nil)?;
            scope::define(&mut self.memory, inner, name, list)?;
        } else if unused.next().is_some() {
            return Err(self.wrong_count(closure, arguments.len()));
        }
        self.sequence(closure.get(BODY), inner)
    }

    fn wrong_count(&self, closure: Object<'id>, found: usize) -> Stop {
        let parameters = closure.get(PARAMETERS);
        let user = format!("(lambda {} ...)", self.shown(parameters));
        let mut last = parameters;
        while let Value::Pair(pair) = last {
            last = pair.tail();
        }
        let or_more = if matches!(last, Value::Nil) { "" } else { " or more" };
        let expected = format!("{}{or_more} arguments", parameters.items().count());
        LispError::WrongCount { user, expected, found }.into()
    }
}
