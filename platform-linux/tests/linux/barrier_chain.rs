//! The program's own faults, and its own handlers of them, beside the write barrier's.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::os::unix::process::ExitStatusExt;
use std::sync::mpsc;

use meshheap::Access;
use meshheap_linux::barrier;

use crate::arena::{Arena, run};
use crate::barrier::write_during;
use crate::process::{alone, watch_alone};

/// Calls of the program's own handlers.
static CALLS: AtomicUsize = AtomicUsize::new(0);

const PAGE: usize = 4096;

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

fn install(handler: usize, flags: c_int, also_blocked: &[c_int]) {
    let mut mask = MaybeUninit::uninit();
    // SAFETY: fills the set in.
    unsafe { libc::sigemptyset(mask.as_mut_ptr()) };
    for &signal in also_blocked {
        // SAFETY: the set was filled in.
        unsafe { libc::sigaddset(mask.as_mut_ptr(), signal) };
    }
    // SAFETY: as above.
    let sa_mask = unsafe { mask.assume_init() };
    let action = libc::sigaction { sa_sigaction: handler, sa_mask, sa_flags: flags, sa_restorer: None };
    // SAFETY: the handler is a function of the kind that the flags say.
    assert_eq!(unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, ptr::null_mut()) }, 0);
}

fn is_blocked(signal: c_int) -> bool {
    let mut mask = MaybeUninit::uninit();
    // SAFETY: fills the set in.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), mask.as_mut_ptr()) };
    // SAFETY: as above.
    unsafe { libc::sigismember(mask.as_ptr(), signal) == 1 }
}

fn protect(page: *mut c_void, protection: c_int) {
    // SAFETY: the tests pass pages of their own.
    assert_eq!(unsafe { libc::mprotect(page, PAGE, protection) }, 0);
}

/// A page that can be read only, of nobody's but the test.
fn read_only_page() -> *mut u8 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: replaces nothing.
    let page = unsafe { libc::mmap(ptr::null_mut(), PAGE, libc::PROT_READ, flags, -1, 0) };
    assert_ne!(page, libc::MAP_FAILED);
    page.cast()
}

fn set_errno(number: c_int) {
    // SAFETY: takes no arguments.
    let location = unsafe { libc::__errno_location() };
    // SAFETY: it is this thread's own variable.
    unsafe { *location = number };
}

/// Makes the page writable, and checks what was promised about the call.
extern "C" fn make_writable(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    assert!(signal == libc::SIGSEGV && !context.is_null());
    assert!(is_blocked(libc::SIGUSR1) && is_blocked(libc::SIGSEGV) && !is_blocked(libc::SIGUSR2));
    CALLS.fetch_add(1, Ordering::SeqCst);
    set_errno(5);
    // SAFETY: the kernel gives a whole description.
    let description = unsafe { &*info };
    // SAFETY: this signal has an address.
    let address = unsafe { description.si_addr() };
    protect(address.map_addr(|address| address & !(PAGE - 1)), libc::PROT_READ | libc::PROT_WRITE);
}

#[test]
fn the_programs_fault_goes_to_the_programs_handler_as_if_there_were_no_other() {
    alone(|| {
        install(make_writable as Handler as usize, libc::SA_SIGINFO, &[libc::SIGUSR1]);
        let arena = Arena::with_barrier(16);
        let page = read_only_page();
        set_errno(77);
        // SAFETY: the handler makes the page writable.
        unsafe { page.write_volatile(1) };
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(77));
        assert_eq!(CALLS.load(Ordering::SeqCst), 1);
        assert!(!is_blocked(libc::SIGUSR1) && !is_blocked(libc::SIGSEGV));
        // The program may protect memory that the heap gave it, too.
        let page = arena.address(&(8..9));
        for round in 2..5 {
            protect(page.as_ptr().cast(), libc::PROT_READ);
            // SAFETY: the page lies in the arena.
            unsafe { page.write_volatile(round) };
            assert_eq!(CALLS.load(Ordering::SeqCst), usize::from(round));
        }
        // ... also while a run elsewhere in the arena is being meshed, for which nobody else waits.
        protect(page.as_ptr().cast(), libc::PROT_READ);
        let address = page.as_ptr().expose_provenance();
        let (go, is_raised) = mpsc::channel();
        let writer = std::thread::spawn(move || {
            is_raised.recv().expect("it is sent");
            // SAFETY: the page lies in the arena, which outlives the thread.
            unsafe { ptr::with_exposed_provenance_mut::<u8>(address).write_volatile(5) };
        });
        arena.protect(run(4, 1), Access::ReadOnly).expect("two mappings");
        go.send(()).expect("the writer waits for it");
        writer.join().expect("it does not panic");
        arena.protect(run(4, 1), Access::ReadWrite).expect("it merges");
        assert_eq!(CALLS.load(Ordering::SeqCst), 5);
        // None of it keeps the barrier from its work.
        write_during(&arena, || arena.alias(run(8, 1), 2).expect("as many mappings"));
        assert_eq!(CALLS.load(Ordering::SeqCst), 5);
    });
}

