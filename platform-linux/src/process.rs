//! One heap for the whole process: what [`MeshHeap`](crate::MeshHeap) and the preloaded library are built on.
//!
//! ```text
//!   alloc ──▶ this thread's local heap ──(slow paths)──▶ the heap
//!             none yet: make one                          ▲
//!             gone already (late destructors) ────────────┘  a lock for each call
//! ```
//!
//! The heap is made at the first allocation, before `main` if need be, and lives in memory that is private until it is meshed, and
//! again before a fork: a fork copies it on write.
//! A thread's local heap is an object of the heap; a pthread key's destructor gives it back.

use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};

use meshheap::{Heap, LocalHeap, MeshBudget, MeshStep, Options, Platform};

use crate::barrier::WriteBarrier;
use crate::hybrid::HybridPlatform;
use crate::meshing::{Meshing, Policy};
use crate::scheduler;

/// The heap of a process.
pub type SharedHeap = Heap<HybridPlatform>;
/// One thread's handle to it.
pub type ThreadHeap = LocalHeap<&'static SharedHeap>;

/// Bytes that one thread may keep, unless the program wishes otherwise. Programs use dozens of sizes in turn, and each trip to
/// the shared spans costs as much as dozens of objects: with 64 KiB a thread, mixed sizes take twice the time. Threads that
/// allocate little keep little.
pub const LOCAL_HEAP_BYTES: usize = 1 << 20; // 1 MiB

/// No local heap any more.
const GONE: *mut ThreadHeap = ptr::without_provenance_mut(1);

/// There is no heap.
const NONE: u8 = 0;
/// One thread makes it.
const MAKING: u8 = 1;
/// There is one, for ever.
const READY: u8 = 2;

/// Where a process's heap is kept: a static.
pub struct HeapCell {
    phase: AtomicU8,
    heap: UnsafeCell<MaybeUninit<SharedHeap>>,
    /// The pthread key whose destructor gives local heaps back, plus 1; 0: there is none.
    key: AtomicU32,
    /// The thread that forks, from the heap's handler before the fork to the one after it, by [`thread_mark`]; 0: none does. Others
    /// wait for it before they take any lock: it lets the heap's go for a while, when handlers that hold locks of their own
    /// allocate, and must get them back from nobody who waits for these.
    forker: AtomicUsize,
    /// The thread that holds all locks for a fork, by [`thread_mark`]; 0: none does.
    forking: AtomicUsize,
    /// Forks before which meshed pages could not be made private.
    refused_forks: AtomicUsize,
    policy: Policy,
}

// SAFETY: `heap` is written by the one thread that moved `phase` to MAKING, and only read from READY on.
unsafe impl Sync for HeapCell {}

impl fmt::Debug for HeapCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeapCell").field("phase", &self.phase).finish_non_exhaustive()
    }
}

