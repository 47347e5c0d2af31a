//! The special forms: what is evaluated when, and where.

use crate::atoms::Symbol;
use crate::error::{LispError, Stop};
use crate::machine::{Machine, State, Step};
use crate::memory::Value;
use crate::scope;
use crate::symbols::Keyword;
use crate::task::Task;

/// Evaluates `(keyword . rest)`.
pub(crate) fn evaluate<'id>(
    machine: &mut Machine<'_, 'id, '_>,
    keyword: Keyword,
    rest: Value<'id>,
    scope: Value<'id>,
) -> Step<'id> {
    match keyword {
        Keyword::Quote => {
            let [datum] = exactly(keyword, rest)?;
            Ok(State::Return(datum))
        }
        Keyword::If => {
            let (test, branches) = first(keyword, rest)?;
            if !matches!(branches.items().count(), 1 | 2) {
                return bad(keyword, "it takes a test and one or two branches");
            }
            machine.push(Task::If, [branches, scope, Value::Nil])?;
            Ok(State::Evaluate { expression: test, scope })
        }
        Keyword::Cond => cond(machine, rest, scope),
        Keyword::Else => bad(keyword, "it stands alone"),
        Keyword::Begin => machine.sequence(rest, scope),
        Keyword::Define => define(machine, rest, scope),
        Keyword::Set => {
            let [name, expression] = exactly(keyword, rest)?;
            machine.push(Task::Assign, [Value::Symbol(variable(keyword, name)?), scope, Value::Nil])?;
            Ok(State::Evaluate { expression, scope })
        }
        Keyword::Lambda => {
            let (parameters, body) = first(keyword, rest)?;
            Ok(State::Return(lambda(machine, keyword, parameters, body, scope)?))
        }
        Keyword::Let => let_form(machine, rest, scope),
        Keyword::LetStar => {
            let (bindings, body) = first(keyword, rest)?;
            next_let_star(machine, bindings, body, scope)
        }
        Keyword::And => connective(machine, Task::And, rest, scope, Value::Bool(true)),
        Keyword::Or => connective(machine, Task::Or, rest, scope, Value::Bool(false)),
        Keyword::Try => {
            let [body, handler] = exactly(keyword, rest)?;
            machine.push(Task::Try, [handler, scope, Value::Nil])?;
            Ok(State::Evaluate { expression: body, scope })
        }
    }
}

fn bad<T>(keyword: Keyword, reason: &'static str) -> Result<T, Stop> {
    Err(LispError::BadForm { form: keyword.name(), reason }.into())
}

/// The items of `rest`, which must be `N`.
fn exactly<const N: usize>(keyword: Keyword, rest: Value<'_>) -> Result<[Value<'_>; N], Stop> {
    let mut items = rest.items();
    let found: [Option<Value<'_>>; N] = core::array::from_fn(|_| items.next());
    if found.iter().any(Option::is_none) || items.next().is_some() {
        return bad(keyword, "it has too few or too many parts");
    }
    Ok(found.map(|item| item.unwrap_or(Value::Nil)))
}

/// The first item of `rest`, and what follows it.
fn first(keyword: Keyword, rest: Value<'_>) -> Result<(Value<'_>, Value<'_>), Stop> {
    match rest {
        Value::Pair(pair) => Ok((pair.head(), pair.tail())),
        _ => bad(keyword, "it has too few parts"),
    }
}

/// The symbol of a variable.
fn variable(keyword: Keyword, name: Value<'_>) -> Result<Symbol, Stop> {
    match name {
        Value::Symbol(symbol) if Keyword::of(symbol).is_none() => Ok(symbol),
        Value::Symbol(_) => bad(keyword, "a keyword cannot be a variable"),
        _ => bad(keyword, "a variable must be a symbol"),
    }
}

/// `(name expression)`: a variable and what it shall be.
fn binding(keyword: Keyword, binding: Value<'_>) -> Result<(Symbol, Value<'_>), Stop> {
    match exactly(keyword, binding) {
        Ok([name, expression]) => Ok((variable(keyword, name)?, expression)),
        Err(_) => bad(keyword, "a binding must be (name expression)"),
    }
}

fn lambda<'id>(
    machine: &mut Machine<'_, 'id, '_>,
    keyword: Keyword,
    parameters: Value<'id>,
    body: Value<'id>,
    scope: Value<'id>,
) -> Result<Value<'id>, Stop> {
    let mut rest = parameters;
    while let Value::Pair(pair) = rest {
        variable(keyword, pair.head())?;
        rest = pair.tail();
    }
    if !matches!(rest, Value::Nil) {
        variable(keyword, rest)?;
    }
    machine.closure(parameters, body, scope)
}

