//! Objects aligned to a cache line, to 256 bytes (a GPU's or a device's), and to a page.

use crate::{End, Scale};

const OBJECTS: usize = 20_000;
const REPLACEMENTS: usize = 4_000_000;

#[repr(align(64))]
struct Line([u8; 64]);

#[repr(align(256))]
struct Block([u8; 256]);

#[repr(align(4096))]
struct Page([u8; 4096]);

/// Of each kind one to a few, side by side.
enum Object {
    Lines(Vec<Line>),
    Blocks(Vec<Block>),
    Page(Vec<Page>),
}

impl Object {
    /// Most are lines, one in 64 is a page.
    fn new(rng: &mut fastrand::Rng, tag: usize) -> Self {
        let tag = tag as u8;
        match rng.u8(..64) {
            0 => Self::Page(first(1, Page([tag; 4096]))),
            1..=16 => Self::Blocks(first(rng.usize(1..=3), Block([tag; 256]))),
            _ => Self::Lines(first(rng.usize(1..=6), Line([tag; 64]))),
        }
    }

    fn tag(&self) -> u64 {
        let tag = match self {
            Self::Lines(lines) => lines.first().map(|line| line.0[0]),
            Self::Blocks(blocks) => blocks.first().map(|block| block.0[0]),
            Self::Page(pages) => pages.first().map(|page| page.0[0]),
        };
        tag.unwrap_or(0).into()
    }
}

/// Room for `count` elements, the first of which is there.
fn first<T>(count: usize, element: T) -> Vec<T> {
    let mut room = Vec::with_capacity(count);
    room.push(element);
    room
}

pub(crate) fn run(scale: Scale) -> End {
    let mut rng = fastrand::Rng::with_seed(22);
    let live = scale.of(OBJECTS);
    let mut objects: Vec<Object> = (0..live).map(|at| Object::new(&mut rng, at)).collect();
    let mut checksum = 0;
    for count in 0..scale.of(REPLACEMENTS) {
        let place = &mut objects[rng.usize(..live)];
        checksum += place.tag();
        *place = Object::new(&mut rng, count);
    }
    End::new(checksum, objects)
}
