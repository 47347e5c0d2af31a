//! What the scenarios do before they are idle.

use core::time::Duration;

use super::fill::Fill;
use super::idle::Pause;
use super::kept::Kept;

/// Bytes of all objects of `power-law` and `all-freed`.
const POWER_LAW_BYTES: usize = 300 << 20;

/// The most bytes of strings that live in `doubling`.
const DOUBLING_BYTES: usize = 128 << 20;

/// Their sizes: the first, and by how many bits the last is larger.
const FIRST_STRING: usize = 64;
const DOUBLINGS: u32 = 10; // up to 64 KiB

/// One in so many survives, of those just made and of those that survived before.
const SURVIVOR_IN: usize = 4;

/// As in the Ruby program that this is modelled on, which then collects its garbage.
const GENERATION_PAUSE: Duration = Duration::from_millis(200);

fn scaled(bytes: usize, scale: f64) -> usize {
    (bytes as f64 * scale) as usize
}

pub(super) fn power_law_room(scale: f64) -> usize {
    Fill::power_law(scaled(POWER_LAW_BYTES, scale)).count()
}

pub(super) fn power_law(kept: &mut Kept, scale: f64, _: Pause) {
    Fill::power_law(scaled(POWER_LAW_BYTES, scale)).into(kept);
    kept.thin(10);
}

pub(super) fn all_freed(kept: &mut Kept, scale: f64, _: Pause) {
    Fill::power_law(scaled(POWER_LAW_BYTES, scale)).into(kept);
    kept.free_all();
}

pub(super) fn doubling_room(scale: f64) -> usize {
    scaled(DOUBLING_BYTES, scale) / FIRST_STRING
}

pub(super) fn doubling(kept: &mut Kept, scale: f64, pause: Pause) {
    generations(kept, scale, |kept| {
        kept.keep_every(SURVIVOR_IN);
        pause.of(GENERATION_PAUSE);
    });
}

pub(super) fn doubling_nonstop(kept: &mut Kept, scale: f64, _: Pause) {
    generations(kept, scale, |kept| kept.keep_every(SURVIVOR_IN));
}

/// At random, a quarter of a page of 64 strings hardly ever fits together with another.
pub(super) fn doubling_random(kept: &mut Kept, scale: f64, pause: Pause) {
    generations(kept, scale, |kept| {
        kept.thin(SURVIVOR_IN);
        pause.of(GENERATION_PAUSE);
    });
}

fn generations(kept: &mut Kept, scale: f64, thin: impl Fn(&mut Kept)) {
    for doublings in 0..=DOUBLINGS {
        let size = FIRST_STRING << doublings;
        while kept.live_bytes() + size <= scaled(DOUBLING_BYTES, scale) {
            kept.add(size);
        }
        thin(kept);
    }
}