/// `if`, with the value of its test.
pub(crate) fn branch<'id>(branches: Value<'id>, scope: Value<'id>, test: Value<'id>) -> Step<'id> {
    let chosen = branches.items().nth(usize::from(!test.is_true()));
    Ok(chosen.map_or(State::Return(Value::Void), |expression| State::Evaluate { expression, scope }))
}

fn cond<'id>(machine: &mut Machine<'_, 'id, '_>, clauses: Value<'id>, scope: Value<'id>) -> Step<'id> {
    let Value::Pair(pair) = clauses else { return Ok(State::Return(Value::Void)) };
    let Value::Pair(clause) = pair.head() else {
        return bad(Keyword::Cond, "a clause must be (test form ...)");
    };
    if matches!(clause.head(), Value::Symbol(symbol) if symbol == Keyword::Else.symbol()) {
        return machine.sequence(clause.tail(), scope);
    }
    machine.push(Task::Cond, [clauses, scope, Value::Nil])?;
    Ok(State::Evaluate { expression: clause.head(), scope })
}

/// `cond`, with the value of its first clause's test.
pub(crate) fn clause<'id>(
    machine: &mut Machine<'_, 'id, '_>,
    clauses: Value<'id>,
    scope: Value<'id>,
    test: Value<'id>,
) -> Step<'id> {
    let (clause, others) = first(Keyword::Cond, clauses)?;
    if !test.is_true() {
        return cond(machine, others, scope);
    }
    match first(Keyword::Cond, clause)? {
        (_, Value::Nil) => Ok(State::Return(test)),
        (_, body) => machine.sequence(body, scope),
    }
}

/// `and` and `or`, with the value so far. The last expression is in tail position.
pub(crate) fn connective<'id>(
    machine: &mut Machine<'_, 'id, '_>,
    task: Task,
    rest: Value<'id>,
    scope: Value<'id>,
    so_far: Value<'id>,
) -> Step<'id> {
    let Value::Pair(pair) = rest else { return Ok(State::Return(so_far)) };
    if let others @ Value::Pair(_) = pair.tail() {
        machine.push(task, [others, scope, Value::Nil])?;
    }
    Ok(State::Evaluate { expression: pair.head(), scope })
}

/// `(define name expression)` or `(define (name . parameters) form ...)`.
fn define<'id>(machine: &mut Machine<'_, 'id, '_>, rest: Value<'id>, scope: Value<'id>) -> Step<'id> {
    let keyword = Keyword::Define;
    let (target, body) = first(keyword, rest)?;
    if let Value::Pair(signature) = target {
        let name = Value::Symbol(variable(keyword, signature.head())?);
        let function = lambda(machine, keyword, signature.tail(), body, scope)?;
        return define_value(machine, name, scope, function);
    }
    let [name, expression] = exactly(keyword, rest)?;
    machine.push(Task::Define, [Value::Symbol(variable(keyword, name)?), scope, Value::Nil])?;
    Ok(State::Evaluate { expression, scope })
}

pub(crate) fn define_value<'id>(
    machine: &mut Machine<'_, 'id, '_>,
    name: Value<'id>,
    scope: Value<'id>,
    value: Value<'id>,
) -> Step<'id> {
    scope::define(&mut machine.memory, scope, variable(Keyword::Define, name)?, value)?;
    Ok(State::Return(Value::Void))
}

