//! Growing one group: a few trials from one seed, of which the one that takes most slots is kept. A trial adds one candidate
//! at a time, preferring full ones that leave many of the others usable.

use core::mem::replace;

use super::{CHUNK, Grouping, NONE, PEERS, Phase, WINDOW, disjoint, slots, span};

/// Trial groups grown from one seed in a full window; smaller windows take less time to scan and get more trials for it, up
/// to [`MOST_TRIALS`], so that the time for a span stays about the same.
const TRIALS: usize = 8;
const MOST_TRIALS: usize = 48;
/// How many of the fullest candidates are rated for each pick.
const CHOICES: usize = 8;
/// A seed that fits none of the emptiest spans of this many words gets no scan.
const PROBE_WORDS: usize = 12288;

/// The best next member among `peers`: judged by the slots that it adds and by
/// the share of the peers that stay usable, as if all of them were equally
/// full. The weight of 3/4 is a measured optimum.
fn pick<const W: usize>(pool: &[u64], peers: &[u32]) -> u32 {
    let peer_slots = slots::<W>(span(pool, peers[0]));
    let rating = |&choice: &u32| {
        let choice = span::<W>(pool, choice);
        let kept: u32 = peers.iter().map(|&peer| disjoint(choice, span(pool, peer)) as u32).sum();
        kept * peer_slots + slots(choice) * peers.len() as u32 * 3 / 4
    };
    *peers.iter().take(CHOICES).max_by_key(|choice| rating(choice)).expect("there is a peer")
}

impl<const W: usize> Grouping<'_, W> {
    pub(super) fn scan(&mut self, from: usize) -> usize {
        let seed = span::<W>(self.pool, self.seed as u32);
        if from == self.seed + 1 && self.is_hopeless(seed) {
            self.close_group();
            return PROBE_WORDS / W;
        }
        let to = self.end.min(from + CHUNK);
        let mut len = self.fits_len;
        // No branch on the test here or below: its outcome is unpredictable.
        for at in from as u32..to as u32 {
            self.fits[len] = at;
            len += disjoint(seed, span(self.pool, at)) as usize;
        }
        self.fits_len = len;
        self.phase = Phase::Scan(to);
        if to == self.end {
            self.next_trial();
        }
        CHUNK
    }

    /// Whether a scan is unlikely to find anything, judging by the spans that
    /// are the most likely to fit.
    fn is_hopeless(&self, seed: &[u64; W]) -> bool {
        let emptiest = self.end.saturating_sub(PROBE_WORDS / W);
        emptiest > self.seed && !(emptiest..self.end).any(|at| disjoint(seed, span(self.pool, at as u32)))
    }

    /// Judges the complete trial group, then starts another or stops.
    pub(super) fn next_trial(&mut self) {
        if self.trial.len > 0 && slots(&self.trial.taken) > slots(&self.best.taken) {
            self.best = self.trial;
        }
        if self.trials == self.trial_limit().min(self.fits_len) || self.best.taken == self.used {
            return self.close_group();
        }
        (self.trial.len, self.peers_len, self.searched) = (0, 0, 0);
        self.trial.taken = *span(self.pool, self.seed as u32);
        self.add(self.fits[self.trials]);
        self.trials += 1;
        self.phase = Phase::Grow;
    }

    fn trial_limit(&self) -> usize {
        (TRIALS * WINDOW / self.window_spans.max(1)).clamp(TRIALS, MOST_TRIALS)
    }

    /// Brings the trial group a step further.
    pub(super) fn grow(&mut self) -> usize {
        let is_full = self.trial.taken == self.used;
        if !is_full && self.peers_len < PEERS && self.searched < self.fits_len {
            return self.find_peers();
        }
        if is_full || self.peers_len == 0 {
            self.next_trial();
        } else {
            self.add(pick::<W>(self.pool, &self.peers[..self.peers_len]));
        }
        CHOICES * PEERS
    }

    fn find_peers(&mut self) -> usize {
        let to = self.fits_len.min(self.searched + CHUNK);
        let (mut len, taken) = (self.peers_len, self.trial.taken);
        let mut tests = 0;
        for &at in &self.fits[self.searched..to] {
            self.peers[len] = at;
            len += disjoint(&taken, span(self.pool, at)) as usize;
            tests += 1;
            if len == PEERS {
                break;
            }
        }
        self.peers_len = len;
        self.searched += tests;
        tests
    }

    /// Adds a member to the trial group and drops the peers that overlap it,
    /// among them the member itself.
    fn add(&mut self, at: u32) {
        let member = span::<W>(self.pool, at);
        self.trial.members[self.trial.len] = at;
        self.trial.len += 1;
        (0..W).for_each(|i| self.trial.taken[i] |= member[i]);
        let mut len = 0;
        for i in 0..self.peers_len {
            self.peers[len] = self.peers[i];
            len += disjoint(member, span(self.pool, self.peers[i])) as usize;
        }
        self.peers_len = len;
    }

    /// Links the seed and the members of the best trial. The first group also
    /// takes the empty spans.
    fn close_group(&mut self) {
        let mut last = replace(&mut self.order[self.base + self.seed], NONE);
        self.order[self.groups] = last;
        self.groups += 1;
        self.seed += 1;
        for &at in &self.best.members[..self.best.len] {
            let id = replace(&mut self.order[self.base + at as usize], NONE);
            self.pool[at as usize * W..][..W].fill(u64::MAX);
            self.next[last as usize] = id;
            last = id;
        }
        self.next[last as usize] = replace(&mut self.empty, NONE);
        self.gaps += self.best.len;
        self.next_seed();
    }
}
