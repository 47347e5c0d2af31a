//! The search for groups: splits spans (bitmaps of taken slots) into few groups of pairwise disjoint ones. Pure, deterministic,
//! resumable, without allocation.
//!
//! This is the minimum clique cover of the mesh graph, NP-hard in general. Groups are built one after another: the fullest
//! span without a group is the seed, as it is the hardest to place, and one scan collects the candidates that fit it
//! (`trial` grows the group from there). Spans are dealt into windows of some 8,000, so that the whole search is linear.
//!
//! Of 8,192 random spans it leaves, in per cent (first-fit decreasing in brackets, measured on 2026-11-30): 256 slots at 5 %
//! live 8.46 (9.31); 128 at 10 % 15.5 (17.3); 64 at 10 % 11.4 (11.9); 32 at 10 % 10.7 (10.7), in 25, 17, 15 and 7 ms.

#[cfg(all(test, not(loom)))]
mod tests;
mod trial;

use core::mem::replace;

use crate::base::config::MAX_MESH_SLOTS;

/// End of a member list.
pub(crate) const NONE: u32 = u32::MAX;
/// This many spans, or up to twice as many, are searched together. Each group
/// costs one scan of its window, so this keeps the whole search linear. Smaller
/// windows group worse.
const WINDOW: usize = 8192;
/// How many of the fullest candidates a choice is rated against.
const PEERS: usize = 32;
/// Spans handled by one step, so that a step takes only microseconds.
const CHUNK: usize = 512;
/// Most slots of a span. A group has no more members either, as only spans
/// that are not empty are searched.
pub(crate) const MAX_SLOTS: usize = MAX_MESH_SLOTS as usize;

/// Result of [`Grouping::advance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// There is more to do.
    Pending,
    /// The groups are complete.
    Done,
}

/// Length of the `lists` of [`Grouping::new`] for `n` spans.
pub(crate) const fn lists_len(n: usize) -> usize {
    n + window_len(n)
}

/// Length of the `pool` of [`Grouping::new`] for `n` spans of `words` words.
pub(crate) const fn pool_len(n: usize, words: usize) -> usize {
    window_len(n) * words
}

const fn window_len(n: usize) -> usize {
    if n < 2 * WINDOW { n } else { 2 * WINDOW - 1 }
}

/// What to do next; numbers say where to resume.
#[derive(Clone, Copy)]
enum Phase {
    /// Counting the spans by fullness.
    Count(usize),
    /// Writing the spans in search order.
    Sort(usize),
    /// Copying the ungrouped spans of the window to the pool, and where to.
    Load(usize, usize),
    /// Collecting what fits the seed.
    Scan(usize),
    /// Growing trial groups.
    Grow,
    Done,
}

/// A group under construction.
#[derive(Clone, Copy)]
struct Trial<const W: usize> {
    /// Members besides the seed, as positions in the window.
    members: [u32; MAX_SLOTS],
    len: usize,
    /// Slots taken by these members and the seed.
    taken: [u64; W],
}

/// A grouping search over spans of `W` words.
pub(crate) struct Grouping<'a, const W: usize> {
    spans: &'a [u64],
    /// Next member of the same group by span, or [`NONE`].
    next: &'a mut [u32],
    /// Spans in search order: window by window, each fullest first; [`NONE`]
    /// once grouped. The heads of the groups replace the entries at the front:
    /// there is at most one for each entry that has been a seed.
    order: &'a mut [u32],
    /// Bitmaps of the window, in order. Those of grouped spans are all ones, so
    /// that they fit nothing.
    pool: &'a mut [u64],
    /// Window positions that fit the seed, fullest first.
    fits: &'a mut [u32],
    fits_len: usize,
    groups: usize,
    /// By fullness: number of spans, then rank of the next such span.
    ranks: [u32; MAX_SLOTS + 1],
    /// Slots taken in any span. No group can take more.
    used: [u64; W],
    /// Number of spans that are not empty.
    live: usize,
    /// The empty spans, linked by `next`, until a group takes them all.
    empty: u32,
    /// Next window, and where the current one starts in `order`.
    window: usize,
    base: usize,
    /// Seed and end of the window, relative to `base`, and how many spans in
    /// between are grouped.
    seed: usize,
    end: usize,
    gaps: usize,
    /// Spans that the window began with.
    window_spans: usize,
    trials: usize,
    trial: Trial<W>,
    best: Trial<W>,
    /// The fullest candidates that fit the trial group, and how much of `fits`
    /// has been searched for them.
    peers: [u32; PEERS],
    peers_len: usize,
    searched: usize,
    phase: Phase,
}

#[inline(always)]
fn span<const W: usize>(spans: &[u64], index: u32) -> &[u64; W] {
    let at = index as usize * W;
    spans[at..at + W].try_into().expect("the slice has W words")
}

#[inline(always)]
fn disjoint<const W: usize>(a: &[u64; W], b: &[u64; W]) -> bool {
    (0..W).fold(0, |overlap, i| overlap | (a[i] & b[i])) == 0
}

fn slots<const W: usize>(span: &[u64; W]) -> u32 {
    span.iter().map(|word| word.count_ones()).sum()
}

