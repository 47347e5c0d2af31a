//! Meshing on Linux beside threads that write all over the heap: no write is lost.
//!
//! `MESHHEAP_MESHES=100000 cargo test --release -p meshheap-tests --test write_barrier` meshes more pages than by default.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::io::{Read, Write, pipe};
use std::os::unix::net::{UnixDatagram, UnixStream};

use meshheap::{
    Access, Facts, Heap, LocalHeap, MeshBudget, Options, PageIndex, PageRun, Platform, PlatformError, Purpose,
};
use meshheap_linux::{LinuxPlatform, WriteBarrier, barrier};
use meshheap_tests::{Model, Op};
use quickcheck::{QuickCheck, TestResult};

/// Sizes in words: of one page, of several, and with a whole page or more each.
const WORDS: [usize; 6] = [2, 4, 8, 31, 150, 700];

/// Objects that a writer allocates at a time; it keeps one in eight.
const GENERATION: usize = 1500;

/// It writes to those until so many passes have begun and ended.
const PASSES: usize = 2;

/// What the threads of a test tell each other.
#[derive(Default)]
struct Signals {
    /// Passes that have ended.
    passes: AtomicUsize,
    stop: AtomicBool,
}

impl Signals {
    /// Meshes until so many pages were freed, or one of the threads has failed.
    fn mesh<P: Platform>(&self, heap: &Heap<P>, pages: usize, is_one_finished: impl Fn() -> bool) -> usize {
        let mut freed = 0;
        while freed < pages && !is_one_finished() {
            freed += heap.mesh(MeshBudget::UNLIMITED).pages_freed;
            self.passes.fetch_add(1, Ordering::Relaxed);
        }
        self.stop.store(true, Ordering::Relaxed);
        freed
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Does `work` until some passes have begun and ended, or all is over.
    fn during_passes(&self, mut work: impl FnMut()) {
        let last = self.passes.load(Ordering::Relaxed) + PASSES;
        while self.passes.load(Ordering::Relaxed) <= last && !self.is_over() {
            work();
        }
    }
}

fn heap<P: Platform>(platform: P, seed: u64) -> Heap<P> {
    let options = Options { arena_bytes: 1 << 30, seed: Some(seed), ..Options::default() };
    Heap::with_options(platform, options).expect("Linux has room")
}

/// Linux behind page protection.
fn behind_page_protection() -> LinuxPlatform {
    let platform = LinuxPlatform::new().and_barrier(WriteBarrier::PageProtection);
    assert!(platform.facts().write_barrier, "Linux installs handlers");
    platform
}

/// Linux behind userfaultfd; none, with a word, where the system does not permit that.
fn behind_userfaultfd() -> Option<LinuxPlatform> {
    let platform = LinuxPlatform::new().and_barrier(WriteBarrier::Userfaultfd);
    if !platform.facts().write_barrier {
        println!("not tested: {:?}", platform.barrier());
    }
    Some(platform).filter(|platform| platform.facts().write_barrier)
}

/// Lets other threads run while a run is read-only, so that their writes meet the barrier. Otherwise that takes a
/// microsecond, and a write that comes during the system calls before and after waits in the kernel.
struct Lingering(LinuxPlatform);

// SAFETY: every method is Linux's own.
unsafe impl Platform for Lingering {
    fn facts(&self) -> Facts {
        self.0.facts()
    }

    fn reserve(&self, purpose: Purpose, bytes: usize, align: usize) -> Result<NonNull<u8>, PlatformError> {
        self.0.reserve(purpose, bytes, align)
    }

    unsafe fn release(&self, purpose: Purpose, base: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller keeps the same contract.
        unsafe { self.0.release(purpose, base, bytes) };
    }

    unsafe fn purge(&self, pages: PageRun) -> Result<(), PlatformError> {
        // SAFETY: the caller keeps the same contract.
        unsafe { self.0.purge(pages) }
    }

    unsafe fn alias(&self, pages: PageRun, target: PageIndex) -> Result<(), PlatformError> {
        self.yield_now();
        // SAFETY: the caller keeps the same contract.
        unsafe { self.0.alias(pages, target) }
    }

    unsafe fn unalias(&self, pages: PageRun) -> Result<(), PlatformError> {
        // SAFETY: the caller keeps the same contract.
        unsafe { self.0.unalias(pages) }
    }

