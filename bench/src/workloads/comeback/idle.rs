//! Time in which a program has nothing to do.

use core::hint::black_box;
use core::time::Duration;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// How often a timer of the program's goes off.
const TICK: Duration = Duration::from_millis(100);

/// What it allocates and frees at once: a name, a few small buffers, a line to write.
const TICK_SIZES: [usize; 6] = [24, 40, 100, 300, 1000, 8192];

/// Lets time pass: this thread sleeps, but for a timer that allocates and frees a handful of objects ten times a second. An
/// allocator without a thread of its own gets to do something only then.
#[derive(Clone, Copy)]
pub(super) struct Pause;

impl Pause {
    pub(super) fn of(self, time: Duration) {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::sleep(left.min(TICK));
            black_box(TICK_SIZES.map(|size| vec![1_u8; size]));
        }
    }
}

/// A thread that sleeps for as long as this lives.
pub(super) struct Sleeper {
    door: Option<Sender<()>>,
    thread: Option<JoinHandle<bool>>,
}

impl Sleeper {
    pub(super) fn new() -> Self {
        let (door, closed) = channel();
        // Ends when the door is gone.
        let thread = thread::spawn(move || closed.recv().is_err());
        Self { door: Some(door), thread: Some(thread) }
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        drop(self.door.take());
        if let Some(thread) = self.thread.take() {
            let woken_by_the_end = thread.join().expect("a thread that sleeps does not panic");
            assert!(woken_by_the_end);
        }
    }
}
