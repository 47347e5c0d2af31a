//! The rounds of a pass through the classes: where mappings are scarce, rows of spans come first, as few and as short ones as make the
//! mappings suffice.
//!
//! ```text
//!   mappings for all spans, one each:                        Single
//!   ... for all rows, as long as they can be:       Narrow ─▶ Wide ─▶ Single
//!   not even those:                     Longest ─▶ Narrow ─▶ Wide ─▶ Single
//! ```
//!
//! Fewer rows fit together than single spans, and each that does not keeps all its pages: so the spans of the smallest bitmaps and
//! of the fewest pages become rows first. Where no choice makes the mappings suffice, each should free as much as it can.

use crate::base::config::CLASS_COUNT;
use crate::base::units::SizeClass;
use crate::mesh::row::MAX_SPANS;
use crate::platform::Platform;
use crate::span::arena::{Arena, all_classes, class_number};
use crate::span::class_spans::ClassCounts;

/// Lengths of rows: each twice the one before.
const LENGTHS: usize = MAX_SPANS.ilog2() as usize + 1;

/// One round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Round {
    /// Rows of all classes, those with the longest spans first.
    Longest,
    /// Rows of classes whose bitmaps have one word, those with the fewest pages first.
    Narrow,
    /// Rows of the others, those with the fewest slots first.
    Wide,
    /// Single spans, the longest first.
    Single,
}

impl Round {
    /// The class that comes as number `index`.
    pub(super) fn class(self, index: usize) -> SizeClass {
        class_number(if matches!(self, Self::Narrow) { index } else { CLASS_COUNT - 1 - index })
    }

    /// The number of `class`.
    const fn index(self, class: SizeClass) -> usize {
        if matches!(self, Self::Narrow) { class.index() } else { CLASS_COUNT - 1 - class.index() }
    }

    const fn next(self) -> Option<Self> {
        match self {
            Self::Longest => Some(Self::Narrow),
            Self::Narrow => Some(Self::Wide),
            Self::Wide => Some(Self::Single),
            Self::Single => None,
        }
    }
}

/// A class's turn in a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Turn {
    pub(super) round: Round,
    pub(super) index: usize,
}

impl Turn {
    /// The first of a pass.
    pub(super) const FIRST: Self = Self { round: Round::Longest, index: 0 };

    /// The one after that of `class` in `round`. None after the last.
    pub(super) fn after(round: Round, class: SizeClass) -> Option<Self> {
        match round.index(class) + 1 {
            CLASS_COUNT => round.next().map(|round| Self { round, index: 0 }),
            index => Some(Self { round, index }),
        }
    }
}

/// How the spans of a class are to be looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rows {
    pub(super) round: Round,
    /// Spans of a row.
    pub(crate) spans: u32,
    /// How many rows are wanted, at the most.
    pub(crate) wanted: usize,
}

impl Rows {
    /// For `class` in `round`; none if it is passed over. Rows are twice as long until the mappings suffice or the search takes no
    /// more slots, and no more of them are wanted than save the mappings that lack.
    pub(super) fn of_class<P: Platform>(arena: &Arena<P>, class: SizeClass, round: Round) -> Option<Self> {
        if !arena.cut(class).can_mesh() {
            return None;
        }
        if round == Round::Single {
            return Some(Self { round, spans: 1, wanted: usize::MAX });
        }
        let cut = arena.cut(class);
        let longest = cut.row_spans().ilog2() as usize;
        // All that is needed is counted for classes that may have rows only: it takes each class's lock.
        if longest == 0 || (round == Round::Narrow && cut.words() > 1) {
            return None;
        }
        let needed = mappings_needed(arena);
        let free = arena.page_heap().mappings().free();
        let least = if round == Round::Longest { needed[LENGTHS - 1] } else { needed[0] };
        if least <= free {
            return None;
        }
        let doublings = (1..longest).find(|&doublings| needed[doublings] <= free).unwrap_or(longest);
        let spans = 1 << doublings;
        Some(Self { round, spans, wanted: (needed[0] - free).div_ceil(spans as usize - 1) })
    }

    /// What comes when no row is left: shorter ones. Single spans have a round of their own.
    pub(super) fn shorter(self) -> Option<Self> {
        (self.spans > 2).then_some(Self { spans: self.spans / 2, ..self })
    }
}

/// How many mappings all spans would take that are in no group yet and may come into one: one and an eighth, as not every neighbour is
/// meshed, for each row of the length in question, or of the longest of their class.
fn mappings_needed<P: Platform>(arena: &Arena<P>) -> [usize; LENGTHS] {
    let mut needed = [0; LENGTHS];
    for class in all_classes().filter(|&class| arena.cut(class).can_mesh()) {
        let counts = arena.class(class).spans.counts();
        if !has_partners(&counts, arena.cut(class).slots) {
            continue;
        }
        let longest = arena.cut(class).row_spans().ilog2() as usize;
        for (doublings, needed) in needed.iter_mut().enumerate() {
            let fresh = (counts.spans - counts.aliases - counts.groups) as usize;
            *needed += (fresh + fresh / 8) >> doublings.min(longest);
        }
    }
    needed
}

/// Whether a span of the class that is as full as the average fits onto any other: of spans of `n` slots of which a part `d` is
/// taken, a share of `(1 - d^2)^n` does, which is about `exp(-n d^2)`, and has to be one span at least.
fn has_partners(counts: &ClassCounts, slots: u32) -> bool {
    if counts.spans < 2 {
        return false;
    }
    let (spans, taken, slots) = (u128::from(counts.spans), u128::from(counts.taken), u128::from(slots));
    // A doubling is worth 0.7 of a natural logarithm.
    10 * taken * taken <= 7 * u128::from(counts.spans.ilog2()) * spans * spans * slots
}
