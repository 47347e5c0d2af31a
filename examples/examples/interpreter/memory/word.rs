//! A value as one machine word, the form in which memory holds it.
//!
//! ```text
//!   ...........................1   small integer
//!   address of an object ....0000   objects are aligned to 16 bytes
//!   payload .................tttt   another atom: its tag, and its payload from bit 4 on
//! ```

use core::ptr::{self, NonNull};

use crate::atoms::{Fixnum, Primitive, Symbol};

/// The word. A pointer, so that an object's address keeps its provenance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word(*mut u8);

/// What a word stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Meaning {
    Nil,
    Void,
    Bool(bool),
    Integer(Fixnum),
    Symbol(Symbol),
    Primitive(Primitive),
    /// An object at this address.
    Object(NonNull<u8>),
}

const INTEGER_BIT: usize = 1;
const TAG_BITS: u32 = 4;
const TAG_MASK: usize = (1 << TAG_BITS) - 1;
const OBJECT: usize = 0;
const NIL: usize = 2;
const VOID: usize = 4;
const BOOL: usize = 6;
const SYMBOL: usize = 8;
const PRIMITIVE: usize = 10;

const _: () = assert!(usize::BITS == 64, "a small integer has 63 bits");

const fn atom(tag: usize, payload: usize) -> Word {
    Word(ptr::without_provenance_mut(payload << TAG_BITS | tag))
}

impl Word {
    pub(super) const fn new(meaning: Meaning) -> Self {
        match meaning {
            Meaning::Nil => atom(NIL, 0),
            Meaning::Void => atom(VOID, 0),
            Meaning::Bool(truth) => atom(BOOL, truth as usize),
            Meaning::Integer(number) => {
                Self(ptr::without_provenance_mut((number.get() << 1).cast_unsigned() as usize | INTEGER_BIT))
            }
            Meaning::Symbol(symbol) => atom(SYMBOL, symbol.0 as usize),
            Meaning::Primitive(primitive) => atom(PRIMITIVE, primitive.0 as usize),
            Meaning::Object(address) => Self(address.as_ptr()),
        }
    }

    /// The word as a conservative collector sees it.
    pub(super) fn bits(self) -> usize {
        self.0.expose_provenance()
    }

    #[expect(clippy::cast_possible_truncation, reason = "payloads are as small as `new` got them")]
    pub(super) fn meaning(self) -> Meaning {
        let bits = self.0.addr();
        if bits & INTEGER_BIT != 0 {
            let number = (bits as u64).cast_signed() >> 1;
            return Fixnum::new(number).map_or(Meaning::Void, Meaning::Integer);
        }
        let payload = bits >> TAG_BITS;
        match bits & TAG_MASK {
            OBJECT => NonNull::new(self.0).map_or(Meaning::Nil, Meaning::Object),
            NIL => Meaning::Nil,
            BOOL => Meaning::Bool(payload != 0),
            SYMBOL => Meaning::Symbol(Symbol(payload as u32)),
            PRIMITIVE => Meaning::Primitive(Primitive(payload as u16)),
            _ => Meaning::Void,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Meaning, Word};
    use crate::atoms::{Fixnum, Primitive, Symbol};

    #[test]
    fn every_atom_survives_the_trip_through_a_word() {
        let mut atoms = vec![Meaning::Nil, Meaning::Void, Meaning::Bool(false), Meaning::Bool(true)];
        atoms.extend([0, 1, u32::MAX].map(|number| Meaning::Symbol(Symbol(number))));
        atoms.extend([0, u16::MAX].map(|number| Meaning::Primitive(Primitive(number))));
        let extremes = [0, 1, -1, i64::MAX >> 1, i64::MIN >> 1];
        atoms.extend(extremes.map(|number| Meaning::Integer(Fixnum::new(number).expect("63 bits"))));
        for atom in atoms {
            assert_eq!(Word::new(atom).meaning(), atom);
        }
    }
}
