//! Numbers as people read them.

use core::fmt;
use core::time::Duration;

/// Bytes, shown in MiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mib(pub usize);

impl Mib {
    /// The same as a number.
    #[must_use]
    pub fn number(self) -> f64 {
        self.0 as f64 / f64::from(1 << 20)
    }
}

impl fmt::Display for Mib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.1}", self.number()))
    }
}

/// A count with its thousands set apart: `1 234 567`.
#[must_use]
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A time that may be a pause: `840 µs`, `12.3 ms`, `2.1 s`.
#[must_use]
pub fn pause(time: Duration) -> String {
    match time.as_micros() {
        micros @ 0..1000 => format!("{micros} µs"),
        1000..1_000_000 => format!("{:.1} ms", time.as_secs_f64() * 1e3),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::{Mib, grouped, pause};

    #[test]
    fn numbers_read_well() {
        assert_eq!((grouped(0), grouped(999), grouped(1_234_567)), ("0".into(), "999".into(), "1 234 567".into()));
        assert_eq!(format!("{:>6}", Mib(3 << 19)), "   1.5");
        assert_eq!(pause(Duration::from_micros(840)), "840 µs");
        assert_eq!(pause(Duration::from_micros(12_340)), "12.3 ms");
    }
}
