//! The thread that meshes, where there may be one: it sleeps until there is something to look at, and ends when nothing has been
//! for a while, or when it is the last of its process. Threads of the same kind that make one step.

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use meshheap::{MeshBudget, MeshStep};

use super::Policy;
use crate::barrier::signals;
use crate::clock;
use crate::futex;
use crate::proc_file::{ProcFile, number_at_start};
use crate::process::SharedHeap;

/// There is none.
const NONE: u32 = 0;
/// There should be one.
const ASKED_FOR: u32 = 1;
/// One is being started.
const TRIED: u32 = 2;
/// It works, or sleeps for a while.
const AWAKE: u32 = 3;
/// It sleeps until it is woken, or ends.
const ASLEEP: u32 = 4;

/// The stack: a pass needs a few KiB. The program's thread-locals take theirs out of it, so that more is tried where that is not
/// enough.
const STACK_BYTES: [usize; 3] = [128 << 10, 1 << 20, 16 << 20];

/// It ends if nobody wakes it for so long after the heap was found idle, which takes some seconds by itself: it is not started
/// again more often than that.
const IDLE_NS: u64 = 1_000_000_000; // 1 s

/// So long after a refusal it is tried again.
const AGAIN_AFTER_NS: u64 = 10_000_000_000; // 10 s

/// How often it asks whether it is the last thread.
const ALONE_PERIOD_NS: u64 = 500_000_000; // 500 ms

/// The thread, or its absence.
#[derive(Debug)]
pub(super) struct Helper {
    phase: AtomicU32,
    /// When the system last refused to start it; 0: it did not.
    refused_ns: AtomicU64,
}

/// What the thread is given: statics of the process.
struct Task {
    policy: &'static Policy,
    heap: &'static SharedHeap,
}

impl Helper {
    pub(super) const fn new() -> Self {
        Self { phase: AtomicU32::new(NONE), refused_ns: AtomicU64::new(0) }
    }

    pub(super) fn is_running(&self) -> bool {
        // Relaxed: who sees it late looks for himself.
        self.phase.load(Ordering::Relaxed) >= AWAKE
    }

