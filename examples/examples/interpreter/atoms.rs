//! Values that fit a word and need no memory: small integers, symbols, primitives.

/// An integer that leaves the word's lowest bit free: 63 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Fixnum(i64);

impl Fixnum {
    const MAX: i64 = i64::MAX >> 1;
    const MIN: i64 = i64::MIN >> 1;

    /// `number`, unless it needs all 64 bits.
    pub(crate) const fn new(number: i64) -> Option<Self> {
        if Self::MIN <= number && number <= Self::MAX { Some(Self(number)) } else { None }
    }

    /// A count of things in memory.
    pub(crate) fn of_count(count: usize) -> Self {
        Self(i64::try_from(count).map_or(Self::MAX, |count| count.min(Self::MAX)))
    }

    pub(crate) const fn get(self) -> i64 {
        self.0
    }
}

/// A name's number in the symbol table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Symbol(pub(crate) u32);

/// A built-in function's number in the table of primitives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Primitive(pub(crate) u16);