impl HeapCell {
    /// Without a heap yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            phase: AtomicU8::new(NONE),
            heap: UnsafeCell::new(MaybeUninit::uninit()),
            key: AtomicU32::new(0),
            forker: AtomicUsize::new(0),
            forking: AtomicUsize::new(0),
            refused_forks: AtomicUsize::new(0),
            policy: Policy::new(),
        }
    }

    /// The heap, if it was made already.
    #[inline]
    pub fn made(&'static self) -> Option<&'static SharedHeap> {
        // Acquire: pairs with the Release in `make`.
        if self.phase.load(Ordering::Acquire) != READY {
            return None;
        }
        // SAFETY: from READY on the cell does not change.
        let heap = unsafe { &*self.heap.get() };
        // SAFETY: READY says that it was written.
        Some(unsafe { heap.assume_init_ref() })
    }

    /// Makes a call that may need the heap's locks. Between the handlers before and after a fork the forking thread holds them
    /// all, and the program's own handlers may allocate: it lets go of them for the call. That is harmless: before the fork,
    /// others get in once more; after it, this side is whole, and is locked again only until its own handler.
    #[inline]
    pub fn with_locks<T>(&'static self, call: impl FnOnce() -> T) -> T {
        // Relaxed: only the thread that wrote its own mark can meet it.
        let forking = self.forking.load(Ordering::Relaxed);
        if forking != 0 && forking == thread_mark() {
            return self.with_locks_in_fork(call);
        }
        let outcome = call();
        if let Some(heap) = self.made() {
            self.policy.poll(heap);
        }
        outcome
    }

    #[cold]
    #[inline(never)]
    fn with_locks_in_fork<T>(&'static self, call: impl FnOnce() -> T) -> T {
        self.unlock_after_fork();
        let outcome = call();
        self.lock_for_fork();
        outcome
    }

    /// For slow paths that allocate, after [`HeapCell::with_locks`]: starts the thread that meshes, if there should be one.
    #[inline]
    pub fn start_thread_if_wanted(&'static self) {
        if let Some(heap) = self.made() {
            self.policy.start_thread_if_wanted(heap);
        }
    }

    /// One step of meshing, beside whatever threads there are; none if there is no heap, no thread can be started for the
    /// step, or the kernel keeps pages of the process for long, such as buffers that were registered with `io_uring`.
    pub fn mesh(&'static self, budget: MeshBudget) -> Option<MeshStep> {
        self.policy.step_on_request(self.made()?, budget)
    }

    /// Forks so far before which the system refused to make meshed pages private: their children share these with the parent.
    pub fn refused_forks(&self) -> usize {
        // Relaxed: a statistic.
        self.refused_forks.load(Ordering::Relaxed)
    }

    fn begin_fork(&'static self) {
        let mark = thread_mark();
        // Acquire: pairs with the Release of the last forker. Bounded by its fork.
        while let Err(forker) = self.forker.compare_exchange(0, mark, Ordering::Acquire, Ordering::Relaxed) {
            if forker == mark {
                // A signal handler forks between this thread's handlers: the locks are held already, or it may not wait.
                return;
            }
            scheduler::yield_now();
        }
        self.lock_for_fork();
    }

    fn end_fork(&'static self) {
        self.unlock_after_fork();
        // Release: pairs with the Acquire of the next forker. Refused: the handler before the fork did not lock.
        let _ = self.forker.compare_exchange(thread_mark(), 0, Ordering::Release, Ordering::Relaxed);
    }

    fn lock_for_fork(&'static self) {
        if let Some(heap) = self.made() {
            // Refused, the child shares what was meshed with its parent: there is nobody to tell, but it is counted.
            if heap.fork_prepare().is_err() {
                self.refused_forks.fetch_add(1, Ordering::Relaxed);
            }
            // Relaxed: see `with_locks`.
            self.forking.store(thread_mark(), Ordering::Relaxed);
        }
    }

    fn unlock_after_fork(&'static self) {
        // Relaxed: see `with_locks`. Another mark: the handler before the fork did not lock.
        if self.forking.load(Ordering::Relaxed) != thread_mark() {
            return;
        }
        if let Some(heap) = self.made() {
            self.forking.store(0, Ordering::Relaxed);
            // SAFETY: the mark tells that `lock_for_fork` ran in this thread.
            unsafe { heap.fork_done() };
        }
    }
}

/// A number that differs between threads, and that a fork keeps.
fn thread_mark() -> usize {
    // SAFETY: takes no arguments.
    unsafe { libc::__errno_location() }.addr()
}

impl Default for HeapCell {
    fn default() -> Self {
        Self::new()
    }
}