    unsafe fn protect(&self, pages: PageRun, access: Access) -> Result<(), PlatformError> {
        // SAFETY: the caller keeps the same contract.
        unsafe { self.0.protect(pages, access) }
    }

    fn yield_now(&self) {
        self.0.yield_now();
    }
}

/// Pages to mesh.
fn meshes() -> usize {
    std::env::var("MESHHEAP_MESHES").map_or(5_000, |count| count.parse().expect("a number"))
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// An object all of whose words hold one number, which its thread alone knows and changes.
struct Counters {
    start: NonNull<u64>,
    words: usize,
    value: u64,
}

impl Counters {
    fn layout(words: usize) -> Layout {
        Layout::array::<u64>(words).expect("small")
    }

    fn new<P: Platform>(local: &mut LocalHeap<&Heap<P>>, words: usize, is_zeroed: bool) -> Self {
        let layout = Self::layout(words);
        let start = if is_zeroed { local.alloc_zeroed(layout) } else { local.alloc(layout) };
        let mut made = Self { start: start.expect("the arena has room").cast(), words, value: 0 };
        if !is_zeroed {
            made.all().fill(0);
        }
        made
    }

    fn all(&mut self) -> &mut [u64] {
        // SAFETY: the object is this thread's and holds so many words, which were written.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.words) }
    }

    fn count(&mut self) {
        let value = self.value;
        for word in self.all() {
            assert_eq!(*word, value, "no write was lost");
            *word += 1;
        }
        self.value += 1;
    }

    fn resize<P: Platform>(&mut self, local: &mut LocalHeap<&Heap<P>>, words: usize) {
        let size = Self::layout(words).size();
        // SAFETY: the object is live and has this layout.
        let moved = unsafe { local.realloc(self.start.cast(), Self::layout(self.words), size) };
        let (kept, value) = (self.words.min(words), self.value);
        *self = Self { start: moved.expect("the arena has room").cast(), words: kept, value };
        self.count();
        self.words = words;
        let value = self.value;
        // SAFETY: the object holds so many words now, of which the first are written already.
        for word in kept..words {
            // SAFETY: as above.
            let place = unsafe { self.start.add(word) };
            // SAFETY: as above.
            unsafe { place.write(value) };
        }
    }

    fn free<P: Platform>(mut self, local: &mut LocalHeap<&Heap<P>>) {
        self.count();
        // SAFETY: the object is live and is not used afterwards.
        unsafe { local.dealloc(self.start.cast(), Self::layout(self.words)) };
    }
}

/// Allocates, frees most, writes to the rest, resizes some, frees them, until it is to stop. Counts in the shared counters, too,
/// and returns how often.
fn write_all_over<P: Platform>(heap: &Heap<P>, shared: &[&AtomicU64], signals: &Signals, seed: u64) -> u64 {
    let (mut local, mut state, mut counted) = (heap.local(), seed, 0);
    while !signals.is_over() {
        let words = WORDS[random(&mut state) as usize % WORDS.len()];
        let made: Vec<_> =
            (0..GENERATION).map(|index| Counters::new(&mut local, words, index.is_multiple_of(3))).collect();
        let mut kept = Vec::new();
        for object in made {
            if random(&mut state).is_multiple_of(8) {
                kept.push(object);
            } else {
                object.free(&mut local);
            }
        }
        local.flush();
        signals.during_passes(|| {
            kept.iter_mut().for_each(Counters::count);
            for _ in 0..16 {
                shared[random(&mut state) as usize % shared.len()].fetch_add(1, Ordering::Relaxed);
                counted += 1;
            }
        });
        let other = WORDS[random(&mut state) as usize % WORDS.len()];
        for object in kept.iter_mut().step_by(16) {
            object.resize(&mut local, other);
        }
        kept.into_iter().for_each(|object| object.free(&mut local));
    }
    counted
}

fn mesh_beside_writers(platform: impl Platform, meshes: usize, writers: u64) {
    let heap = heap(platform, 5);
    let layout = Layout::new::<AtomicU64>();
    let sparse: Vec<_> = (0..20_000).map(|_| heap.alloc_zeroed(layout).expect("the arena has room")).collect();
    for (index, &object) in sparse.iter().enumerate() {
        if !index.is_multiple_of(20) {
            // SAFETY: the object is live and is not used afterwards.
            unsafe { heap.dealloc(object, layout) };
        }
    }
    // SAFETY: these are live until the end, and hold zero.
    let shared: Vec<&AtomicU64> = sparse.iter().step_by(20).map(|object| unsafe { object.cast().as_ref() }).collect();
    let (signals, waits) = (Signals::default(), barrier::waits());
    let (freed, counted) = std::thread::scope(|scope| {
        let (heap, shared, signals) = (&heap, &shared, &signals);
        let write = |seed| scope.spawn(move || write_all_over(heap, shared, signals, seed));
        let threads: Vec<_> = (1..=writers).map(write).collect();
        let freed = signals.mesh(heap, meshes, || threads.iter().any(|thread| thread.is_finished()));
        let counts = threads.into_iter().map(|thread| thread.join().expect("no write was lost"));
        (freed, counts.sum::<u64>())
    });
    println!("{freed} pages meshed, {} writes waited", barrier::waits() - waits);
    heap.check_invariants();
    let found: u64 = shared.iter().map(|counter| counter.load(Ordering::Relaxed)).sum();
    assert_eq!(found, counted, "no count was lost");
}

#[test]
fn threads_may_write_all_over_the_heap_while_it_is_meshed_behind_page_protection() {
    mesh_beside_writers(behind_page_protection(), meshes(), 4);
}

#[test]
fn threads_may_write_all_over_the_heap_while_it_is_meshed_behind_userfaultfd() {
    let Some(platform) = behind_userfaultfd() else { return };
    mesh_beside_writers(platform, meshes(), 4);
}

#[test]
fn writes_that_meet_page_protection_are_not_lost() {
    let waits = barrier::waits();
    mesh_beside_writers(Lingering(behind_page_protection()), meshes(), 3);
    assert!(barrier::waits() > waits);
}

#[test]
fn writes_that_meet_userfaultfd_are_not_lost() {
    let Some(platform) = behind_userfaultfd() else { return };
    mesh_beside_writers(Lingering(platform), meshes(), 3);
}

#[test]
fn any_operations_keep_every_object_with_a_barrier() {
    fn property(ops: Vec<Op>, seed: u64, is_page_protection: bool) -> TestResult {
        let platform = if is_page_protection { Some(behind_page_protection()) } else { behind_userfaultfd() };
        let Some(platform) = platform else { return TestResult::discard() };
        let heap = heap(platform, seed);
        let mut model = Model::new(&heap);
        ops.iter().for_each(|&op| model.apply(op));
        model.verify();
        heap.check_invariants();
        model.free_all();
        heap.check_invariants();
        TestResult::passed()
    }
    QuickCheck::new().tests(200).quickcheck(property as fn(Vec<Op>, u64, bool) -> TestResult);
}

/// Bytes go through the kernel into objects that are meshed, and are read again if the kernel says that they could not be
/// written. All of them arrive, in order.
fn receive_into_objects<P: Platform>(heap: &Heap<P>, mut source: impl Read, signals: &Signals) -> usize {
    let (mut local, mut next, mut state, mut refusals) = (heap.local(), 0_u8, 9, 0);
    while !signals.is_over() {
        let made: Vec<_> = (0..GENERATION).map(|_| Counters::new(&mut local, 32, false)).collect();
        let (mut kept, rest): (Vec<_>, Vec<_>) = made.into_iter().partition(|_| random(&mut state).is_multiple_of(8));
        rest.into_iter().for_each(|object| object.free(&mut local));
        local.flush();
        signals.during_passes(|| {
            for object in &mut kept {
                // SAFETY: the object is this thread's, and holds so many bytes, which were written.
                let bytes = unsafe { core::slice::from_raw_parts_mut(object.start.cast::<u8>().as_ptr(), 256) };
                refusals += receive(&mut source, bytes);
                for byte in bytes {
                    assert_eq!(*byte, next, "nothing is lost or written elsewhere");
                    next = next.wrapping_add(1);
                }
            }
        });
        for mut object in kept {
            // What `free` expects.
            object.all().fill(0);
            object.free(&mut local);
        }
    }
    refusals
}

/// Fills `bytes`. Returns how often the kernel refused.
fn receive(source: &mut impl Read, bytes: &mut [u8]) -> usize {
    let (mut filled, mut refusals) = (0, 0);
    while filled < bytes.len() {
        match source.read(&mut bytes[filled..]) {
            Ok(length) => filled += length,
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(EFAULT), "the only trouble");
                // Behind userfaultfd there is none.
                assert!(barrier::handle_fault(bytes[filled..].as_ptr().cast()), "the barrier is the only reason");
                refusals += 1;
            }
        }
    }
    refusals
}

