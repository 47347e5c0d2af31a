//! The thread that meshes, where there may be one: it sleeps until there is something to look at.

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, Ordering};

use super::Policy;
use crate::barrier::signals;
use crate::futex;
use crate::process::SharedHeap;

/// There is none.
const NONE: u32 = 0;
/// There should be one.
const ASKED_FOR: u32 = 1;
/// One is being started, or was refused, which is not tried again.
const TRIED: u32 = 2;
/// It works, or sleeps for a while.
const AWAKE: u32 = 3;
/// It sleeps until it is woken.
const ASLEEP: u32 = 4;

/// The stack: a pass needs a few KiB.
const STACK_BYTES: usize = 128 << 10;

/// The thread, or its absence.
#[derive(Debug)]
pub(super) struct Helper {
    phase: AtomicU32,
}

/// What the thread is given: statics of the process.
struct Task {
    policy: &'static Policy,
    heap: &'static SharedHeap,
}

impl Helper {
    pub(super) const fn new() -> Self {
        Self { phase: AtomicU32::new(NONE) }
    }

    pub(super) fn is_running(&self) -> bool {
        // Relaxed: who sees it late looks for himself.
        self.phase.load(Ordering::Relaxed) >= AWAKE
    }

    /// Wishes for one.
    pub(super) fn ask(&self) {
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
            futex::wake_all(&self.phase);
        }
    }

    /// There is no such thread in the child of a fork.
    pub(super) fn forget(&self) {
        // Relaxed: there is no other thread.
        self.phase.store(NONE, Ordering::Relaxed);
    }

    /// Starts it, once. If the system refuses, everything goes on without.
    pub(super) fn start(&self, policy: &'static Policy, heap: &'static SharedHeap) {
        // Relaxed: the creation of the thread orders what it sees.
        if self.phase.compare_exchange(ASKED_FOR, TRIED, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        // Whichever thread starts it, it handles no signals of the program's.
        let blocked = signals::block_all();
        if create(policy, heap) {
            self.phase.store(AWAKE, Ordering::Relaxed);
        }
        signals::restore(&blocked);
    }

    /// Sleeps for so many nanoseconds, or until it is woken if `is_idle`.
    fn sleep(&self, nanoseconds: u64, is_idle: bool) {
        if !is_idle {
            return futex::sleep(nanoseconds);
        }
        // Relaxed: see `wake`.
        if self.phase.compare_exchange(AWAKE, ASLEEP, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            // Not noted as running yet.
            return futex::sleep(nanoseconds);
        }
        while self.phase.load(Ordering::Relaxed) == ASLEEP {
            futex::wait(&self.phase, ASLEEP);
        }
    }
}

fn create(policy: &'static Policy, heap: &'static SharedHeap) -> bool {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: the library fills them in.
    if unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) } != 0 {
        return false;
    }
    let attributes = attributes.as_mut_ptr();
    // SAFETY: the attributes are set up. Refused, the usual stack serves.
    unsafe { libc::pthread_attr_setstacksize(attributes, STACK_BYTES) };
    // SAFETY: as above.
    unsafe { libc::pthread_attr_setdetachstate(attributes, libc::PTHREAD_CREATE_DETACHED) };
    let mut thread = MaybeUninit::uninit();
    // The heap itself carries the task: it is never dropped.
    let Ok(memory) = heap.alloc(core::alloc::Layout::new::<Task>()) else { return false };
    let task: *mut Task = memory.as_ptr().cast();
    // SAFETY: the memory was just allocated for it.
    unsafe { task.write(Task { policy, heap }) };
    // SAFETY: the function takes such a task, once.
    let created = unsafe { libc::pthread_create(thread.as_mut_ptr(), attributes, run, task.cast()) } == 0;
    // SAFETY: as above.
    unsafe { libc::pthread_attr_destroy(attributes) };
    if !created {
        // SAFETY: nobody was given the task.
        unsafe { heap.dealloc(memory, core::alloc::Layout::new::<Task>()) };
    }
    created
}

extern "C" fn run(task: *mut c_void) -> *mut c_void {
    let task: *const Task = task.cast();
    // SAFETY: `create` wrote it, and gives it to this thread, which never ends.
    let &Task { policy, heap } = unsafe { &*task };
    // Only for those who look.
    // SAFETY: the name ends with a zero.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"meshheap".as_ptr()) };
    loop {
        match policy.look(heap) {
            Some(wait) => policy.helper.sleep(wait.next_ns, wait.is_idle),
            None => futex::sleep(super::STEP_PAUSE_NS),
        }
    }
}
