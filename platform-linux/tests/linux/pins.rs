//! What knows an object's memory by other means than its address finds it there, if the object is pinned.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use std::io::{Write, pipe};
use std::os::fd::AsRawFd;

use io_uring::{IoUring, opcode, types};
use meshheap::{Heap, MeshBudget, StepEnd};
use meshheap_linux::LinuxPlatform;

use crate::heap::{heap_on, sparse_objects};
use crate::process::alone;

/// So many that some would surely move.
const PINNED: usize = 64;

/// A sparse heap, and some of its objects, which are pinned.
fn heap_with_pins() -> (Heap<LinuxPlatform>, Vec<NonNull<usize>>) {
    let heap = heap_on(LinuxPlatform::with_write_barrier(), 64 << 20);
    let kept = sparse_objects(&heap);
    let pinned: Vec<_> = kept.iter().copied().step_by(kept.len() / PINNED).take(PINNED).collect();
    pinned.iter().for_each(|object| heap.pin(object.cast()).expect("it is live"));
    (heap, pinned)
}

fn mesh_all(heap: &Heap<LinuxPlatform>) {
    let step = heap.mesh(MeshBudget::UNLIMITED);
    assert_eq!(step.end, StepEnd::PassDone);
    assert!(step.pages_freed > 1000, "most of the heap is meshed");
}

#[test]
fn what_the_kernel_writes_to_registered_buffers_arrives() {
    let (heap, pinned) = heap_with_pins();
    let mut ring = match IoUring::new(2) {
        Ok(ring) => ring,
        Err(error) => return println!("not tested: io_uring: {error}"),
    };
    let bytes = size_of::<usize>();
    let buffers: Vec<_> =
        pinned.iter().map(|object| libc::iovec { iov_base: object.as_ptr().cast(), iov_len: bytes }).collect();
    // SAFETY: the objects outlive the ring.
    unsafe { ring.submitter().register_buffers(&buffers) }.expect("some pages may be locked");
    mesh_all(&heap);
    let (source, mut sink) = pipe().expect("two descriptors");
    for (index, object) in pinned.iter().enumerate() {
        sink.write_all(&(!index).to_ne_bytes()).expect("a pipe holds more");
        let index = u16::try_from(index).expect("a few");
        let length = u32::try_from(bytes).expect("a few");
        let read = opcode::ReadFixed::new(types::Fd(source.as_raw_fd()), object.as_ptr().cast(), length, index).build();
        // SAFETY: the buffer is registered, and nobody looks at it meanwhile.
        unsafe { ring.submission().push(&read) }.expect("the queue is empty");
        ring.submit_and_wait(1).expect("one entry");
        let result = ring.completion().next().expect("the one that was waited for").result();
        assert_eq!(usize::try_from(result), Ok(bytes));
        // SAFETY: the object is live, and nobody writes to it any more.
        assert_eq!(unsafe { object.read() }, !usize::from(index), "it arrived where the program looks");
    }
}

/// A futex that is not private to the process: the kernel knows it by its place in the memory.
fn futex(word: &AtomicU32, operation: libc::c_int, value: u32) -> libc::c_long {
    let none = core::ptr::null::<libc::timespec>();
    // SAFETY: the word is alive; there is no time limit.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, none) }
}

#[test]
fn who_waits_at_a_futex_that_processes_share_is_woken() {
    alone(|| {
        let (heap, pinned) = heap_with_pins();
        // SAFETY: the objects live until the end, hold more than that, and are used in this way only.
        let words: Vec<&AtomicU32> = pinned.iter().take(8).map(|object| unsafe { object.cast().as_ref() }).collect();
        words.iter().for_each(|word| word.store(0, Ordering::SeqCst));
        let waiting: Vec<_> = words.iter().map(|_| AtomicU32::new(0)).collect();
        std::thread::scope(|scope| {
            for (word, thread) in words.iter().zip(&waiting) {
                scope.spawn(|| {
                    // SAFETY: takes no arguments.
                    thread.store(unsafe { libc::gettid() }.unsigned_abs(), Ordering::SeqCst);
                    while word.load(Ordering::SeqCst) == 0 {
                        futex(word, libc::FUTEX_WAIT, 0);
                    }
                });
            }
            for thread in &waiting {
                while !waits_at_a_futex(thread.load(Ordering::SeqCst)) {
                    std::thread::yield_now();
                }
            }
            mesh_all(&heap);
            for word in &words {
                word.store(1, Ordering::SeqCst);
                if futex(word, libc::FUTEX_WAKE, 1) != 1 {
                    // Nobody can wake the thread any more, so that the test would not end.
                    std::process::abort();
                }
            }
        });
    });
}

/// Whether the thread sleeps in a call of `futex` that is not private.
fn waits_at_a_futex(thread: u32) -> bool {
    let call = std::fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).unwrap_or_default();
    let mut fields = call.split(' ');
    let number = fields.next().and_then(|number| number.parse().ok());
    number == Some(libc::SYS_futex) && fields.nth(1) == Some("0x0")
}