/// A process's heap: where it is kept, how it is set up, and each thread's pointer to its local heap.
///
/// # Safety
/// [`ProcessHeap::cell`] must always give the same cell, which no other type uses. The pointer of
/// [`ProcessHeap::local_pointer`] must be the calling thread's own: null at first, then what
/// [`ProcessHeap::set_local_pointer`] was last given. Neither may allocate.
pub unsafe trait ProcessHeap: Sized + 'static {
    /// Where the heap is kept.
    fn cell() -> &'static HeapCell;

    /// How it is set up; asked when it is made. Must not allocate.
    fn options() -> Options;

    /// Whether and how it is meshed; asked after the options. Must not allocate.
    fn meshing() -> Meshing {
        Meshing::default()
    }

    /// How writers are stopped meanwhile; none: by the first barrier that works, when it is needed.
    fn barrier() -> Option<WriteBarrier> {
        None
    }

    /// Bytes of the heap whose pages are small; none: as many as the platform thinks right. Asked when the heap is made.
    fn small_pages_bytes() -> Option<usize> {
        None
    }

    /// How many eighths of the mappings that the system allows a process meshing may use, unless the options say otherwise: the
    /// program's only heap may have more than one among many, but the program needs some, too.
    fn mapping_eighths() -> usize {
        5
    }

    /// The calling thread's pointer.
    fn local_pointer() -> *mut ThreadHeap;

    /// Sets the calling thread's pointer.
    fn set_local_pointer(local: *mut ThreadHeap);

    /// Whether the calling thread may hold locks of the heap already: a signal handler has interrupted it there, and forks. Its
    /// child goes on with what was interrupted, as the parent does. Who cannot tell says no, and such a fork waits for ever.
    fn is_inside() -> bool {
        false
    }

    /// Notes whether it may, for the end of a thread, which calls the heap by itself. Nothing to do for who cannot tell.
    fn set_inside(_inside: bool) {}

    /// The heap, made at the first call; none if the system has no room for it.
    #[inline]
    fn heap() -> Option<&'static SharedHeap> {
        Self::cell().made().or_else(make::<Self>)
    }

    /// The thread's local heap if it has one. The reference must not outlive the call of the allocator that asked for it.
    #[inline]
    fn local_at_hand() -> Option<&'static mut ThreadHeap> {
        let local = Self::local_pointer();
        // SAFETY: the local heap is this thread's alone. No second reference exists: none outlives a call of the allocator,
        // and no call of the heap calls the allocator again.
        if local.addr() > GONE.addr() { Some(unsafe { &mut *local }) } else { None }
    }

    /// The thread's local heap, made if it has none yet; none if it is gone already or there is no memory.
    fn local() -> Option<&'static mut ThreadHeap> {
        Self::local_at_hand().or_else(|| {
            make_local::<Self>()?;
            Self::local_at_hand()
        })
    }
}

#[cold]
#[inline(never)]
fn make<P: ProcessHeap>() -> Option<&'static SharedHeap> {
    let cell = P::cell();
    // Acquire: pairs with the Release of a maker that failed, or that succeeded meanwhile.
    if cell.phase.compare_exchange(NONE, MAKING, Ordering::Acquire, Ordering::Acquire).is_err() {
        // Another thread makes it: a few system calls. Bounded by these.
        while cell.phase.load(Ordering::Acquire) == MAKING {
            scheduler::yield_now();
        }
        return cell.made();
    }
    let mut options = P::options();
    let meshing = P::meshing();
    let platform = match (meshing, P::barrier()) {
        (Meshing::Off, _) => HybridPlatform::without_meshing(),
        (_, Some(barrier)) => HybridPlatform::with_barrier(barrier),
        (_, None) => HybridPlatform::with_write_barrier(),
    };
    let platform = match P::small_pages_bytes() {
        Some(bytes) => platform.with_small_pages_up_to(bytes),
        None => platform,
    };
    cell.policy.set(meshing, P::barrier());
    // The program's only heap may take more of the mappings than one among many.
    let most = platform.facts().mapping_limit.map(|limit| limit / 8 * P::mapping_eighths());
    options.mapping_budget = options.mapping_budget.or(most);
    let Ok(made) = Heap::with_options(platform, options) else {
        cell.phase.store(NONE, Ordering::Release);
        return None;
    };
    // SAFETY: in the phase MAKING, which this thread began, the cell is its own.
    unsafe { (*cell.heap.get()).write(made) };
    let mut key = 0;
    // SAFETY: the destructor takes what `make_local` stores under the key.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(drop_local::<P>)) } == 0 {
        // Relaxed: published with the phase.
        cell.key.store(key + 1, Ordering::Relaxed);
    }
    // Release: pairs with the Acquire in `made`.
    cell.phase.store(READY, Ordering::Release);
    // May allocate, so only now.
    // SAFETY: the handlers keep to the order prepare, fork, done.
    unsafe { libc::pthread_atfork(Some(fork_prepare::<P>), Some(fork_done::<P>), Some(fork_child::<P>)) };
    cell.made()
}

