; A shop over a day: its sessions hold carts, notes and a closure each. Most visitors leave, at random, and what they held
; lies scattered among what stays. `short?` is set by --short.

(define visitors (if short? 5000 50000))

(define goods '("anvil" "bellows" "chisel" "drill" "easel" "file" "gimlet" "hammer"))

(define (pick items) (list-ref items (random (length items))))

(define (make-cart size)
  (let loop ((left size) (cart '()))
    (if (= left 0)
        cart
        (loop (- left 1) (cons (cons (pick goods) (+ 1 (random 9))) cart)))))

; Notes differ in length, so that they fall into several size classes.
(define (make-note id)
  (let loop ((left (random 4)) (note (string-append "visitor " (number->string id))))
    (if (= left 0)
        note
        (loop (- left 1) (string-append note ", looked at the " (pick goods))))))

; A session is (id note cart total), its total a closure over its own count of visits.
(define (make-session id)
  (let ((cart (make-cart (+ 1 (random 5))))
        (visits 0))
    (list id
          (make-note id)
          cart
          (lambda ()
            (set! visits (+ visits 1))
            (fold (lambda (sum entry) (+ sum (cdr entry))) 0 cart)))))

(define (session-note session) (cadr session))
(define (session-total session) ((car (cdr (cddr session)))))

; Morning: everybody comes.
(define sessions
  (let loop ((id 0) (all '()))
    (if (= id visitors)
        all
        (loop (+ id 1) (cons (make-session id) all)))))
(define (count-of sessions) (length sessions))
(define (sum-of sessions)
  (fold (lambda (sum session) (+ sum (session-total session))) 0 sessions))
(print "morning: " (count-of sessions) " sessions, " (sum-of sessions) " things in their carts")

; Evening: a random tenth stays.
(set! sessions (filter (lambda (session) (= 0 (random 10))) sessions))
(collect)
(print "evening: " (count-of sessions) " sessions, " (sum-of sessions) " things in their carts")
(print "one of them: " (session-note (car sessions)))
