//! Variables: a scope is a list of bindings and the scope around it; the outermost are the globals.

use meshheap::AllocError;

use crate::atoms::Symbol;
use crate::memory::{Kind, Mutator, Object, Value};

const FIRST_BINDING: usize = 0;
const PARENT: usize = 1;

const NAME: usize = 0;
const VALUE: usize = 1;
const NEXT: usize = 2;

/// A new scope inside `parent`, without variables.
pub(crate) fn inside<'id>(memory: &mut Mutator<'id, '_>, parent: Value<'id>) -> Result<Value<'id>, AllocError> {
    Ok(Value::Scope(memory.record(Kind::Scope, &[Value::Nil, parent])?))
}

/// The scope around `scope`.
pub(crate) fn parent(scope: Value<'_>) -> Value<'_> {
    match scope {
        Value::Scope(object) => object.get(PARENT),
        _ => Value::Nil,
    }
}

/// Makes a variable in `scope`, or changes the one of this name in the same scope.
pub(crate) fn define<'id>(
    memory: &mut Mutator<'id, '_>,
    scope: Value<'id>,
    symbol: Symbol,
    value: Value<'id>,
) -> Result<(), AllocError> {
    let Value::Scope(object) = scope else {
        memory.set_global(symbol, value);
        return Ok(());
    };
    if let Some(binding) = binding_in(object, symbol) {
        binding.set(VALUE, value);
        return Ok(());
    }
    let fields = [Value::Symbol(symbol), value, object.get(FIRST_BINDING)];
    let binding = memory.record(Kind::Binding, &fields)?;
    object.set(FIRST_BINDING, Value::Binding(binding));
    Ok(())
}

/// The value of the innermost variable of this name.
pub(crate) fn look_up<'id>(memory: &mut Mutator<'id, '_>, scope: Value<'id>, symbol: Symbol) -> Option<Value<'id>> {
    match find(scope, symbol) {
        Some(binding) => Some(binding.get(VALUE)),
        None => memory.global(symbol),
    }
}

/// Changes the innermost variable of this name. Says whether there is one.
pub(crate) fn assign<'id>(memory: &mut Mutator<'id, '_>, scope: Value<'id>, symbol: Symbol, value: Value<'id>) -> bool {
    if let Some(binding) = find(scope, symbol) {
        binding.set(VALUE, value);
        return true;
    }
    let exists = memory.global(symbol).is_some();
    if exists {
        memory.set_global(symbol, value);
    }
    exists
}

fn find(mut scope: Value<'_>, symbol: Symbol) -> Option<Object<'_>> {
    while let Value::Scope(object) = scope {
        if let Some(binding) = binding_in(object, symbol) {
            return Some(binding);
        }
        scope = object.get(PARENT);
    }
    None
}

fn binding_in(scope: Object<'_>, symbol: Symbol) -> Option<Object<'_>> {
    let mut next = scope.get(FIRST_BINDING);
    while let Value::Binding(binding) = next {
        if matches!(binding.get(NAME), Value::Symbol(name) if name == symbol) {
            return Some(binding);
        }
        next = binding.get(NEXT);
    }
    None
}