extern "C" fn fork_prepare<P: ProcessHeap>() {
    if !P::is_inside() {
        P::cell().begin_fork();
    }
}

extern "C" fn fork_done<P: ProcessHeap>() {
    P::cell().end_fork();
}

extern "C" fn fork_child<P: ProcessHeap>() {
    P::cell().end_fork();
    // Another thread may have been about to fork, too. It is gone.
    // Relaxed: there is no other thread.
    P::cell().forker.store(0, Ordering::Relaxed);
    P::cell().policy.begin_again_in_child();
}

/// Makes the thread's local heap; none if it is gone already or there is no memory.
#[cold]
#[inline(never)]
fn make_local<P: ProcessHeap>() -> Option<()> {
    if P::local_pointer() == GONE {
        return None;
    }
    let heap = P::heap()?;
    let memory: *mut ThreadHeap = heap.alloc(Layout::new::<ThreadHeap>()).ok()?.cast().as_ptr();
    // SAFETY: the memory was just allocated for this.
    unsafe { memory.write(heap.local()) };
    P::set_local_pointer(memory);
    // Relaxed: published with the phase, which `heap` acquired.
    let key = P::cell().key.load(Ordering::Relaxed);
    if key != 0 {
        // May allocate, so only now. If it fails, the local heap leaks with its thread.
        // SAFETY: the key was created by `make`.
        unsafe { libc::pthread_setspecific(key - 1, memory.cast::<c_void>()) };
    }
    Some(())
}

/// Ends a thread's local heap. Allocations of later destructors go to the heap directly.
extern "C" fn drop_local<P: ProcessHeap>(memory: *mut c_void) {
    let was_inside = P::is_inside();
    P::set_inside(true);
    P::set_local_pointer(GONE);
    let local: *mut ThreadHeap = memory.cast();
    // SAFETY: `make_local` wrote it, and nobody uses it from now on.
    unsafe { local.drop_in_place() };
    if let (Some(heap), Some(memory)) = (P::cell().made(), NonNull::new(memory.cast::<u8>())) {
        // SAFETY: `make_local` allocated it with this layout.
        unsafe { heap.dealloc(memory, Layout::new::<ThreadHeap>()) };
    }
    P::set_inside(was_inside);
}

#[cfg(all(test, feature = "global"))]
mod tests {
    use core::alloc::Layout;
    use core::cell::Cell;
    use core::ptr;
    use std::sync::Mutex;
    use std::thread;

    use meshheap::Options;

    use super::{HeapCell, ProcessHeap, ThreadHeap, fork_done, fork_prepare};

    struct Test;

    const LAYOUT: Layout = Layout::new::<u64>();

    static CELL: HeapCell = HeapCell::new();

    std::thread_local!(static LOCAL: Cell<*mut ThreadHeap> = const { Cell::new(ptr::null_mut()) });

    // SAFETY: the cell is this type's alone, and so are the threads' pointers.
    unsafe impl ProcessHeap for Test {
        fn cell() -> &'static HeapCell {
            &CELL
        }

        fn options() -> Options {
            Options { arena_bytes: 64 << 20, ..Options::default() }
        }

        fn local_pointer() -> *mut ThreadHeap {
            LOCAL.get()
        }

        fn set_local_pointer(local: *mut ThreadHeap) {
            LOCAL.set(local);
        }
    }

    /// The C library may run the handlers of two forks beside each other.
    #[test]
    fn forks_whose_handlers_allocate_while_they_hold_a_lock_do_not_wait_for_each_other() {
        let heap = Test::heap().expect("there is room");
        let lock = Mutex::new(());
        let fork = || {
            fork_prepare::<Test>();
            let held = lock.lock().expect("nobody panics");
            for _ in 0..3 {
                // Handlers that allocate: the heap's locks are let go and taken again.
                CELL.with_locks(|| {
                    for _ in 0..50 {
                        assert!(heap.statistics().taken_bytes < 1 << 20);
                        thread::yield_now();
                    }
                });
            }
            drop(held);
            fork_done::<Test>();
        };
        thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(|| (0..100).for_each(|_| fork())))));
        assert!(heap.alloc(LAYOUT).is_ok(), "no lock is left held");
    }
}
