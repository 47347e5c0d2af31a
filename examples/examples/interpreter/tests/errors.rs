//! Bad programs: a message each, and an interpreter that can be used on.

use super::{ARENA_BYTES, assert_empty, heap, interpreter, last_value, outcome};

#[test]
fn each_mistake_has_a_message_with_its_place() {
    let cases = [
        ("(+ 1\n  (* 2 3)", "1:1: this '(' is never closed"),
        ("1\n 2)", "2:3: unexpected ')'"),
        ("(a . )", "1:6: a '.' belongs before the last item of a list"),
        ("( . a)", "1:3: a '.' belongs before the last item of a list"),
        ("(a . b c)", "1:8: a '.' belongs before the last item of a list"),
        ("'", "1:1: nothing follows this quote"),
        ("(list ')", "1:7: nothing follows this quote"),
        ("1\n  (f 2)", "2:3: unbound symbol: f"),
        ("(set! y 1)", "1:1: unbound symbol: y"),
        ("(+ 1 \"a\")", "1:1: +: expected an integer, found \"a\""),
        ("(car '())", "1:1: car: expected a pair, found ()"),
        ("(length '(1 . 2))", "1:1: length: expected a list, found (1 . 2)"),
        ("(1 2)", "1:1: not a function: 1"),
        ("((lambda (a) a))", "1:1: (lambda (a) ...): expected 1 arguments, found 0"),
        ("((lambda (a . b) a))", "1:1: (lambda (a . b) ...): expected 1 or more arguments, found 0"),
        ("(cons 1)", "1:1: cons: expected 2 arguments, found 1"),
        ("(car . 1)", "1:1: a call: its operands are no list"),
        ("(if)", "1:1: if: it has too few parts"),
        ("(if 1 2 3 4)", "1:1: if: it takes a test and one or two branches"),
        ("(let ((x)) x)", "1:1: let: a binding must be (name expression)"),
        ("(let loop)", "1:1: let: it has too few parts"),
        ("(define if 1)", "1:1: define: a keyword cannot be a variable"),
        ("(lambda (1) 1)", "1:1: lambda: a variable must be a symbol"),
        ("(cond 1)", "1:1: cond: a clause must be (test form ...)"),
        ("else", "1:1: unbound symbol: else"),
        ("(quotient 1 0)", "1:1: quotient: division by zero"),
        ("(* 4611686018427387903 2)", "1:1: *: the result does not fit 63 bits"),
        ("(- 0 -4611686018427387904)", "1:1: -: the result does not fit 63 bits"),
        ("(random 0)", "1:1: random: expected a positive integer, found 0"),
        ("(substring \"abc\" 2 1)", "1:1: substring: 1 is outside of 0 to 3"),
        ("(list-ref '(1 2) -1)", "1:1: list-ref: -1 is outside of 0 to 2"),
        ("(error \"no \" '(1 \"x\"))", "1:1: no (1 x)"),
    ];
    for (text, expected) in cases {
        assert_eq!(outcome(text), expected, "{text}");
    }
}

#[test]
fn recursion_that_is_too_deep_is_an_error() {
    let mut heap = heap(ARENA_BYTES);
    let mut interpreter = interpreter(&mut heap, 1000);
    let failure = last_value(&mut interpreter, "(define (f n) (+ 1 (f n))) (f 0)").expect_err("no end");
    assert_eq!(failure.to_string(), "1:28: recursion too deep: more than 1000 frames");
    assert_eq!(last_value(&mut interpreter, "(+ 1 2)").as_deref(), Ok("3"));
}

#[test]
fn values_that_share_their_parts_are_printed_and_compared_within_bounds() {
    let doubled = "(define (grow n x) (if (= n 0) x (grow (- n 1) (cons x x))))";
    assert!(outcome(&format!("{doubled} (grow 100 1)")).ends_with(')'));
    assert_eq!(outcome(&format!("{doubled} (define x (grow 100 1)) (equal? x x)")), "#t");
    let nested = "(define (nest n x) (if (= n 0) x (nest (- n 1) (list x))))";
    assert_eq!(outcome(&format!("{nested} (equal? (nest 100000 1) (nest 100000 1))")), "#t");
}

#[test]
fn out_of_memory_is_an_error_that_scripts_can_handle() {
    let mut heap = heap(4 << 20);
    {
        let mut interpreter = interpreter(&mut heap, 1_000_000);
        let hoard = "(define kept '()) (define (hoard n) (set! kept (cons n kept)) (hoard (+ n 1)))";
        last_value(&mut interpreter, hoard).expect("a definition");
        for _ in 0..3 {
            let failure = last_value(&mut interpreter, "(hoard 0)").expect_err("no end");
            assert!(failure.to_string().starts_with("1:1: out of memory"), "{failure}");
            let kept = last_value(&mut interpreter, "(set! kept (cdr kept)) (= (length kept) (+ 1 (car kept)))");
            assert_eq!(kept.as_deref(), Ok("#t"));
            last_value(&mut interpreter, "(set! kept '())").expect("it needs no memory");
        }
        let double = "(define (double text) (double (string-append text text))) (double \"0123456789\")";
        let failure = last_value(&mut interpreter, double).expect_err("no end");
        assert!(failure.to_string().contains("out of memory"), "{failure}");
        let caught = "(try (hoard 0) (lambda (m) (set! kept '()) (substring m 0 13)))";
        assert_eq!(last_value(&mut interpreter, caught).as_deref(), Ok("\"out of memory\""));
    }
    assert_empty(&heap);
}

#[test]
fn a_text_larger_than_memory_is_not_read_and_does_no_harm() {
    let mut heap = heap(4 << 20);
    let mut interpreter = interpreter(&mut heap, 1000);
    let failure = last_value(&mut interpreter, &format!("'({})", "1 ".repeat(200_000))).expect_err("6 MB of pairs");
    assert!(failure.to_string().contains("out of memory"), "{failure}");
    assert_eq!(last_value(&mut interpreter, "(length (range 0 1000))").as_deref(), Ok("1000"));
}