pub(crate) fn assign_value<'id>(
    machine: &mut Machine<'_, 'id, '_>,
    name: Value<'id>,
    scope: Value<'id>,
    value: Value<'id>,
) -> Step<'id> {
    let symbol = variable(Keyword::Set, name)?;
    if scope::assign(&mut machine.memory, scope, symbol, value) {
        return Ok(State::Return(Value::Void));
    }
    Err(LispError::Unbound(machine.world.symbols.name(symbol).to_owned()).into())
}

fn let_form<'id>(machine: &mut Machine<'_, 'id, '_>, rest: Value<'id>, scope: Value<'id>) -> Step<'id> {
    let (bindings, body) = first(Keyword::Let, rest)?;
    if let Value::Symbol(_) = bindings {
        return named_let(machine, rest, scope);
    }
    let inner = scope::inside(&mut machine.memory, scope)?;
    next_let(machine, bindings, body, inner)
}

/// Evaluates the first of `bindings` outside of `inner`, or the body inside.
fn next_let<'id>(
    machine: &mut Machine<'_, 'id, '_>,
    bindings: Value<'id>,
    body: Value<'id>,
    inner: Value<'id>,
) -> Step<'id> {
    let Value::Pair(pair) = bindings else { return machine.sequence(body, inner) };
    let (_, expression) = binding(Keyword::Let, pair.head())?;
    machine.push(Task::Let, [bindings, body, inner])?;
    Ok(State::Evaluate { expression, scope: scope::parent(inner) })
}

pub(crate) fn bind_let<'id>(
    machine: &mut Machine<'_, 'id, '_>,
    [bindings, body, inner]: [Value<'id>; 3],
    value: Value<'id>,
) -> Step<'id> {
    let (bound, others) = first(Keyword::Let, bindings)?;
    let (name, _) = binding(Keyword::Let, bound)?;
    scope::define(&mut machine.memory, inner, name, value)?;
    next_let(machine, others, body, inner)
}

fn next_let_star<'id>(
    machine: &mut Machine<'_, 'id, '_>,
    bindings: Value<'id>,
    body: Value<'id>,
    scope: Value<'id>,
) -> Step<'id> {
    let Value::Pair(pair) = bindings else {
        let inner = scope::inside(&mut machine.memory, scope)?;
        return machine.sequence(body, inner);
    };
    let (_, expression) = binding(Keyword::LetStar, pair.head())?;
    machine.push(Task::LetStar, [bindings, body, scope])?;
    Ok(State::Evaluate { expression, scope })
}

/// Each binding has a scope of its own: a closure made by an earlier one does not see the later ones.
pub(crate) fn bind_let_star<'id>(
    machine: &mut Machine<'_, 'id, '_>,
    [bindings, body, scope]: [Value<'id>; 3],
    value: Value<'id>,
) -> Step<'id> {
    let (bound, others) = first(Keyword::LetStar, bindings)?;
    let (name, _) = binding(Keyword::LetStar, bound)?;
    let inner = scope::inside(&mut machine.memory, scope)?;
    scope::define(&mut machine.memory, inner, name, value)?;
    next_let_star(machine, others, body, inner)
}

/// `(let name ((variable expression) ...) form ...)`: calls a function that can call itself by this name.
fn named_let<'id>(machine: &mut Machine<'_, 'id, '_>, rest: Value<'id>, scope: Value<'id>) -> Step<'id> {
    let (name, rest) = first(Keyword::Let, rest)?;
    let (bindings, body) = first(Keyword::Let, rest)?;
    let (mut names, mut expressions) = (Vec::new(), Vec::new());
    for bound in bindings.items() {
        let (name, expression) = binding(Keyword::Let, bound)?;
        names.push(Value::Symbol(name));
        expressions.push(expression);
    }
    let inner = scope::inside(&mut machine.memory, scope)?;
    let parameters = machine.memory.list(&names, Value::Nil)?;
    let function = machine.closure(parameters, body, inner)?;
    scope::define(&mut machine.memory, inner, variable(Keyword::Let, name)?, function)?;
    let operands = machine.memory.list(&expressions, Value::Nil)?;
    machine.operand(operands, Value::Nil, scope, function)
}
