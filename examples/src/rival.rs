//! The same workload on another allocator, in a process of its own, so that neither run sees the other's memory.
//!
//! The child prints its figures as the last line on stdout; the parent reads them.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// Numbers with names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Figures(BTreeMap<String, u64>);

impl Figures {
    /// Adds a number.
    pub fn set(&mut self, name: &str, number: u64) {
        self.0.insert(name.to_owned(), number);
    }

    /// Adds a time.
    pub fn set_time(&mut self, name: &str, time: Duration) {
        self.set(name, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// The number of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// The time of that name.
    #[must_use]
    pub fn time(&self, name: &str) -> Option<Duration> {
        self.get(name).map(Duration::from_nanos)
    }

    /// The bytes of that name.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Option<usize> {
        self.get(name).and_then(|bytes| usize::try_from(bytes).ok())
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("figures:")?;
        self.0.iter().try_for_each(|(name, number)| write!(f, " {name}={number}"))
    }
}

/// The line was written by something else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotFigures;

impl FromStr for Figures {
    type Err = NotFigures;

    fn from_str(line: &str) -> Result<Self, NotFigures> {
        let words = line.trim().strip_prefix("figures:").ok_or(NotFigures)?.split_whitespace();
        let number = |word: &str| {
            let (name, number) = word.split_once('=').ok_or(NotFigures)?;
            Ok((name.to_owned(), number.parse().map_err(|_| NotFigures)?))
        };
        words.map(number).collect::<Result<_, _>>().map(Self)
    }
}

/// Runs this program once more with other `arguments`.
///
/// # Errors
/// A message, if that gives no figures.
pub fn run(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<Figures, String> {
    let program = env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let child = Command::new(program).args(arguments).stderr(Stdio::inherit()).output();
    let child = child.map_err(|error| format!("cannot start this program once more: {error}"))?;
    let text = String::from_utf8_lossy(&child.stdout);
    let figures = text.lines().last().and_then(|line| line.parse().ok());
    figures.ok_or_else(|| format!("the other process told no figures ({})", child.status))
}

/// `ours` as a multiple of `theirs`, such as `0.97 x`; `-` where one is not known.
#[must_use]
pub fn ratio(ours: Option<u64>, theirs: Option<u64>) -> String {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) if theirs > 0 => format!("{:.2} x", ours as f64 / theirs as f64),
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Figures, NotFigures, ratio};

    #[test]
    fn figures_survive_the_pipe() {
        let mut figures = Figures::default();
        figures.set("live", 23);
        figures.set_time("cpu", core::time::Duration::from_micros(7));
        assert_eq!(figures.to_string(), "figures: cpu=7000 live=23");
        assert_eq!(figures.to_string().parse(), Ok(figures));
        assert_eq!("figure: a=1".parse::<Figures>(), Err(NotFigures));
        assert_eq!("figures: a=b".parse::<Figures>(), Err(NotFigures));
    }

    #[test]
    fn a_ratio_needs_two_numbers() {
        assert_eq!(
            (ratio(Some(3), Some(4)), ratio(None, Some(1)), ratio(Some(1), Some(0))),
            ("0.75 x".into(), "-".into(), "-".into())
        );
    }
}
