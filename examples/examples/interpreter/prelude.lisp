; What every script finds defined, besides the primitives.

(define (map f items)
  (let loop ((rest items) (done '()))
    (if (null? rest)
        (reverse done)
        (loop (cdr rest) (cons (f (car rest)) done)))))

(define (filter keep? items)
  (let loop ((rest items) (done '()))
    (cond ((null? rest) (reverse done))
          ((keep? (car rest)) (loop (cdr rest) (cons (car rest) done)))
          (else (loop (cdr rest) done)))))

(define (fold f start items)
  (if (null? items)
      start
      (fold f (f start (car items)) (cdr items))))

(define (for-each f items)
  (cond ((pair? items)
         (f (car items))
         (for-each f (cdr items)))))

; The integers from `from` up to, but without, `to`.
(define (range from to)
  (let loop ((n (- to 1)) (done '()))
    (if (< n from) done (loop (- n 1) (cons n done)))))

(define (cadr items) (car (cdr items)))
(define (cddr items) (cdr (cdr items)))
(define (caddr items) (car (cddr items)))

; Tables: lists of (key . value). `table-set` gives a new table and leaves the old one as it is.
(define (table-get table key default)
  (let ((found (assoc key table)))
    (if found (cdr found) default)))

(define (table-set table key value)
  (cons (cons key value)
        (filter (lambda (entry) (not (equal? (car entry) key))) table)))
