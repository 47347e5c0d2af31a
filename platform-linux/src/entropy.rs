//! Numbers that an attacker cannot know.

use crate::{calls, clock};

/// A random number from the kernel. Where it has none to give, early at boot or behind a filter of system calls, one from the
/// clock and the place of the stack: different in each run, though not secret.
pub(crate) fn number() -> u64 {
    let mut bytes = [0; 8];
    if calls::random(&mut bytes) {
        return u64::from_ne_bytes(bytes);
    }
    let place = core::ptr::from_ref(&bytes).addr() as u64;
    // An odd constant spreads the clock's low bits, which are all that changes, over the whole number.
    (clock::now_ns() ^ place.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
