//! Operations on a heap as data, so that quickcheck can make, print and shrink sequences of them.

use quickcheck::{Arbitrary, Gen};

/// One operation. Numbers are taken modulo whatever there is, so that every sequence makes sense.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Allocates an object.
    Alloc(Size),
    /// Allocates an object of zeros.
    AllocZeroed(Size),
    /// Allocates many objects of one size and frees all but one in eight, which ones by the seed: makes spans that mesh.
    Fragment(Size, u8, u64),
    /// Frees an object with its layout.
    Dealloc(usize),
    /// Frees an object without its layout.
    Free(usize),
    /// Reallocates an object.
    Realloc(usize, Size),
    /// Lets another thread free some objects and allocate others, through a local heap of its own.
    HandOver(usize, u8, Size),
    /// One mesh step, bounded in pages and mappings.
    Mesh(u8, u8),
    /// Mesh steps until a pass is done.
    MeshAll,
    /// What the heap does around a fork, without one.
    Fork,
    /// Gives free pages back.
    Purge,
    /// Goes on with another local heap.
    Switch(u8),
    /// Flushes the current local heap.
    Flush,
    /// Drops the current local heap and makes a new one.
    Renew,
    /// Allocates and frees through the heap itself from now on, or through local heaps again.
    ThroughHeap(bool),
}

/// A size and an alignment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// Bytes.
    pub bytes: usize,
    /// The alignment's exponent.
    pub align_bits: u32,
}

impl Arbitrary for Size {
    fn arbitrary(g: &mut Gen) -> Self {
        let within = |g: &mut Gen, limit: usize| usize::arbitrary(g) % limit;
        let bytes = match u8::arbitrary(g) % 16 {
            0 => 0,
            1..=8 => within(g, 130),
            9..=12 => within(g, 1100),
            13 => within(g, 9000),
            14 => within(g, 40_000),
            _ => within(g, 150_000),
        };
        let align_bits = match u8::arbitrary(g) % 8 {
            0 => u32::arbitrary(g) % 15,
            _ => u32::arbitrary(g) % 5,
        };
        Self { bytes, align_bits }
    }
}

impl Size {
    /// A size of which many objects fit the test's arena.
    fn small(g: &mut Gen) -> Self {
        let bytes = [16, 24, 48, 64, 100, 256, 512, 900, 1200, 3000, 5000];
        Self { bytes: *g.choose(&bytes).expect("not empty"), align_bits: 0 }
    }
}

impl Arbitrary for Op {
    fn arbitrary(g: &mut Gen) -> Self {
        match u8::arbitrary(g) % 33 {
            0..=7 => Self::Alloc(Size::arbitrary(g)),
            8 | 9 => Self::AllocZeroed(Size::arbitrary(g)),
            10..=12 => Self::Fragment(Size::small(g), u8::arbitrary(g), u64::arbitrary(g)),
            13..=17 => Self::Dealloc(usize::arbitrary(g)),
            18..=20 => Self::Free(usize::arbitrary(g)),
            21..=23 => Self::Realloc(usize::arbitrary(g), Size::arbitrary(g)),
            24 => Self::HandOver(usize::arbitrary(g), u8::arbitrary(g), Size::arbitrary(g)),
            25 => Self::Mesh(u8::arbitrary(g), u8::arbitrary(g)),
            26 | 27 => Self::MeshAll,
            28 => Self::Purge,
            29 => Self::Switch(u8::arbitrary(g)),
            30 => *g.choose(&[Self::Flush, Self::Renew]).expect("not empty"),
            31 => Self::Fork,
            _ => Self::ThroughHeap(bool::arbitrary(g)),
        }
    }
}
