//! The one file that names atomics, `UnsafeCell`, `spin` or `loom`. With `--cfg loom` and the feature `loom` all of it is
//! loom's, so that models run on the real source.
//!
//! # Locks and their order
//!
//! | rank, outermost first | guards |
//! |---|---|
//! | `MeshPass` | the pass's cursor and plan |
//! | `SizeClass(c)`, ascending | class `c`'s lists, depot, and the records and bitmaps of its spans |
//! | `Pins` | which objects are pinned |
//! | `PageHeap` | free runs, large objects' records, mappings; with the class lock: which class a page belongs to |
//! | `Metadata` | the pool |
//! | `Platform` | the simulated platform's table; as any lock of a platform's own, a leaf |
//! | `Merged` | the list of merged heaps; a leaf, held for looks at it only |
//!
//! The feature `check` asserts the order at each lock.

pub(crate) use inner::{AtomicU8, AtomicUsize, Mutex, MutexGuard, Ordering, UnsafeCell, fence};

/// Declares a function that is `const`, unless it makes loom's atomics.
macro_rules! const_unless_loom {
    ($(#[$attribute:meta])* $visibility:vis fn $($rest:tt)*) => {
        $(#[$attribute])*
        #[cfg(not(all(loom, feature = "loom")))]
        $visibility const fn $($rest)*
        $(#[$attribute])*
        #[cfg(all(loom, feature = "loom"))]
        $visibility fn $($rest)*
    };
}
pub(crate) use const_unless_loom;

/// A place in the lock order. See the table above.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Rank {
    MeshPass,
    SizeClass(u8),
    Pins,
    PageHeap,
    Metadata,
    #[cfg(feature = "simulated")]
    Platform,
    #[cfg(feature = "alloc")]
    Merged,
}

/// What to do while another thread holds a lock: the platform yields.
pub(crate) trait Relax {
    #[cfg_attr(all(loom, feature = "loom"), expect(dead_code, reason = "loom's locks block in its scheduler"))]
    fn relax(&self);
}

#[cfg(not(all(loom, feature = "loom")))]
mod inner {
    use super::{Rank, Relax, held};
    use core::ops::{Deref, DerefMut};

    pub(crate) use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering, fence};

    /// Tries before the waiter yields: a class lock is held for some 100 ns, about this many pauses.
    const SPINS_BEFORE_YIELD: u32 = 64;

    /// A cell with loom's interface.
    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub(crate) struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(core::cell::UnsafeCell::new(value))
        }

        #[inline]
        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        #[inline]
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }

    /// A ranked lock that spins a little, then yields through the platform.
    #[derive(Debug)]
    pub(crate) struct Mutex<T> {
        rank: Rank,
        lock: spin::mutex::SpinMutex<T>,
    }

    /// Holds a [`Mutex`].
    pub(crate) struct MutexGuard<'a, T> {
        guard: spin::mutex::SpinMutexGuard<'a, T>,
        _held: held::Held,
    }

    impl<T> Mutex<T> {
        pub(crate) fn new(rank: Rank, value: T) -> Self {
            Self { rank, lock: spin::mutex::SpinMutex::new(value) }
        }

        #[inline]
        pub(crate) fn lock(&self, waiter: &impl Relax) -> MutexGuard<'_, T> {
            let held = held::Held::new(self.rank);
            loop {
                for _ in 0..SPINS_BEFORE_YIELD {
                    if let Some(guard) = self.lock.try_lock() {
                        return MutexGuard { guard, _held: held };
                    }
                    core::hint::spin_loop();
                }
                waiter.relax();
            }
        }

        /// Locks, and stays locked until [`Mutex::unlock_after_fork`].
        pub(crate) fn lock_for_fork(&self, waiter: &impl Relax) {
            core::mem::forget(self.lock(waiter));
        }

        /// Unlocks what [`Mutex::lock_for_fork`] locked.
        ///
        /// # Safety
        /// The calling thread (or in a child process, the thread that it continues) must have called that.
        pub(crate) unsafe fn unlock_after_fork(&self) {
            held::Held::forget(self.rank);
            // SAFETY: by the caller's contract the lock is held, and its guard was forgotten.
            unsafe { self.lock.force_unlock() };
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            let guard = self.lock.try_lock()?;
            Some(MutexGuard { guard, _held: held::Held::new(self.rank) })
        }

        pub(crate) fn get_mut(&mut self) -> &mut T {
            self.lock.get_mut()
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;
        #[inline]
        fn deref(&self) -> &T {
            &self.guard
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        #[inline]
        fn deref_mut(&mut self) -> &mut T {
            &mut self.guard
        }
    }
}

