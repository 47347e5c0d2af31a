//! Faults that were tried again: those that keep coming are the program's own.

use core::sync::atomic::{AtomicUsize, Ordering};

/// A cell for each of so many threads; two that share one disturb each other only while both are at fault.
const CELLS: usize = 64;

/// The low bits of a cell count, the others tell which fault.
const COUNT: usize = 0b11;

/// So many tries are enough. The second one is proof already; the third makes up for numbers that come round again.
const TRIES: usize = 2;

static SUSPECTS: [AtomicUsize; CELLS] = [const { AtomicUsize::new(0) }; CELLS];

/// Whether `thread` has faulted at `address` in this epoch so often that trying again will not help.
pub(super) fn is_repeated(thread: u32, address: usize, epoch: u32) -> bool {
    let cell = &SUSPECTS[thread as usize % CELLS];
    let fault = mix(address ^ mix(thread as usize) ^ mix(epoch as usize).rotate_left(8)) & !COUNT;
    // Relaxed: no other memory depends on it, and a thread sees its own stores in order.
    let seen = cell.load(Ordering::Relaxed);
    let tries = if seen & !COUNT == fault { seen & COUNT } else { 0 };
    cell.store(fault | (tries + 1).min(TRIES), Ordering::Relaxed);
    tries == TRIES
}

/// Spreads every bit over the upper half of a number, an odd factor and a shift at a time.
const fn mix(number: usize) -> usize {
    const FACTOR: usize = 0x9e37_79b9_7f4a_7c15_u64 as usize;
    let product = number.wrapping_mul(FACTOR);
    (product ^ product.rotate_right(usize::BITS / 2)).wrapping_mul(FACTOR)
}

#[cfg(test)]
mod tests {
    use super::is_repeated;

    #[test]
    fn only_the_same_fault_in_the_same_epoch_is_repeated() {
        for address in (0x7000_0000..0x7000_0000 + 4096 * 100).step_by(4096) {
            assert!(!is_repeated(7, address, 1) && !is_repeated(7, address, 1));
            assert!(is_repeated(7, address, 1) && is_repeated(7, address, 1));
            assert!(!is_repeated(7, address, 3), "a mesh came in between");
            assert!(!is_repeated(8, address, 3), "another thread");
        }
        assert!(!is_repeated(8, 0x7000_0000, 3));
        assert!(!is_repeated(8 + 64, 0x7000_0000, 3), "threads that share a cell are two");
        assert!(!is_repeated(8, 0x7000_0000, 3));
    }
}
