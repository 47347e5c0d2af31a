//! [`MeshHeap`]: one heap for the whole process, as a `GlobalAlloc`.
//!
//! ```text
//!   alloc ──▶ this thread's local heap ──(slow paths)──▶ the heap
//!             none yet: make one                          ▲
//!             gone already (late destructors) ────────────┘  a lock for each call
//! ```
//!
//! The heap is made at the first allocation, before `main` if need be, and lives in private memory: a fork copies it on write.
//! A thread's local heap is an object of the heap; a pthread key's destructor gives it back.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::{Cell, UnsafeCell};
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use meshheap::{Heap, LocalHeap, Options, Statistics};

use crate::private::PrivatePlatform;
use crate::scheduler;

type ProcessHeap = Heap<PrivatePlatform>;
type ThreadHeap = LocalHeap<&'static ProcessHeap>;

/// What one thread may keep. Programs use dozens of sizes in turn, and each trip to the shared spans costs as much as dozens
/// of objects: with 64 KiB a thread, mixed sizes take twice the time. Threads that allocate little keep little.
const LOCAL_HEAP_BYTES: usize = 1 << 20; // 1 MiB

/// The process's heap as its global allocator.
///
/// ```
/// #[global_allocator]
/// static GLOBAL: meshheap_linux::MeshHeap = meshheap_linux::MeshHeap::new();
///
/// assert_eq!("made on the heap".to_owned().len(), 16);
/// assert!(GLOBAL.statistics().is_some_and(|statistics| statistics.taken_bytes > 0));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct MeshHeap(());

impl MeshHeap {
    /// A handle; all handles are the same heap.
    #[must_use]
    pub const fn new() -> Self {
        Self(())
    }

    /// The heap's figures; none if no heap could be made.
    #[must_use]
    pub fn statistics(&self) -> Option<Statistics> {
        Some(heap()?.statistics())
    }

    /// Gives all free pages back to the system. Returns how many bytes; none if the system refused.
    #[must_use]
    pub fn purge(&self) -> Option<usize> {
        heap()?.purge().ok()
    }
}

/// There is no heap.
const NONE: u8 = 0;
/// One thread makes it.
const MAKING: u8 = 1;
/// There is one, for ever.
const READY: u8 = 2;

struct Global {
    phase: AtomicU8,
    heap: UnsafeCell<MaybeUninit<ProcessHeap>>,
    /// The pthread key whose destructor gives local heaps back, plus 1; 0: there is none.
    key: AtomicU32,
}

// SAFETY: `heap` is written by the one thread that moved `phase` to MAKING, and only read from READY on.
unsafe impl Sync for Global {}

static GLOBAL: Global =
    Global { phase: AtomicU8::new(NONE), heap: UnsafeCell::new(MaybeUninit::uninit()), key: AtomicU32::new(0) };

std::thread_local! {
    /// The thread's local heap: null before the first use, [`GONE`] after its destructor. Without a destructor of its own, so
    /// that an access registers nothing and allocates nothing.
    static LOCAL: Cell<*mut ThreadHeap> = const { Cell::new(ptr::null_mut()) };
}

/// No local heap any more.
const GONE: *mut ThreadHeap = ptr::without_provenance_mut(1);

/// The heap, made at the first call; none if the system has no room for it.
#[inline]
fn heap() -> Option<&'static ProcessHeap> {
    // Acquire: pairs with the Release in `make_heap`.
    if GLOBAL.phase.load(Ordering::Acquire) == READY {
        // SAFETY: from READY on the cell does not change.
        let heap = unsafe { &*GLOBAL.heap.get() };
        // SAFETY: READY says that it was written.
        return Some(unsafe { heap.assume_init_ref() });
    }
    make_heap()
}

#[cold]
fn make_heap() -> Option<&'static ProcessHeap> {
    // Acquire: pairs with the Release of a maker that failed, or that succeeded meanwhile.
    match GLOBAL.phase.compare_exchange(NONE, MAKING, Ordering::Acquire, Ordering::Acquire) {
        Ok(_) => {
            let options = Options { local_heap_bytes: LOCAL_HEAP_BYTES, ..Options::default() };
            let Ok(made) = Heap::with_options(PrivatePlatform::new(), options) else {
                GLOBAL.phase.store(NONE, Ordering::Release);
                return None;
            };
            // SAFETY: in the phase MAKING, which this thread began, the cell is its own.
            unsafe { (*GLOBAL.heap.get()).write(made) };
            let mut key = 0;
            // SAFETY: the destructor takes what `make_local` stores under the key.
            if unsafe { libc::pthread_key_create(&raw mut key, Some(drop_local)) } == 0 {
                // Relaxed: published with the phase.
                GLOBAL.key.store(key + 1, Ordering::Relaxed);
            }
            // Release: pairs with the Acquire in `heap`.
            GLOBAL.phase.store(READY, Ordering::Release);
            // May allocate, so only now.
            // SAFETY: the handlers keep to the order prepare, fork, done.
            unsafe { libc::pthread_atfork(Some(fork_prepare), Some(fork_done), Some(fork_done)) };
            heap()
        }
        Err(_) => {
            // Another thread makes it: a few system calls. Bounded by these.
            while GLOBAL.phase.load(Ordering::Acquire) == MAKING {
                scheduler::yield_now();
            }
            heap()
        }
    }
}

