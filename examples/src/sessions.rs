//! What runs on the executor: sessions that live long, and a storm of tasks that do not.

use core::pin::Pin;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Mutex, PoisonError};

use meshheap::AllocError;
use meshheap_executor::{Executor, Memory, Spawner};

/// What the server has told a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Word {
    Nothing,
    /// Go.
    Close,
    /// Add what you hold to the sum, and stay.
    Report,
}

/// Where a session waits.
#[derive(Debug)]
struct Door {
    word: Word,
    waker: Option<Waker>,
}

#[derive(Debug)]
struct Hall {
    doors: Vec<Mutex<Door>>,
    sum: AtomicU64,
    reports: AtomicUsize,
}

/// Many sessions on one executor.
#[derive(Clone, Debug)]
pub struct Sessions(Arc<Hall>);

/// Waits at a door until there is a word.
struct Knock<'h>(&'h Mutex<Door>);

impl Future for Knock<'_> {
    type Output = Word;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Word> {
        let mut door = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match core::mem::replace(&mut door.word, Word::Nothing) {
            Word::Nothing => {
                door.waker = Some(context.waker().clone());
                Poll::Pending
            }
            word => Poll::Ready(word),
        }
    }
}

impl Sessions {
    /// Spawns `count` sessions of several sizes. They wait as soon as the executor has run them.
    ///
    /// # Errors
    /// There is no memory.
    pub fn open<M: Memory>(executor: &Executor<M>, count: usize) -> Result<Self, AllocError> {
        let door = || Mutex::new(Door { word: Word::Nothing, waker: None });
        let hall = Arc::new(Hall {
            doors: (0..count).map(|_| door()).collect(),
            sum: AtomicU64::new(0),
            reports: AtomicUsize::new(0),
        });
        let (spawner, theirs) = (executor.spawner(), hall.clone());
        // Sessions are spawned by a worker, as an accept loop does it.
        executor.spawn(async move {
            for number in 0..count {
                let hall = theirs.clone();
                let spawned = match number % 4 {
                    0 => spawner.spawn(session::<6>(hall, number)),
                    1 => spawner.spawn(session::<14>(hall, number)),
                    2 => spawner.spawn(session::<30>(hall, number)),
                    _ => spawner.spawn(session::<60>(hall, number)),
                };
                if spawned.is_err() {
                    return;
                }
            }
        })?;
        Ok(Self(hall))
    }

    fn tell(&self, word: Word, whom: impl Fn(usize) -> bool) -> usize {
        let mut told = 0;
        for (_, door) in self.0.doors.iter().enumerate().filter(|&(number, _)| whom(number)) {
            let mut door = door.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(waker) = door.waker.take() {
                door.word = word;
                drop(door);
                waker.wake();
                told += 1;
            }
        }
        told
    }

    /// Sessions go, as if at random.
    pub fn close_nine_in_ten(&self) {
        self.tell(Word::Close, |number| number.wrapping_mul(0x9e37_79b9) / 64 % 10 != 0);
    }

    /// All sessions go. A session that waits is kept by its waker, which it keeps itself: without this, it would wait for ever.
    pub fn close_all(&self) {
        self.tell(Word::Close, |_| true);
    }

    /// Wakes every session that is left, and looks whether it still holds what it held.
    ///
    /// # Errors
    /// It does not.
    pub fn check<M: Memory>(&self, executor: &mut Executor<M>) -> Result<usize, String> {
        let told = self.tell(Word::Report, |_| true);
        executor.run_until_idle();
        let (reports, wrong) = (self.0.reports.load(Ordering::Relaxed), self.0.sum.load(Ordering::Relaxed));
        if (reports, wrong) == (told, 0) {
            Ok(told)
        } else {
            Err(format!("{told} sessions were asked, {reports} answered, {wrong} words had changed"))
        }
    }
}

/// What a session holds while it waits.
async fn session<const WORDS: usize>(hall: Arc<Hall>, number: usize) {
    let state: [u64; WORDS] = core::array::from_fn(|index| (number * 64 + index) as u64);
    loop {
        match Knock(&hall.doors[number]).await {
            Word::Close | Word::Nothing => return,
            Word::Report => {
                let is_wrong = |(index, &word): (usize, &u64)| word != (number * 64 + index) as u64;
                let wrong = state.iter().enumerate().filter(|&entry| is_wrong(entry)).count();
                hall.sum.fetch_add(wrong as u64, Ordering::Relaxed);
                hall.reports.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Gives the others a turn, once.
struct Yield(bool);

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if core::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Spawns `count` tasks in waves, by a worker each wave; other workers steal them, run them, and free them. Returns how many
/// ran.
///
/// # Errors
/// There is no memory.
pub fn storm<M: Memory>(executor: &mut Executor<M>, count: usize) -> Result<usize, AllocError> {
    const WAVE: usize = 500;
    let ran = Arc::new(AtomicUsize::new(0));
    for wave in 0..8 {
        let waves = (count / WAVE + 7 - wave) / 8;
        let (spawner, ran) = (executor.spawner(), ran.clone());
        executor.spawn(async move {
            for _ in 0..waves {
                spawn_wave(&spawner, &ran, WAVE);
                Yield(false).await;
            }
        })?;
    }
    executor.run_until_idle();
    Ok(ran.load(Ordering::Relaxed))
}

fn spawn_wave<M: Memory>(spawner: &Spawner<M>, ran: &Arc<AtomicUsize>, count: usize) {
    for number in 0..count {
        let ran = ran.clone();
        let spawned = match number % 3 {
            0 => spawner.spawn(short::<4>(ran)),
            1 => spawner.spawn(short::<16>(ran)),
            _ => spawner.spawn(short::<40>(ran)),
        };
        if spawned.is_err() {
            return;
        }
    }
}

async fn short<const WORDS: usize>(ran: Arc<AtomicUsize>) {
    let state = [1_usize; WORDS];
    Yield(false).await;
    ran.fetch_add(state[WORDS / 2], Ordering::Relaxed);
}