#[cfg(all(loom, feature = "loom"))]
mod inner {
    use super::{Rank, Relax, held};
    use core::ops::{Deref, DerefMut};

    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::atomic::{AtomicU8, AtomicUsize, Ordering, fence};

    /// loom's lock, ranked. It blocks in loom's scheduler, so that no model spins.
    #[derive(Debug)]
    pub(crate) struct Mutex<T> {
        rank: Rank,
        lock: loom::sync::Mutex<T>,
    }

    /// Holds a [`Mutex`].
    pub(crate) struct MutexGuard<'a, T> {
        guard: loom::sync::MutexGuard<'a, T>,
        _held: held::Held,
    }

    impl<T> Mutex<T> {
        pub(crate) fn new(rank: Rank, value: T) -> Self {
            Self { rank, lock: loom::sync::Mutex::new(value) }
        }

        pub(crate) fn lock(&self, _waiter: &impl Relax) -> MutexGuard<'_, T> {
            let held = held::Held::new(self.rank);
            let guard = self.lock.lock().expect("loom's locks are never poisoned: a panic ends the model");
            MutexGuard { guard, _held: held }
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            let guard = self.lock.try_lock().ok()?;
            Some(MutexGuard { guard, _held: held::Held::new(self.rank) })
        }

        pub(crate) fn get_mut(&mut self) -> &mut T {
            self.lock.get_mut().expect("loom's locks are never poisoned: a panic ends the model")
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;
        fn deref(&self) -> &T {
            &self.guard
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            &mut self.guard
        }
    }
}

/// Which ranks this thread holds; asserts the order. One bit a rank, without allocation: the heap may be the global allocator.
#[cfg(feature = "check")]
mod held {
    use super::Rank;
    use core::cell::Cell;

    #[cfg(not(all(loom, feature = "loom")))]
    std::thread_local!(static HELD: Cell<u128> = const { Cell::new(0) });
    #[cfg(all(loom, feature = "loom"))]
    loom::thread_local!(static HELD: Cell<u128> = Cell::new(0));

    /// One held lock.
    pub(crate) struct Held(Rank);

    impl Held {
        pub(crate) fn new(rank: Rank) -> Self {
            let bit = Self::bit(rank);
            HELD.with(|held| {
                assert!(held.get() < bit, "lock order: {rank:?} asked for while holding ranks {:#x}", held.get());
                held.set(held.get() | bit);
            });
            Self(rank)
        }

        /// A lock of this rank is held no more.
        pub(crate) fn forget(rank: Rank) {
            HELD.with(|held| held.set(held.get() & !Self::bit(rank)));
        }

        /// Ascending with the rank.
        fn bit(rank: Rank) -> u128 {
            match rank {
                Rank::MeshPass => 1,
                Rank::SizeClass(class) => 2 << class,
                Rank::Pins => 1 << 123,
                Rank::PageHeap => 1 << 124,
                Rank::Metadata => 1 << 125,
                #[cfg(feature = "simulated")]
                Rank::Platform => 1 << 126,
                #[cfg(feature = "alloc")]
                Rank::Merged => 1 << 127,
            }
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            Self::forget(self.0);
        }
    }
}

/// Without the feature `check` nothing is recorded.
#[cfg(not(feature = "check"))]
mod held {
    /// Nothing.
    pub(crate) struct Held;

    impl Held {
        #[inline]
        pub(crate) const fn new(_rank: super::Rank) -> Self {
            Self
        }

        #[cfg(not(all(loom, feature = "loom")))]
        pub(crate) const fn forget(_rank: super::Rank) {}
    }
}

/// Lets others go on, while one of them has to be waited for that holds no lock.
pub(crate) fn wait_a_little(waiter: &impl Relax) {
    #[cfg(not(all(loom, feature = "loom")))]
    waiter.relax();
    #[cfg(all(loom, feature = "loom"))]
    {
        let _ = waiter;
        loom::thread::yield_now();
    }
}

#[cfg(feature = "loom")]
pub(crate) mod exploring;

/// What models and other tests of races run on: loom's threads and its search under loom, plain threads and one run else.
#[cfg(test)]
pub(crate) mod testing {
    #[cfg(all(loom, feature = "loom"))]
    pub(crate) use loom::{sync::Arc, thread};
    #[cfg(not(all(loom, feature = "loom")))]
    pub(crate) use std::{sync::Arc, thread};

    /// Runs `body` once, or under loom once for each interleaving of its threads.
    pub(crate) fn model(body: impl Fn() + Sync + Send + 'static) {
        #[cfg(all(loom, feature = "loom"))]
        super::exploring::explore(body);
        #[cfg(not(all(loom, feature = "loom")))]
        body();
    }
}
