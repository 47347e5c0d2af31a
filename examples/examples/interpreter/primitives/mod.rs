//! The built-in functions: one table, and what they share.

mod lists;
mod numbers;
mod predicates;
mod strings;
mod system;

use crate::atoms::{Fixnum, Primitive};
use crate::error::{LispError, Stop};
use crate::machine::Machine;
use crate::memory::{Mutator, Object, Value};
use crate::symbols::Symbols;

/// A call of a primitive: the name that it was found under, and the arguments, whose number fits.
pub(crate) struct Call<'a, 'id> {
    user: &'static str,
    arguments: &'a [Value<'id>],
}

type Run = for<'m, 'id, 'heap> fn(&mut Machine<'m, 'id, 'heap>, Call<'_, 'id>) -> Result<Value<'id>, Stop>;

/// How many arguments a primitive takes.
#[derive(Clone, Copy)]
enum Arity {
    Exactly(usize),
    AtLeast(usize),
}

struct Entry(&'static str, Arity, Run);

use Arity::{AtLeast, Exactly};

/// All of them. A primitive's number is its index.
const TABLE: [Entry; 42] = [
    Entry("+", AtLeast(0), numbers::add),
    Entry("-", AtLeast(1), numbers::subtract),
    Entry("*", AtLeast(0), numbers::multiply),
    Entry("quotient", Exactly(2), numbers::quotient),
    Entry("modulo", Exactly(2), numbers::modulo),
    Entry("=", AtLeast(1), numbers::equal),
    Entry("<", AtLeast(1), numbers::less),
    Entry(">", AtLeast(1), numbers::greater),
    Entry("<=", AtLeast(1), numbers::at_most),
    Entry(">=", AtLeast(1), numbers::at_least),
    Entry("random", Exactly(1), numbers::random),
    Entry("cons", Exactly(2), lists::cons),
    Entry("car", Exactly(1), lists::car),
    Entry("cdr", Exactly(1), lists::cdr),
    Entry("list", AtLeast(0), lists::list),
    Entry("length", Exactly(1), lists::length),
    Entry("reverse", Exactly(1), lists::reverse),
    Entry("append", AtLeast(0), lists::append),
    Entry("list-ref", Exactly(2), lists::list_ref),
    Entry("assoc", Exactly(2), lists::assoc),
    Entry("member", Exactly(2), lists::member),
    Entry("eq?", Exactly(2), predicates::is_same),
    Entry("equal?", Exactly(2), predicates::is_equal),
    Entry("not", Exactly(1), predicates::not),
    Entry("null?", Exactly(1), predicates::is_nil),
    Entry("pair?", Exactly(1), predicates::is_pair),
    Entry("integer?", Exactly(1), predicates::is_integer),
    Entry("string?", Exactly(1), predicates::is_text),
    Entry("symbol?", Exactly(1), predicates::is_symbol),
    Entry("procedure?", Exactly(1), predicates::is_function),
    Entry("string-append", AtLeast(0), strings::append),
    Entry("string-length", Exactly(1), strings::length),
    Entry("substring", Exactly(3), strings::substring),
    Entry("string=?", Exactly(2), strings::is_equal),
    Entry("number->string", Exactly(1), strings::of_number),
    Entry("symbol->string", Exactly(1), strings::of_symbol),
    Entry("display", AtLeast(0), system::display),
    Entry("print", AtLeast(0), system::print_line),
    Entry("write", Exactly(1), system::write),
    Entry("newline", Exactly(0), system::newline),
    Entry("error", AtLeast(1), system::raise),
    Entry("collect", Exactly(0), system::collect),
];

/// Makes each primitive the value of the global variable of its name.
pub(crate) fn define_all(memory: &mut Mutator<'_, '_>, symbols: &mut Symbols) {
    for (number, entry) in (0_u16..).zip(&TABLE) {
        memory.set_global(symbols.intern(entry.0), Value::Primitive(Primitive(number)));
    }
}

pub(crate) fn call<'id>(
    machine: &mut Machine<'_, 'id, '_>,
    primitive: Primitive,
    arguments: &[Value<'id>],
) -> Result<Value<'id>, Stop> {
    let Entry(user, arity, run) = &TABLE[usize::from(primitive.0)];
    let expected = match *arity {
        Exactly(count) if arguments.len() != count => format!("{count} arguments"),
        AtLeast(count) if arguments.len() < count => format!("{count} or more arguments"),
        _ => return run(machine, Call { user, arguments }),
    };
    let user = (*user).to_owned();
    Err(LispError::WrongCount { user, expected, found: arguments.len() }.into())
}

impl<'id> Call<'_, 'id> {
    fn wrong_type(&self, machine: &Machine<'_, 'id, '_>, expected: &'static str, found: Value<'id>) -> LispError {
        LispError::WrongType { user: self.user.to_owned(), expected, found: machine.shown(found) }
    }

    fn integer(&self, machine: &Machine<'_, 'id, '_>, index: usize) -> Result<i64, LispError> {
        match self.arguments[index] {
            Value::Integer(number) => Ok(number.get()),
            other => Err(self.wrong_type(machine, "an integer", other)),
        }
    }

    fn pair(&self, machine: &Machine<'_, 'id, '_>, index: usize) -> Result<Object<'id>, LispError> {
        match self.arguments[index] {
            Value::Pair(pair) => Ok(pair),
            other => Err(self.wrong_type(machine, "a pair", other)),
        }
    }

    fn text(&self, machine: &Machine<'_, 'id, '_>, index: usize) -> Result<&'id str, LispError> {
        match self.arguments[index] {
            Value::Text(text) => Ok(text.text()),
            other => Err(self.wrong_type(machine, "a string", other)),
        }
    }

    /// The items of a list that ends as lists should.
    fn list(&self, machine: &Machine<'_, 'id, '_>, index: usize) -> Result<Vec<Value<'id>>, LispError> {
        let mut items = Vec::new();
        let mut rest = self.arguments[index];
        while let Value::Pair(pair) = rest {
            items.push(pair.head());
            rest = pair.tail();
        }
        match rest {
            Value::Nil => Ok(items),
            _ => Err(self.wrong_type(machine, "a list", self.arguments[index])),
        }
    }

    /// An integer as a value, if it is small enough.
    fn number(&self, number: Option<i64>) -> Result<Value<'id>, Stop> {
        let fits = number.and_then(Fixnum::new).map(Value::Integer);
        fits.ok_or_else(|| LispError::Overflow(self.user).into())
    }
}
