//! Rows: neighbouring spans of one class that are meshed as one, by one call and for one mapping.
//!
//! ```text
//!   addresses   [ a0 ][ a1 ][ a2 ][ a3 ] ...      [ k0 ][ k1 ][ k2 ][ k3 ]
//!                  └─────┴─────┴─────┴─── one alias ──┴─────┴─────┴─────┘
//! ```
//!
//! Mappings are what meshing runs out of. A row of four spans takes one where four spans would take four; in turn, two rows fit
//! together only if all four pairs of spans do, so fewer do. Rows are as long as mappings are scarce, and what remains of a class is
//! looked at again in shorter ones. Nothing remembers rows: each span is linked to its own keeper, and an alias that dies
//! takes its pages out of the mapping that it lay in.

use crate::base::config::ROW_MAX_WORDS;
use crate::base::units::{PageIndex, PageLink, PageRun, SizeClass};
use crate::platform::Platform;
use crate::span::arena::{Arena, Class};
use crate::span::bits::{GroupBits, union};

/// Spans of a row, at the most: those whose bitmaps have one word.
pub(super) const MAX_SPANS: usize = ROW_MAX_WORDS as usize;

/// So many neighbouring spans of one class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    pub(crate) class: SizeClass,
    pub(crate) head: PageIndex,
    pub(crate) spans: u32,
}

impl Row {
    /// A single span.
    pub(crate) const fn single(class: SizeClass, head: PageIndex) -> Self {
        Self { class, head, spans: 1 }
    }

    /// All its pages.
    pub(crate) fn pages<P: Platform>(self, arena: &Arena<P>) -> u32 {
        self.spans * arena.cut(self.class).pages
    }

    /// The same as a run.
    pub(crate) fn run<P: Platform>(self, arena: &Arena<P>) -> PageRun {
        PageRun::new(self.head, self.pages(arena))
    }

    /// The first pages of its spans.
    pub(crate) fn heads<P: Platform>(self, arena: &Arena<P>) -> impl Iterator<Item = PageIndex> + Clone + use<P> {
        let pages = arena.cut(self.class).pages;
        (0..self.spans).map(move |span| self.head.plus(span * pages))
    }
}

/// Whether a partial span of the locked class starts at `head`, and in a row of several one without aliases: where mappings are
/// scarce, none is spent on moving what has been meshed.
pub(crate) fn is_candidate<P: Platform>(arena: &Arena<P>, guard: &Class, head: PageIndex, spans: u32) -> bool {
    let keeper = guard.spans.partial_keeper(arena.map(), head);
    keeper.is_some_and(|keeper| spans == 1 || keeper.aliases == PageLink::NONE)
}

/// The taken slots of the whole group at `head`, if it is a partial span of `class`.
pub(crate) fn candidate<P: Platform>(
    arena: &Arena<P>,
    guard: &Class,
    class: SizeClass,
    head: PageIndex,
) -> Option<GroupBits> {
    let keeper = guard.spans.partial_keeper(arena.map(), head)?;
    // SAFETY: `guard` shows that the class lock is held.
    Some(unsafe { union(arena.map(), head, keeper.aliases, arena.cut(class).words()) })
}

/// Counts the row, whose addresses show memory for several, and the spans beside it as one mapping where they show neighbouring
/// pages, too: the system has joined them.
pub(crate) fn join_neighbours<P: Platform>(arena: &Arena<P>, row: Row) {
    let run = row.run(arena);
    for border in [run.start, run.end()] {
        let guard = arena.class(row.class);
        if shown_across(arena, &guard, row.class, border) {
            arena.page_heap().mappings_mut().join(border);
        }
    }
}

/// Whether two spans of the locked class meet at `border` that show neighbouring pages of one memory.
fn shown_across<P: Platform>(arena: &Arena<P>, guard: &Class, class: SizeClass, border: PageIndex) -> bool {
    let pages = arena.cut(class).pages;
    let Some(before) = border.get().checked_sub(pages).map(PageIndex::new) else { return false };
    if border.get() >= arena.page_heap().counts().frontier {
        return false;
    }
    let shown = |head| guard.spans.shown_by(arena.map(), head);
    let (Some(first), Some(second)) = (shown(before), shown(border)) else { return false };
    let is_shared = |head| !arena.platform().is_private(Row::single(class, head).run(arena));
    first.plus(pages) == second && is_shared(before) && is_shared(border)
}
