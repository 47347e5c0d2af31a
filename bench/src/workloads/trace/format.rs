//! A trace as bytes.

use core::fmt;

const MAGIC: &[u8] = b"MHT1";

/// One call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// An object of this many bytes.
    Alloc(usize),
    /// The object in this slot goes.
    Free(usize),
    /// The object in the first slot gets the second's number of bytes.
    Resize(usize, usize),
}

/// The bytes are no trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a trace")
    }
}

impl core::error::Error for Broken {}

/// A trace's bytes.
#[must_use]
pub fn encode(calls: &[Call]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    for call in calls {
        match *call {
            Call::Alloc(size) => put(&mut bytes, size << 2),
            Call::Free(slot) => put(&mut bytes, slot << 2 | 1),
            Call::Resize(slot, size) => {
                put(&mut bytes, slot << 2 | 2);
                put(&mut bytes, size);
            }
        }
    }
    bytes
}

fn put(bytes: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// The calls of a trace.
///
/// # Errors
/// [`Broken`]: the bytes are no trace, or end within a call.
pub fn decode(bytes: &[u8]) -> Result<Vec<Call>, Broken> {
    let mut rest = bytes.strip_prefix(MAGIC).ok_or(Broken)?;
    let mut calls = Vec::new();
    while !rest.is_empty() {
        let number = take(&mut rest)?;
        calls.push(match number & 3 {
            0 => Call::Alloc(number >> 2),
            1 => Call::Free(number >> 2),
            2 => Call::Resize(number >> 2, take(&mut rest)?),
            _ => return Err(Broken),
        });
    }
    Ok(calls)
}

fn take(rest: &mut &[u8]) -> Result<usize, Broken> {
    let mut number = 0;
    for shift in (0..usize::BITS).step_by(7) {
        let (&byte, after) = rest.split_first().ok_or(Broken)?;
        *rest = after;
        number |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(Broken)
}

#[cfg(test)]
mod tests {
    use super::{Broken, Call, decode, encode};

    #[test]
    fn a_trace_survives_the_round_trip() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut number = move || rng.usize(..) >> rng.u32(2..64);
        let calls: Vec<Call> = (0..999)
            .map(|at| match at % 3 {
                0 => Call::Alloc(number()),
                1 => Call::Free(number()),
                _ => Call::Resize(number(), number()),
            })
            .collect();
        assert_eq!(decode(&encode(&calls)), Ok(calls));
    }

    #[test]
    fn a_trace_that_ends_within_a_call_is_broken() {
        let bytes = encode(&[Call::Resize(1, 300)]);
        assert_eq!(decode(&bytes[..bytes.len() - 1]), Err(Broken));
        assert_eq!(decode(b"something else"), Err(Broken));
        assert_eq!(decode(&[b"MHT1".as_slice(), &[0xff; 20]].concat()), Err(Broken));
    }
}