const EFAULT: i32 = 14;

fn send(mut sink: impl Write) {
    let bytes: Vec<u8> = (0..=255).cycle().take(1 << 12).collect();
    // The reader goes when the test is over.
    while sink.write_all(&bytes).is_ok() {}
}

/// Returns how often the kernel refused.
fn receive_while_meshed(platform: LinuxPlatform) -> usize {
    let heap = heap(platform, 7);
    let signals = Signals::default();
    let (from_pipe, to_pipe) = pipe().expect("two descriptors");
    let (from_socket, to_socket) = UnixStream::pair().expect("two descriptors");
    let refusals: usize = std::thread::scope(|scope| {
        let (heap, signals) = (&heap, &signals);
        scope.spawn(move || send(to_pipe));
        scope.spawn(move || send(to_socket));
        let receivers = [
            scope.spawn(move || receive_into_objects(heap, from_pipe, signals)),
            scope.spawn(move || receive_into_objects(heap, from_socket, signals)),
        ];
        signals.mesh(heap, meshes() / 4, || receivers.iter().any(|thread| thread.is_finished()));
        receivers.into_iter().map(|receiver| receiver.join().expect("nothing was lost")).sum()
    });
    println!("{refusals} system calls refused");
    heap.check_invariants();
    refusals
}

