; Eight queens that do not attack each other: all the ways to place them.

(define (safe? column placed)
  (let loop ((rest placed) (distance 1))
    (cond ((null? rest) #t)
          ((= (car rest) column) #f)
          ((= (car rest) (+ column distance)) #f)
          ((= (car rest) (- column distance)) #f)
          (else (loop (cdr rest) (+ distance 1))))))

(define (place size)
  (let place-rest ((left size) (placed '()))
    (if (= left 0)
        (list placed)
        (fold append '()
              (map (lambda (column)
                     (if (safe? column placed) (place-rest (- left 1) (cons column placed)) '()))
                   (range 0 size))))))

(define solutions (place 8))
(print (length solutions) " ways; the first: " (car solutions))
