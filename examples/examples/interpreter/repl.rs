//! Reads forms from the standard input, over several lines if need be, and prints their values.

use std::io::{BufRead, Write, stdin, stdout};

use crate::interpreter::{Failure, Interpreter};

/// Goes on to the end of the input, through all errors.
pub(crate) fn run(interpreter: &mut Interpreter<'_>) -> Result<(), String> {
    let mut pending = String::new();
    let mut lines = stdin().lock().lines();
    loop {
        prompt(if pending.is_empty() { "> " } else { ". " })?;
        let Some(line) = lines.next() else { break };
        pending.push_str(&line.map_err(|error| format!("standard input: {error}"))?);
        pending.push('\n');
        if !needs_more(&pending) {
            answer(interpreter, &core::mem::take(&mut pending))?;
        }
    }
    println!();
    if !pending.trim().is_empty() {
        answer(interpreter, &pending)?;
    }
    Ok(())
}

fn prompt(text: &str) -> Result<(), String> {
    let mut out = stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| format!("standard output: {error}"))
}

/// Whether the text ends within a form. Looks at tokens alone, so that nothing is evaluated twice.
fn needs_more(text: &str) -> bool {
    use crate::lexer::{Lexer, Token};
    let mut lexer = Lexer::new(text);
    let (mut depth, mut quoted) = (0_usize, false);
    loop {
        match lexer.next() {
            Err(error) => return error.is_incomplete(),
            Ok(None) => return depth > 0 || quoted,
            Ok(Some((_, token))) => {
                quoted = token == Token::Quote;
                match token {
                    Token::Open => depth += 1,
                    Token::Close if depth == 0 => return false,
                    Token::Close => depth -= 1,
                    _ => {}
                }
            }
        }
    }
}

fn answer(interpreter: &mut Interpreter<'_>, text: &str) -> Result<(), String> {
    let mut values = Vec::new();
    let evaluated = interpreter.evaluate(text, |value| values.push(value.to_owned()));
    interpreter.flush_output().map_err(|error| format!("standard output: {error}"))?;
    for value in values.iter().filter(|value| !value.is_empty()) {
        println!("{value}");
    }
    match evaluated {
        Ok(()) => {}
        Err(failure @ Failure::Parse(_)) => eprintln!("{failure}"),
        Err(Failure::Evaluation(_, error)) => eprintln!("{error}"),
    }
    Ok(())
}
