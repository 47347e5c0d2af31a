//! [`MeshHeap`] as the allocator of this very test program: threads, late destructors, early constructors, fork.

use core::cell::RefCell;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc;

use meshheap_linux::MeshHeap;

#[global_allocator]
static GLOBAL: MeshHeap = MeshHeap::new();

fn taken_bytes() -> usize {
    GLOBAL.statistics().expect("the program runs on the heap").taken_bytes
}

#[test]
fn collections_hold_what_was_put_in() {
    let map: HashMap<String, Vec<usize>> = (0..20_000).map(|n| (format!("key {n}"), vec![n; n % 50])).collect();
    let tree: BTreeMap<usize, String> = (0..20_000).map(|n| (n * 7919 % 20_000, n.to_string())).collect();
    assert!((0..20_000).all(|n| map[&format!("key {n}")] == vec![n; n % 50]));
    assert!((0..20_000).all(|n| tree[&(n * 7919 % 20_000)] == n.to_string()));
    let mut grown = Vec::new();
    grown.extend((0..3_000_000).map(|n: u32| n));
    assert!(grown.iter().enumerate().all(|(n, &value)| n as u32 == value));
    assert!(vec![0_u64; 1 << 20].iter().all(|&value| value == 0), "zeroed memory is zero");
}

#[test]
fn objects_go_from_thread_to_thread() {
    let (send, receive) = mpsc::channel::<Vec<u8>>();
    let consumer = std::thread::spawn(move || receive.into_iter().map(|bytes| bytes.len()).sum::<usize>());
    let producers: Vec<_> = (0..4)
        .map(|producer| {
            let send = send.clone();
            std::thread::spawn(move || {
                for n in 0..5_000 {
                    send.send(vec![producer; n % 300]).expect("the consumer waits");
                }
            })
        })
        .collect();
    drop(send);
    producers.into_iter().for_each(|producer| producer.join().expect("no panic"));
    assert_eq!(consumer.join().expect("no panic"), 4 * (0..5_000).map(|n| n % 300).sum::<usize>());
}

static LATE_DROPS: AtomicUsize = AtomicUsize::new(0);

/// Allocates and frees when its thread ends.
struct Late(Vec<String>);

impl Drop for Late {
    fn drop(&mut self) {
        let all: String = self.0.iter().map(|text| text.to_uppercase()).collect();
        // Relaxed: read after the thread was joined.
        LATE_DROPS.fetch_add(all.len(), Ordering::Relaxed);
    }
}

std::thread_local!(static LATE: RefCell<Option<Late>> = const { RefCell::new(None) });

#[test]
fn late_destructors_may_allocate_and_threads_leave_nothing_behind() {
    let run_thread = || {
        let thread = std::thread::spawn(|| {
            LATE.with(|late| *late.borrow_mut() = Some(Late(vec!["late".to_owned(); 100])));
            (0..200).map(|n| vec![0_u8; n * 8]).collect::<Vec<_>>().len()
        });
        assert_eq!(thread.join().expect("no panic"), 200);
    };
    (0..50).for_each(|_| run_thread());
    let before = taken_bytes();
    (0..500).for_each(|_| run_thread());
    // Other tests run beside this one: allow for them, but not for 64 KiB a thread.
    assert!(taken_bytes() < before + (16 << 20), "{before} -> {}", taken_bytes());
    // Relaxed: the threads were joined.
    assert_eq!(LATE_DROPS.load(Ordering::Relaxed), 550 * 400);
}

static EARLY: AtomicPtr<Vec<u32>> = AtomicPtr::new(core::ptr::null_mut());

/// Runs before `main`, and before std has set itself up.
extern "C" fn before_main() {
    let early = Box::new((0..1000).collect::<Vec<u32>>());
    // Release: pairs with the Acquire in the test.
    EARLY.store(Box::into_raw(early), Ordering::Release);
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = before_main;

#[test]
fn constructors_may_allocate_before_main() {
    // Acquire: pairs with the Release in `before_main`.
    let early = EARLY.swap(core::ptr::null_mut(), Ordering::Acquire);
    // SAFETY: `before_main` made it from a box, and it is taken once.
    let early = unsafe { Box::from_raw(early) };
    assert!(early.iter().enumerate().all(|(n, &value)| n as u32 == value));
}

#[test]
fn a_forked_child_has_a_copy_and_both_go_on() {
    let data: Vec<usize> = (0..100_000).collect();
    let busy = AtomicUsize::new(1);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            // Relaxed: only tells to stop.
            scope.spawn(|| {
                while busy.load(Ordering::Relaxed) != 0 {
                    drop((0..50).map(|n| vec![1_u8; n * 30]).collect::<Vec<_>>());
                }
            });
        }
        for _ in 0..20 {
            // SAFETY: the child only allocates, frees, and exits.
            let child = unsafe { libc::fork() };
            assert!(child >= 0, "there is room for a process");
            if child == 0 {
                let copy: Vec<usize> = data.iter().map(|n| n + 1).collect();
                let right = copy.iter().enumerate().all(|(n, &value)| value == n + 1);
                // SAFETY: ends the child without its parent's destructors.
                unsafe { libc::_exit(if right { 42 } else { 1 }) };
            }
            let mut status = 0;
            // SAFETY: waits for the child just made.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 42, "{status:#x}");
        }
        busy.store(0, Ordering::Relaxed);
    });
    assert!(data.iter().enumerate().all(|(n, &value)| value == n), "the child wrote to memory of its own");
}
