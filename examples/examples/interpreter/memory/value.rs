//! A value as the interpreter sees it.

use core::ptr::NonNull;

use meshheap::AllocError;

use crate::atoms::{Fixnum, Primitive, Symbol};
use crate::memory::word::{Meaning, Word};
use crate::memory::{Mutator, Object};

/// What an object is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Two fields: head, tail.
    Pair,
    /// Three fields: parameters, body, scope.
    Closure,
    /// Two fields: first binding, parent scope.
    Scope,
    /// Three fields: symbol, value, next binding of the scope.
    Binding,
    /// No fields, but bytes of UTF-8.
    Text,
}

/// Any value. It can be held within one call of [`crate::memory::Store::enter`] only.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'id> {
    /// The empty list; as a scope, the global one.
    Nil,
    /// What expressions without a result give.
    Void,
    Bool(bool),
    Integer(Fixnum),
    Symbol(Symbol),
    Primitive(Primitive),
    Pair(Object<'id>),
    Closure(Object<'id>),
    Scope(Object<'id>),
    Binding(Object<'id>),
    Text(Object<'id>),
}

impl<'id> Value<'id> {
    /// Everything but `#f` counts as true.
    pub(crate) const fn is_true(self) -> bool {
        !matches!(self, Self::Bool(false))
    }

    /// Whether both are the same atom or the same object.
    pub(crate) fn is(self, other: Self) -> bool {
        self.meaning() == other.meaning()
    }

    /// The heads of a list's pairs. Whatever follows the last pair is not among them.
    pub(crate) fn items(self) -> impl Iterator<Item = Value<'id>> {
        let mut rest = self;
        core::iter::from_fn(move || {
            let Value::Pair(pair) = rest else { return None };
            rest = pair.tail();
            Some(pair.head())
        })
    }

    pub(super) fn word(self) -> Word {
        Word::new(self.meaning())
    }

    fn meaning(self) -> Meaning {
        match self {
            Self::Nil => Meaning::Nil,
            Self::Void => Meaning::Void,
            Self::Bool(truth) => Meaning::Bool(truth),
            Self::Integer(number) => Meaning::Integer(number),
            Self::Symbol(symbol) => Meaning::Symbol(symbol),
            Self::Primitive(primitive) => Meaning::Primitive(primitive),
            Self::Pair(object)
            | Self::Closure(object)
            | Self::Scope(object)
            | Self::Binding(object)
            | Self::Text(object) => Meaning::Object(object.address()),
        }
    }

    /// The value of a word; `object` vouches for the object at an address.
    pub(super) fn new(word: Word, object: impl FnOnce(NonNull<u8>) -> Object<'id>) -> Self {
        match word.meaning() {
            Meaning::Nil => Self::Nil,
            Meaning::Void => Self::Void,
            Meaning::Bool(truth) => Self::Bool(truth),
            Meaning::Integer(number) => Self::Integer(number),
            Meaning::Symbol(symbol) => Self::Symbol(symbol),
            Meaning::Primitive(primitive) => Self::Primitive(primitive),
            Meaning::Object(address) => {
                let object = object(address);
                match object.kind() {
                    Kind::Pair => Self::Pair(object),
                    Kind::Closure => Self::Closure(object),
                    Kind::Scope => Self::Scope(object),
                    Kind::Binding => Self::Binding(object),
                    Kind::Text => Self::Text(object),
                }
            }
        }
    }
}

impl<'id> Mutator<'id, '_> {
    /// A new pair.
    pub(crate) fn cons(&mut self, head: Value<'id>, tail: Value<'id>) -> Result<Value<'id>, AllocError> {
        Ok(Value::Pair(self.record(Kind::Pair, &[head, tail])?))
    }

    /// A new list of `items`, and `tail` behind the last.
    pub(crate) fn list(&mut self, items: &[Value<'id>], tail: Value<'id>) -> Result<Value<'id>, AllocError> {
        items.iter().rev().try_fold(tail, |rest, &item| self.cons(item, rest))
    }
}

/// A pair's fields.
impl<'id> Object<'id> {
    pub(crate) fn head(self) -> Value<'id> {
        self.get(0)
    }

    pub(crate) fn tail(self) -> Value<'id> {
        self.get(1)
    }
}