#[test]
fn system_calls_into_objects_lose_nothing_while_the_heap_is_meshed() {
    receive_while_meshed(behind_page_protection());
}

#[test]
fn behind_userfaultfd_system_calls_into_objects_are_never_refused() {
    let Some(platform) = behind_userfaultfd() else { return };
    assert_eq!(receive_while_meshed(platform), 0);
}

/// A datagram that holds a number, for as long as somebody receives.
fn send_numbers(sink: &UnixDatagram) {
    // The reader goes when the test is over.
    for number in 0_u64.. {
        if sink.send(&number.to_ne_bytes().repeat(32)).is_err() {
            return;
        }
    }
}

/// Each number arrives once, in order.
fn receive_numbers<P: Platform>(heap: &Heap<P>, source: &UnixDatagram, signals: &Signals) {
    let (mut local, mut next, mut state) = (heap.local(), 0_u64, 11);
    while !signals.is_over() {
        let made: Vec<_> = (0..GENERATION).map(|_| Counters::new(&mut local, 32, false)).collect();
        let (mut kept, rest): (Vec<_>, Vec<_>) = made.into_iter().partition(|_| random(&mut state).is_multiple_of(8));
        rest.into_iter().for_each(|object| object.free(&mut local));
        local.flush();
        signals.during_passes(|| {
            for object in &mut kept {
                // SAFETY: the object is this thread's, and holds so many bytes, which were written.
                let bytes = unsafe { core::slice::from_raw_parts_mut(object.start.cast::<u8>().as_ptr(), 256) };
                assert_eq!(source.recv(bytes).expect("no call is refused"), 256);
                assert!(object.all().iter().all(|&word| word == next), "no datagram is lost");
                next += 1;
            }
        });
        for mut object in kept {
            object.all().fill(0);
            object.free(&mut local);
        }
    }
}

#[test]
fn behind_userfaultfd_no_datagram_is_lost() {
    let Some(platform) = behind_userfaultfd() else { return };
    let (heap, signals) = (heap(platform, 9), Signals::default());
    let (source, sink) = UnixDatagram::pair().expect("two descriptors");
    std::thread::scope(|scope| {
        let (heap, signals) = (&heap, &signals);
        scope.spawn(move || send_numbers(&sink));
        let receiver = scope.spawn(move || receive_numbers(heap, &source, signals));
        signals.mesh(heap, meshes() / 4, || receiver.is_finished());
    });
    heap.check_invariants();
}