extern "C" fn make_all_writable(signal: c_int) {
    assert_eq!(signal, libc::SIGSEGV);
    CALLS.fetch_add(1, Ordering::SeqCst);
    let page = ptr::with_exposed_provenance_mut::<c_void>(ONE_SHOT.load(Ordering::SeqCst));
    protect(page, libc::PROT_READ | libc::PROT_WRITE);
}

static ONE_SHOT: AtomicUsize = AtomicUsize::new(0);

#[test]
fn a_handler_for_one_fault_handles_one_fault() {
    let child = watch_alone(|| {
        install(make_all_writable as extern "C" fn(c_int) as usize, libc::SA_RESETHAND, &[]);
        let _arena = Arena::with_barrier(16);
        let page = read_only_page();
        ONE_SHOT.store(page.expose_provenance(), Ordering::SeqCst);
        // SAFETY: the handler makes the page writable.
        unsafe { page.write_volatile(1) };
        assert_eq!(CALLS.load(Ordering::SeqCst), 1);
        println!("handled once");
        protect(page.cast(), libc::PROT_READ);
        // SAFETY: this ends the process.
        unsafe { page.write_volatile(1) };
    });
    if let Some((_, child)) = child {
        assert!(String::from_utf8_lossy(&child.stdout).contains("handled once"));
        assert_eq!(child.status.signal(), Some(libc::SIGSEGV));
    }
}

/// How a process ends that does not handle SIGSEGV, by `test` after the barrier was installed.
fn ends_by_default<F: FnOnce()>(test: F) {
    if let Some((_, child)) = watch_alone(test) {
        assert_eq!(child.status.signal(), Some(libc::SIGSEGV));
    }
}

#[test]
fn a_fault_that_nobody_handles_ends_the_process() {
    ends_by_default(|| {
        install(libc::SIG_DFL, 0, &[]);
        let _arena = Arena::with_barrier(16);
        // SAFETY: this ends the process.
        unsafe { read_only_page().write_volatile(1) };
    });
}

#[test]
fn a_fault_cannot_be_ignored() {
    let child = watch_alone(|| {
        install(libc::SIG_IGN, 0, &[]);
        let arena = Arena::with_barrier(16);
        // SAFETY: takes a number only.
        unsafe { libc::raise(libc::SIGSEGV) };
        println!("but a signal that somebody sent can be");
        protect(arena.address(&(8..9)).as_ptr().cast(), libc::PROT_READ);
        arena.fill(8..9, 1);
    });
    if let Some((_, child)) = child {
        assert!(String::from_utf8_lossy(&child.stdout).contains("can be"));
        assert_eq!(child.status.signal(), Some(libc::SIGSEGV));
    }
}

#[test]
fn a_signal_that_somebody_sent_ends_the_process() {
    ends_by_default(|| {
        install(libc::SIG_DFL, 0, &[]);
        let _arena = Arena::with_barrier(16);
        // SAFETY: takes a number only.
        unsafe { libc::raise(libc::SIGSEGV) };
    });
}

#[test]
fn an_overflown_stack_is_still_told() {
    #[expect(unconditional_recursion, reason = "it is to overflow")]
    fn overflow(depth: usize) -> usize {
        core::hint::black_box(overflow(core::hint::black_box(depth + 1))) + 1
    }
    let child = watch_alone(|| {
        let _arena = Arena::with_barrier(16);
        std::thread::spawn(|| overflow(0)).join().expect("not reached");
    });
    if let Some((name, child)) = child {
        let told = String::from_utf8_lossy(&child.stderr);
        assert!(told.contains("has overflowed its stack"), "{name}: {told}");
    }
}

extern "C" fn ask_first(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives a whole description.
    let description = unsafe { &*info };
    // SAFETY: this signal has an address.
    if barrier::handle_fault(unsafe { description.si_addr() }) {
        return;
    }
    make_writable(signal, info, context);
}

#[test]
fn a_handler_that_came_later_asks_the_barrier() {
    alone(|| {
        let arena = Arena::with_barrier(16);
        install(ask_first as Handler as usize, libc::SA_SIGINFO | libc::SA_ONSTACK, &[libc::SIGUSR1]);
        write_during(&arena, || arena.alias(run(8, 1), 2).expect("two mappings"));
        assert_eq!(CALLS.load(Ordering::SeqCst), 0);
        // SAFETY: the handler makes the page writable.
        unsafe { read_only_page().write_volatile(1) };
        assert_eq!(CALLS.load(Ordering::SeqCst), 1);
        assert!(!barrier::handle_fault(ptr::null()));
    });
}