impl<'a, const W: usize> Grouping<'a, W> {
    /// `spans` holds `next.len()` spans of `W` words. `next` takes the result;
    /// see [`lists_len`] and [`pool_len`] for the rest.
    pub(crate) fn new(spans: &'a [u64], next: &'a mut [u32], lists: &'a mut [u32], pool: &'a mut [u64]) -> Self {
        let n = next.len();
        assert!(W * 64 <= MAX_SLOTS && n < NONE as usize && spans.len() == n * W);
        let (order, fits) = lists[..lists_len(n)].split_at_mut(n);
        let pool = &mut pool[..pool_len(n, W)];
        let trial = Trial { members: [0; MAX_SLOTS], len: 0, taken: [0; W] };
        Grouping {
            spans,
            next,
            order,
            pool,
            fits,
            fits_len: 0,
            groups: 0,
            ranks: [0; MAX_SLOTS + 1],
            used: [0; W],
            live: 0,
            empty: NONE,
            window: 0,
            base: 0,
            seed: 0,
            end: 0,
            gaps: 0,
            window_spans: 0,
            trials: 0,
            trial,
            best: trial,
            peers: [0; PEERS],
            peers_len: 0,
            searched: 0,
            phase: Phase::Count(0),
        }
    }

    /// The heads of the groups, and for each span the next member of its group.
    /// Complete once [`Self::advance`] is done.
    pub(crate) fn groups(&self) -> (&[u32], &[u32]) {
        (&self.order[..self.groups], self.next)
    }

    /// Works for about `work` bitmap tests.
    pub(crate) fn advance(&mut self, work: usize) -> Progress {
        let mut done = 0;
        while done < work {
            done += match self.phase {
                Phase::Count(from) => self.count(from),
                Phase::Sort(from) => self.sort(from),
                Phase::Load(from, to) => self.load(from, to),
                Phase::Scan(from) => self.scan(from),
                Phase::Grow => self.grow(),
                Phase::Done => break,
            };
        }
        if matches!(self.phase, Phase::Done) { Progress::Done } else { Progress::Pending }
    }

    fn count(&mut self, from: usize) -> usize {
        let to = self.next.len().min(from + CHUNK);
        for id in from..to {
            let span = span::<W>(self.spans, id as u32);
            self.ranks[slots(span) as usize] += 1;
            (0..W).for_each(|i| self.used[i] |= span[i]);
        }
        self.phase = Phase::Count(to);
        if to == self.next.len() {
            for rank in self.ranks[1..].iter_mut().rev() {
                let count = replace(rank, self.live as u32);
                self.live += count as usize;
            }
            self.phase = Phase::Sort(0);
        }
        CHUNK
    }

    /// Deals the spans, fullest first, to the windows in turn, so that all
    /// windows get the same mix. Empty spans fit anywhere and need no search.
    fn sort(&mut self, from: usize) -> usize {
        let to = self.next.len().min(from + CHUNK);
        let windows = self.windows();
        for id in from as u32..to as u32 {
            let fullness = slots::<W>(span(self.spans, id)) as usize;
            if fullness == 0 {
                self.next[id as usize] = replace(&mut self.empty, id);
                continue;
            }
            let rank = self.ranks[fullness] as usize;
            self.ranks[fullness] += 1;
            self.order[self.window_start(rank % windows) + rank / windows] = id;
        }
        self.phase = Phase::Sort(to);
        if to == self.next.len() {
            self.next_window();
        }
        CHUNK
    }

    fn windows(&self) -> usize {
        (self.live / WINDOW).max(1)
    }

    fn window_start(&self, window: usize) -> usize {
        let windows = self.windows();
        window * (self.live / windows) + window.min(self.live % windows)
    }

    fn next_window(&mut self) {
        if self.window < self.windows() {
            self.base = self.window_start(self.window);
            self.window += 1;
            self.end = self.window_start(self.window) - self.base;
            self.window_spans = self.end;
            self.seed = 0;
            self.phase = Phase::Load(0, 0);
            return;
        }
        if self.empty != NONE {
            self.order[self.groups] = self.empty;
            self.groups += 1;
        }
        self.phase = Phase::Done;
    }

    /// Fills the pool with the rest of the window, closing the gaps in `order`.
    fn load(&mut self, from: usize, mut write: usize) -> usize {
        let to = self.end.min(from + CHUNK);
        for at in from..to {
            let id = self.order[self.base + at];
            if id != NONE {
                self.order[self.base + write] = id;
                self.pool[write * W..][..W].copy_from_slice(span::<W>(self.spans, id));
                write += 1;
            }
        }
        self.phase = Phase::Load(to, write);
        if to == self.end {
            self.end = write;
            self.gaps = 0;
            self.next_seed();
        }
        CHUNK
    }

    /// Moves on to the fullest ungrouped span, if the window has one.
    fn next_seed(&mut self) {
        while self.seed < self.end && self.order[self.base + self.seed] == NONE {
            self.seed += 1;
            self.gaps -= 1;
        }
        if self.seed == self.end {
            return self.next_window();
        }
        if self.gaps * 8 > self.end - self.seed {
            self.phase = Phase::Load(self.seed, self.seed);
            return;
        }
        (self.fits_len, self.trials, self.trial.len, self.best.len) = (0, 0, 0, 0);
        self.best.taken = [0; W];
        self.phase = Phase::Scan(self.seed + 1);
    }
}