    /// Wishes for one.
    pub(super) fn ask(&self) {
        // Relaxed: see `note_refusal`.
        let refused_ns = self.refused_ns.load(Ordering::Relaxed);
        if refused_ns > 0 && clock::now_ns().saturating_sub(refused_ns) < AGAIN_AFTER_NS {
            return;
        }
        // Relaxed: see `start`. Refused if there is one, or a wish for it.
        let _ = self.phase.compare_exchange(NONE, ASKED_FOR, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(super) fn is_asked_for(&self) -> bool {
        // Relaxed: see `start`.
        self.phase.load(Ordering::Relaxed) == ASKED_FOR
    }

    /// Wakes it if it sleeps until then.
    pub(super) fn wake(&self) {
        // Relaxed: nothing depends on it but a sleep.
        if self.phase.load(Ordering::Relaxed) == ASLEEP
            && self.phase.compare_exchange(ASLEEP, AWAKE, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            futex::wake_all(&raw const self.phase);
        }
    }

    /// There is no such thread in the child of a fork.
    pub(super) fn forget(&self) {
        // Relaxed: there is no other thread.
        self.phase.store(NONE, Ordering::Relaxed);
    }

    /// Starts it, if it was asked for. If the system refuses, everything goes on without.
    pub(super) fn start(&self, policy: &'static Policy, heap: &'static SharedHeap) {
        // Relaxed: the creation of the thread orders what it sees.
        if self.phase.compare_exchange(ASKED_FOR, TRIED, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        // The heap itself carries the task: it is never dropped.
        let Ok(memory) = heap.alloc(core::alloc::Layout::new::<Task>()) else { return self.note_refusal() };
        let task: *mut Task = memory.as_ptr().cast();
        // SAFETY: the memory was just allocated for it.
        unsafe { task.write(Task { policy, heap }) };
        // SAFETY: the function takes such a task, once.
        if !unsafe { create(run, task.cast()) } {
            // SAFETY: nobody was given the task.
            unsafe { heap.dealloc(memory, core::alloc::Layout::new::<Task>()) };
            self.note_refusal();
        }
    }

    /// The system may allow it later.
    fn note_refusal(&self) {
        // Relaxed: a time that guards nothing; who sees it late asks once more.
        self.refused_ns.store(clock::now_ns(), Ordering::Relaxed);
        // Relaxed: see `start`.
        self.phase.store(NONE, Ordering::Relaxed);
    }

    /// Sleeps for so many nanoseconds, or until it is woken if `is_idle`. False if the thread is to end: nobody woke it.
    fn sleep(&self, nanoseconds: u64, is_idle: bool) -> bool {
        if !is_idle {
            futex::sleep(nanoseconds);
            return true;
        }
        // Relaxed: see `wake`. Only the thread itself leaves AWAKE.
        self.phase.store(ASLEEP, Ordering::Relaxed);
        futex::wait_for(&self.phase, ASLEEP, IDLE_NS);
        // Woken by a signal of the tracer's kind it ends early: the next slow path starts another.
        self.phase.compare_exchange(ASLEEP, NONE, Ordering::Relaxed, Ordering::Relaxed).is_err()
    }
}

/// Starts a thread that handles no signals of the program's, and is waited for by nobody. False if the system refuses.
///
/// # Safety
/// `function` must be safe to call with `argument` in another thread.
unsafe fn create(function: extern "C" fn(*mut c_void) -> *mut c_void, argument: *mut c_void) -> bool {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: the library fills them in.
    if unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) } != 0 {
        return false;
    }
    let attributes = attributes.as_mut_ptr();
    // SAFETY: the attributes are set up.
    unsafe { libc::pthread_attr_setdetachstate(attributes, libc::PTHREAD_CREATE_DETACHED) };
    let mut thread = MaybeUninit::uninit();
    // It inherits what is blocked.
    let blocked = signals::block_all();
    let created = STACK_BYTES.into_iter().any(|bytes| {
        // SAFETY: the attributes are set up. Refused, the usual stack serves.
        unsafe { libc::pthread_attr_setstacksize(attributes, bytes) };
        // SAFETY: by the caller's contract.
        unsafe { libc::pthread_create(thread.as_mut_ptr(), attributes, function, argument) == 0 }
    });
    signals::restore(&blocked);
    // SAFETY: as above.
    unsafe { libc::pthread_attr_destroy(attributes) };
    created
}

/// Only for those who look.
fn set_name() {
    // SAFETY: the name ends with a zero.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"meshheap".as_ptr()) };
}

extern "C" fn run(task: *mut c_void) -> *mut c_void {
    let task: *mut Task = task.cast();
    // SAFETY: `start` wrote it, and gives it to this thread.
    let Task { policy, heap } = unsafe { task.read() };
    if let Some(memory) = core::ptr::NonNull::new(task.cast::<u8>()) {
        // SAFETY: `start` allocated it with this layout, and it was read for the last time.
        unsafe { heap.dealloc(memory, core::alloc::Layout::new::<Task>()) };
    }
    set_name();
    // Relaxed: see `Helper::wake`.
    policy.helper.phase.store(AWAKE, Ordering::Relaxed);
    let mut asked_ns = 0;
    loop {
        let now = crate::clock::coarse_ns();
        if now.saturating_sub(asked_ns) >= ALONE_PERIOD_NS {
            asked_ns = now;
            if is_last() {
                break;
            }
        }
        let (nanoseconds, is_idle) =
            policy.look(heap, true).map_or((super::STEP_PAUSE_NS, false), |wait| (wait.next_ns, wait.is_idle));
        if !policy.helper.sleep(nanoseconds, is_idle) {
            return core::ptr::null_mut();
        }
    }
    // Nobody is left to wake it; should the last threads be others of this kind, they are the program's no more than this one.
    policy.helper.phase.store(NONE, Ordering::Relaxed);
    core::ptr::null_mut()
}

/// Whether all threads of the program have ended, the main thread by `pthread_exit`: this one must not keep the process, all the
/// less as it handles no signals. No, where the system does not tell.
fn is_last() -> bool {
    let mut buffer = [0; 512];
    let text = ProcFile::open(c"/proc/self/stat").and_then(|file| file.read_up_to(&mut buffer));
    text.and_then(main_thread_and_count) == Some((b'Z', 2))
}

/// The main thread's state and the number of threads, it included, in a text of the kind of `/proc/self/stat`.
fn main_thread_and_count(text: &[u8]) -> Option<(u8, usize)> {
    // The name, in parentheses, may contain anything.
    let behind_name = text.iter().rposition(|&byte| byte == b')')? + 1;
    let mut fields = text.get(behind_name..)?.split(|&byte| byte == b' ').skip(1);
    let state = *fields.next()?.first()?;
    Some((state, number_at_start(fields.nth(16)?)?))
}

/// What a thread that makes one step is given, and gives back. Lies on the stack of the thread that waits for it.
struct Step {
    heap: &'static SharedHeap,
    budget: MeshBudget,
    made: MaybeUninit<MeshStep>,
    is_done: AtomicU32,
}

/// One step behind the heap's barrier, in a thread of its own, which is waited for; none if none can be started.
pub(super) fn step_in_own_thread(heap: &'static SharedHeap, budget: MeshBudget) -> Option<MeshStep> {
    let mut step = Step { heap, budget, made: MaybeUninit::uninit(), is_done: AtomicU32::new(0) };
    let shared: *mut Step = &raw mut step;
    // SAFETY: the function takes such a step, which lives until the thread says that it is done with it.
    if !unsafe { create(run_step, shared.cast()) } {
        return None;
    }
    // SAFETY: a field that is shared by reference on both sides.
    let is_done = unsafe { &(*shared).is_done };
    // Acquire: pairs with the Release in `run_step`.
    while is_done.load(Ordering::Acquire) == 0 {
        futex::wait(is_done, 0);
    }
    // SAFETY: the other thread is done with the step.
    let made = unsafe { &(*shared).made };
    // SAFETY: it wrote this before it said so.
    Some(unsafe { made.assume_init_read() })
}

extern "C" fn run_step(step: *mut c_void) -> *mut c_void {
    let step: *mut Step = step.cast();
    set_name();
    // SAFETY: whoever waits does not touch this field.
    let heap = unsafe { (*step).heap };
    // SAFETY: as above.
    let budget = unsafe { (*step).budget };
    // SAFETY: as above.
    let place = unsafe { &mut (*step).made };
    place.write(heap.mesh(budget));
    // SAFETY: a field that is shared by reference on both sides.
    let is_done = unsafe { &(*step).is_done };
    let place = core::ptr::from_ref(is_done);
    // Release: pairs with the Acquire of `step_in_own_thread`. From here on the step may be gone.
    is_done.store(1, Ordering::Release);
    futex::wake_all(place);
    core::ptr::null_mut()
}

#[cfg(test)]
mod tests {
    use super::main_thread_and_count;

    #[test]
    fn the_main_threads_state_and_the_number_of_threads_are_found_behind_any_name() {
        let line = |name: &str, state, threads| {
            std::format!("7 ({name}) {state} 1 7 7 0 -1 1 2 3 4 5 6 7 8 9 20 0 {threads} 0 99\n")
        };
        for name in ["sleep", "a) Z 1 (b", ""] {
            assert_eq!(main_thread_and_count(line(name, 'Z', 2).as_bytes()), Some((b'Z', 2)));
            assert_eq!(main_thread_and_count(line(name, 'S', 31).as_bytes()), Some((b'S', 31)));
        }
        assert_eq!(main_thread_and_count(b""), None);
        assert_eq!(main_thread_and_count(b"7 (x) S 1"), None);
    }

    #[test]
    fn the_test_itself_is_found() {
        let text = std::fs::read("/proc/self/stat").expect("Linux tells");
        let (state, threads) = main_thread_and_count(&text).expect("they are there");
        assert!(state != b'Z' && threads >= 1);
    }
}
