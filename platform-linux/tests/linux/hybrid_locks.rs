//! What the platform of a process's heap holds while it works: locks, and a descriptor.

use meshheap::{
    Access, Heap, MeshBudget, Operation, Options, PageIndex, PageRun, Platform, PlatformError, Purpose, StepEnd, Touch,
};
use meshheap_linux::{HybridPlatform, LinuxPlatform, PrivatePlatform, WriteBarrier};
use meshheap_tests::sparse::{assert_untouched, sparse_objects};

use crate::process::alone;

fn refused(operation: Operation, code: i32) -> Result<(), PlatformError> {
    Err(PlatformError { operation, code })
}

#[test]
fn a_fork_in_the_middle_of_a_mesh_gives_back_no_lock_that_it_did_not_take() {
    let platform = HybridPlatform::new();
    let base = platform.reserve(Purpose::Arena, 32 << 20, 2 << 20).expect("address space");
    let run = |start| PageRun::new(PageIndex::new(start), 1);
    // SAFETY: the pages are the arena's.
    unsafe { platform.commit(PageRun::new(PageIndex::new(0), 64), Touch::Dense) }.expect("memory");
    // SAFETY: nothing writes to the page.
    unsafe { platform.protect(run(3), Access::ReadOnly) }.expect("two mappings");
    // As a signal handler would that interrupts the thread here.
    assert_eq!(platform.freeze(), refused(Operation::Freeze, libc::EDEADLK));
    // SAFETY: `freeze` was called by this thread.
    unsafe { platform.fork_done() };
    // SAFETY: as above.
    let second = unsafe { platform.protect(run(5), Access::ReadOnly) };
    assert_eq!(second, refused(Operation::Protect, libc::EBUSY), "the lock is held still");
    // SAFETY: as above.
    unsafe { platform.protect(run(3), Access::ReadWrite) }.expect("as before");
    assert_eq!(platform.freeze(), Ok(()));
    // SAFETY: as above.
    unsafe { platform.fork_done() };
    // SAFETY: the reservation from above, with which the test is done.
    unsafe { platform.release(Purpose::Arena, base, 32 << 20) };
}

#[test]
fn locks_of_a_freeze_are_given_back_once() {
    let platform = PrivatePlatform::new();
    let base = platform.reserve(Purpose::Arena, 64 << 20, 2 << 20).expect("address space");
    assert_eq!(platform.freeze(), Ok(()));
    assert_eq!(platform.freeze(), refused(Operation::Freeze, libc::EDEADLK), "it is this thread that holds it");
    // SAFETY: `freeze` was called by this thread.
    unsafe { platform.fork_done() };
    // SAFETY: the pages are the arena's.
    unsafe { platform.commit(PageRun::new(PageIndex::new(0), 64), Touch::Dense) }.expect("memory");
    // SAFETY: the reservation from above, with which the test is done.
    unsafe { platform.release(Purpose::Arena, base, 64 << 20) };
}

/// Closes what a program closes that becomes a daemon.
fn close_all() {
    // SAFETY: a program may close what it likes, which is what is tested.
    (3..1000).for_each(|number| {
        // SAFETY: as above.
        unsafe { libc::close(number) };
    });
}

#[test]
fn a_heap_meshes_on_after_the_program_closed_all_descriptors() {
    alone(|| {
        if LinuxPlatform::new().and_barrier(WriteBarrier::Userfaultfd).barrier().barrier != WriteBarrier::Userfaultfd {
            println!("not tested: userfaultfd is not permitted");
            return;
        }
        let layout = core::alloc::Layout::new::<[u64; 16]>();
        let options = Options { arena_bytes: 256 << 20, seed: Some(3), ..Options::default() };
        let platform = HybridPlatform::with_barrier(WriteBarrier::Userfaultfd);
        let heap = Heap::with_options(platform, options).expect("Linux has room");
        for _ in 0..3 {
            let kept = sparse_objects(&heap, layout, 50_000, 10);
            let before = heap.statistics().pages_meshed;
            loop {
                match heap.mesh(MeshBudget::UNLIMITED).end {
                    StepEnd::Budget => {}
                    StepEnd::PassDone => break,
                    end => panic!("{end:?}"),
                }
            }
            assert!(heap.statistics().pages_meshed > before + 100, "pages were meshed");
            assert_untouched(&kept);
            close_all();
        }
    });
}
