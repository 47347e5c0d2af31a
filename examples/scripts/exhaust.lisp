; Runs out of memory on purpose, and goes on. Try it with --limit-mib 16.

(define kept '())

(define (hoard n)
  (set! kept (cons (string-append "thing " (number->string n)) kept))
  (hoard (+ n 1)))

(try (hoard 0)
     (lambda (message)
       (print "after " (length kept) " things: " message)
       (set! kept '())))

(define (deepen n) (+ 1 (deepen n)))
(print (try (deepen 0) (lambda (message) message)))

(define (double text) (double (string-append text text)))
(print (try (double "0123456789abcdef") (lambda (message) message)))

(print "and still here: " (length (range 0 1000)))
