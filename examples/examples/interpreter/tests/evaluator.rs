//! What expressions mean.

use super::outcome;

/// Each text with the value of its last form.
fn check(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(outcome(text), *expected, "{text}");
    }
}

#[test]
fn what_is_read_prints_as_it_was_written() {
    for text in ["42", "-7", "#t", "#f", "()", "sym!", "\"a \\\"b\\\" \\\\ \\n\"", "(1 (2 (3)) . 4)", "('a 'b)"] {
        let expected = text.replace("'a", "(quote a)").replace("'b", "(quote b)");
        assert_eq!(outcome(&format!("'{text}")), expected);
    }
    let deep = format!("'{}{}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(outcome(&deep).starts_with("(((") && outcome(&deep).contains("..."));
}

#[test]
fn special_forms() {
    check(&[
        ("(if #f 1 2)", "2"),
        ("(if '() 1 2)", "1"),
        ("(if #f 1)", ""),
        ("(cond (#f 1) ((+ 1 1)) (else 3))", "2"),
        ("(cond (#f 1) (else 2 3))", "3"),
        ("(begin 1 2 3)", "3"),
        ("(define x 1) (set! x (+ x 1)) x", "2"),
        ("(let ((a 1) (b 2)) (let ((a b) (b a)) (list a b)))", "(2 1)"),
        ("(let* ((x 1) (f (lambda () x)) (x 2)) (list (f) x))", "(1 2)"),
        ("(let loop ((n 3) (done '())) (if (= n 0) done (loop (- n 1) (cons n done))))", "(1 2 3)"),
        ("(list (and) (and 1 2) (and #f (car 1)) (or) (or #f 2 (car 1)))", "(#t 2 #f #f 2)"),
        ("(quote (if a b))", "(if a b)"),
        (
            "(try (car 1) (lambda (message) (string-append \"caught: \" message)))",
            "\"caught: car: expected a pair, found 1\"",
        ),
        ("(try (+ 1 2) car)", "3"),
        ("(try (try (error \"a\" 1) (lambda (m) (error m 2))) (lambda (m) m))", "\"a12\""),
    ]);
}

#[test]
fn functions_and_closures() {
    check(&[
        ("((lambda (a b) (- a b)) 5 3)", "2"),
        ("((lambda (a . rest) (list a rest)) 1 2 3)", "(1 (2 3))"),
        ("((lambda all all))", "()"),
        ("(define (adder n) (lambda (m) (+ n m))) ((adder 3) 4)", "7"),
        (
            "(define (counter) (let ((n 0)) (lambda () (set! n (+ n 1)) n))) (define c (counter)) (c) (c) ((counter)) (c)",
            "3",
        ),
        (
            "(define (f) (define (even n) (if (= n 0) #t (odd (- n 1)))) (define (odd n) (if (= n 0) #f (even (- n 1)))) (even 100)) (f)",
            "#t",
        ),
        ("(define x 1) (define (f) (define x 2) (set! x 3) x) (list (f) x)", "(3 1)"),
        ("(fold + 0 (map (lambda (x) (* x x)) (filter (lambda (x) (= 0 (modulo x 2))) (range 0 10))))", "120"),
    ]);
}

#[test]
fn primitives() {
    check(&[
        (
            "(list (+) (+ 1 2 3) (- 5) (- 5 1 1) (* 2 3) (quotient -7 2) (modulo -7 2) (modulo 7 -2))",
            "(0 6 -5 3 6 -3 1 -1)",
        ),
        ("(list (= 1 1 1) (< 1 2 2) (<= 1 2 2) (> 3 2) (>= 1 2))", "(#t #f #t #t #f)"),
        ("(list (cons 1 2) (car '(1 2)) (cdr '(1 2)) (length '(1 2)) (reverse '(1 2 3)))", "((1 . 2) 1 (2) 2 (3 2 1))"),
        ("(append '(1) '() '(2 3) 4)", "(1 2 3 . 4)"),
        ("(list (assoc \"b\" '((\"a\" . 1) (\"b\" . 2))) (assoc 3 '()) (member 2 '(1 2 3)))", "((\"b\" . 2) #f (2 3))"),
        ("(list (eq? 'a 'a) (eq? \"a\" \"a\") (equal? '(1 (\"a\")) '(1 (\"a\"))) (equal? 1 2))", "(#t #f #t #f)"),
        (
            "(list (string-append \"ä\" \"bc\") (string-length \"äbc\") (substring \"äbc\" 1 3) (string=? \"a\" \"a\"))",
            "(\"äbc\" 3 \"bc\" #t)",
        ),
        ("(list (number->string 12) (symbol->string 'ab))", "(\"12\" \"ab\")"),
        (
            "(list (null? '()) (pair? '()) (integer? 1) (string? \"\") (symbol? 'a) (procedure? car) (procedure? map))",
            "(#t #f #t #t #t #t #t)",
        ),
        (
            "(define t (table-set (table-set '() 'a 1) 'a 2)) (list (table-get t 'a 0) (table-get t 'b 0) (length t))",
            "(2 0 1)",
        ),
    ]);
}

#[test]
fn tail_calls_need_no_frames() {
    let loops = [
        "(define (loop n) (if (= n 0) 'done (loop (- n 1)))) (loop 100000)",
        "(define (loop n) (cond ((= n 0) 'done) (else (begin 1 (let ((m (- n 1))) (and #t (or #f (loop m)))))))) (loop 100000)",
        "(define (even n) (if (= n 0) 'done (odd (- n 1)))) (define (odd n) (even (- n 1))) (even 100000)",
    ];
    for text in loops {
        assert_eq!(outcome(text), "done", "{text}");
    }
}
