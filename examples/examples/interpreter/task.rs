//! What the machine has put off until a value comes back: the label of each frame of its stack.

/// What to do with the value, and what the frame's three operands are. `rest` is a list of expressions still to be
/// evaluated, `scope` where to evaluate them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Task {
    /// `expression scope`: evaluate it; the value that came back is dropped.
    Evaluate,
    /// `value`: it is the value that comes back.
    Return,
    /// `branches scope`: take the first branch unless the value is false.
    If,
    /// `clauses scope`: the value is the first clause's test.
    Cond,
    /// `rest scope`: drop the value and go on.
    Sequence,
    /// `rest scope`: go on unless the value is false.
    And,
    /// `rest scope`: go on if the value is false.
    Or,
    /// `symbol scope`: make a new variable.
    Define,
    /// `symbol scope`: change a variable.
    Assign,
    /// `bindings body scope`: the value is the first binding's; the others are evaluated outside `scope`.
    Let,
    /// `bindings body scope`: the value is the first binding's; the others are evaluated with it in scope.
    LetStar,
    /// `rest done scope`: the value is the next operand of a call; those before it are in `done`, last first.
    Operands,
    /// `handler scope`: nothing failed, so the value passes through.
    Try,
    /// `message`: the value is the handler of an error; call it.
    Handle,
}