extern "C" fn fork_prepare() {
    if let Some(heap) = heap() {
        heap.fork_prepare();
    }
}

extern "C" fn fork_done() {
    if let Some(heap) = heap() {
        // SAFETY: `fork_prepare` ran in this thread just before the fork.
        unsafe { heap.fork_done() };
    }
}

/// Makes the thread's local heap; none if it is gone already or there is no memory.
#[cold]
#[inline(never)]
fn make_local() -> Option<()> {
    if LOCAL.get() == GONE {
        return None;
    }
    let heap = heap()?;
    let memory: *mut ThreadHeap = heap.alloc(Layout::new::<ThreadHeap>()).ok()?.cast().as_ptr();
    // SAFETY: the memory was just allocated for this.
    unsafe { memory.write(heap.local()) };
    LOCAL.set(memory);
    // Relaxed: published with the phase, which `heap` acquired.
    let key = GLOBAL.key.load(Ordering::Relaxed);
    if key != 0 {
        // May allocate, so only now. If it fails, the local heap leaks with its thread: at most [`LOCAL_HEAP_BYTES`].
        // SAFETY: the key was created by `make_heap`.
        unsafe { libc::pthread_setspecific(key - 1, memory.cast::<c_void>()) };
    }
    Some(())
}

/// Ends a thread's local heap. Allocations of later destructors go to the heap directly.
extern "C" fn drop_local(memory: *mut c_void) {
    LOCAL.set(GONE);
    let local: *mut ThreadHeap = memory.cast();
    // SAFETY: `make_local` wrote it, and nobody uses it from now on.
    unsafe { local.drop_in_place() };
    if let (Some(heap), Some(memory)) = (heap(), NonNull::new(memory.cast::<u8>())) {
        // SAFETY: `make_local` allocated it with this layout.
        unsafe { heap.dealloc(memory, Layout::new::<ThreadHeap>()) };
    }
}

/// The thread's local heap if it has one.
#[inline]
fn local_at_hand() -> Option<&'static mut ThreadHeap> {
    let local = LOCAL.get();
    // SAFETY: the local heap is this thread's alone. No second reference exists: none outlives a call of the allocator, and
    // no call of the heap calls the allocator again.
    if local.addr() > GONE.addr() { Some(unsafe { &mut *local }) } else { None }
}

/// The thread's local heap, made if it has none yet.
fn local() -> Option<&'static mut ThreadHeap> {
    local_at_hand().or_else(|| {
        make_local()?;
        local_at_hand()
    })
}

fn address(object: Result<NonNull<u8>, meshheap::AllocError>) -> *mut u8 {
    object.map_or(ptr::null_mut(), NonNull::as_ptr)
}

#[cold]
#[inline(never)]
fn alloc_slow(layout: Layout) -> *mut u8 {
    match local() {
        Some(local) => address(local.alloc(layout)),
        None => heap().map_or(ptr::null_mut(), |heap| address(heap.alloc(layout))),
    }
}

/// # Safety
/// As for `dealloc`.
#[cold]
#[inline(never)]
unsafe fn dealloc_slow(object: NonNull<u8>, layout: Layout) {
    match local() {
        // SAFETY: the caller keeps the same contract.
        Some(local) => unsafe { local.dealloc(object, layout) },
        // SAFETY: as above.
        None => heap().into_iter().for_each(|heap| unsafe { heap.dealloc(object, layout) }),
    }
}

// SAFETY: objects come from a heap that is never dropped; layouts are kept; nothing unwinds.
unsafe impl GlobalAlloc for MeshHeap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match local_at_hand().and_then(|local| local.alloc_cached(layout)) {
            Some(object) => object.as_ptr(),
            None => alloc_slow(layout),
        }
    }

    #[inline]
    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        // SAFETY: by the trait's contract the object is live, so not null.
        let object = unsafe { NonNull::new_unchecked(object) };
        // SAFETY: by the trait's contract the object is live and has this layout.
        if !local_at_hand().is_some_and(|local| unsafe { local.dealloc_cached(object, layout) }) {
            // SAFETY: as above.
            unsafe { dealloc_slow(object, layout) };
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match local() {
            Some(local) => address(local.alloc_zeroed(layout)),
            None => heap().map_or(ptr::null_mut(), |heap| address(heap.alloc_zeroed(layout))),
        }
    }

    unsafe fn realloc(&self, object: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: by the trait's contract the object is live, so not null.
        let object = unsafe { NonNull::new_unchecked(object) };
        match local() {
            // SAFETY: by the trait's contract the object is live and has this layout.
            Some(local) => address(unsafe { local.realloc(object, layout, new_size) }),
            // SAFETY: as above.
            None => heap().map_or(ptr::null_mut(), |heap| address(unsafe { heap.realloc(object, layout, new_size) })),
        }
    }
}
