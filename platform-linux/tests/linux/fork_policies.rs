//! What the child of a fork has of a heap, by policy: the snapshot's tests are in `hybrid`.

use core::alloc::Layout;
use core::ptr::NonNull;

use meshheap::{Heap, MeshBudget, Operation, Options, Platform, PlatformError, StepEnd};
use meshheap_linux::{Backing, ForkPolicy, HybridPlatform, LinuxPlatform, PrivatePlatform};
use meshheap_tests::sparse::{assert_untouched, mesh_all, sparse_objects};

use crate::process::{alone, in_child};

const LAYOUT: Layout = Layout::new::<[u64; 16]>();

fn heap<P: Platform>(platform: P) -> Heap<P> {
    let options = Options { arena_bytes: 256 << 20, seed: Some(3), ..Options::default() };
    Heap::with_options(platform, options).expect("Linux has room")
}

/// Runs `child` in a process that the heap is prepared for.
fn fork<P: Platform>(heap: &Heap<P>, child: impl FnOnce()) -> Option<i32> {
    heap.fork_prepare().expect("the policy is this platform's");
    // SAFETY: this thread, or the one that it continues, called `fork_prepare`.
    in_child(|| unsafe { heap.fork_done() }, child)
}

/// The mappings of this process that have something of the addresses: their permissions and flags.
fn mappings(start: usize, bytes: usize) -> Vec<(String, String)> {
    let smaps = std::fs::read_to_string("/proc/self/smaps").expect("Linux has this file");
    let number = |text| usize::from_str_radix(text, 16).expect("the kernel writes addresses");
    let mut found = Vec::new();
    let mut permissions = None;
    for line in smaps.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            found.extend(permissions.take().map(|permissions| (permissions, flags.to_owned())));
        } else if let Some((range, rest)) = line.split_once(' ')
            && let Some((from, to)) = range.split_once('-')
        {
            let is_inside = number(from) < start + bytes && start < number(to);
            permissions = is_inside.then(|| rest[..4].to_owned());
        }
    }
    found
}

/// Drops the heap in a child, which ends without doing that again.
fn drop_in_child<P: Platform>(heap: &Heap<P>) {
    // SAFETY: nobody uses the heap afterwards: a child exits without dropping what its parent holds.
    drop(unsafe { core::ptr::from_ref(heap).read() });
}

/// The part of the arena that the objects lie in.
fn arena(objects: &[NonNull<u8>]) -> (usize, usize) {
    let addresses = || objects.iter().map(|object| object.addr().get());
    let start = addresses().min().expect("there are objects") & !((64 << 10) - 1);
    (start, addresses().max().expect("there are objects") - start)
}

/// An object's first word.
fn word(object: NonNull<u8>) -> usize {
    // SAFETY: objects hold sixteen words, and were written.
    unsafe { object.cast::<usize>().read_volatile() }
}

fn set_word(object: NonNull<u8>, value: usize) {
    // SAFETY: as above.
    unsafe { object.cast::<usize>().write_volatile(value) };
}

/// The child has nothing of the heap; the parent's is as it was, also once the child has dropped it.
fn assert_excludes<P: Platform>(platform: P) {
    let heap = heap(platform);
    let kept = sparse_objects(&heap, LAYOUT, 60_000, 10);
    mesh_all(&heap);
    let more = sparse_objects(&heap, LAYOUT, 60_000, 10);
    // Some go, so that pages return to what they were.
    let (freed, kept) = kept.split_at(kept.len() / 2);
    for &object in freed {
        // SAFETY: the object is live and is not used afterwards.
        unsafe { heap.dealloc(object, LAYOUT) };
    }
    mesh_all(&heap);
    let (start, bytes) = arena(kept);
    for (permissions, flags) in mappings(start, bytes) {
        assert!(flags.contains(" dc"), "a fork would copy {permissions} {flags}");
    }
    let taken = heap.statistics().taken_bytes;
    let killed = fork(&heap, || {
        let found: Vec<_> = mappings(start, bytes).into_iter().map(|(permissions, _)| permissions).collect();
        assert_eq!(found, ["---p"], "the addresses are kept free");
        assert_eq!(heap.statistics().taken_bytes, taken);
        // SAFETY: nobody writes to objects.
        let step = unsafe { heap.mesh_at_safepoint(MeshBudget::UNLIMITED) };
        assert!(step.pages_freed == 0, "{step:?}");
        assert!(fork(&heap, || assert_eq!(word(kept[0]), 0, "unreachable")) == Some(libc::SIGSEGV));
        drop_in_child(&heap);
        assert_eq!(mappings(start, bytes), [], "all is given back");
    });
    assert_eq!(killed, None);
    assert_eq!(fork(&heap, || assert_eq!(word(kept[0]), 0, "unreachable")), Some(libc::SIGSEGV));
    assert_untouched(kept);
    assert_untouched(&more);
    mesh_all(&heap);
    heap.check_invariants();
    assert_untouched(&more);
}

#[test]
fn an_excluded_heap_is_not_in_the_child() {
    alone(|| assert_excludes(HybridPlatform::new().with_fork_policy(ForkPolicy::Exclude)));
    alone(|| assert_excludes(PrivatePlatform::new().with_fork_policy(ForkPolicy::Exclude)));
    for backing in [Backing::Memfd, Backing::SharedAnonymous, Backing::Private] {
        let platform = LinuxPlatform::with_backing(backing).with_fork_policy(ForkPolicy::Exclude);
        alone(|| assert_excludes(platform));
    }
}

#[test]
fn who_frees_what_is_excluded_gets_errors_and_harms_nobody() {
    alone(|| {
        let heap = heap(HybridPlatform::new().with_fork_policy(ForkPolicy::Exclude));
        let kept = sparse_objects(&heap, LAYOUT, 60_000, 10);
        let ended = fork(&heap, || {
            for &object in &kept {
                // SAFETY: the object was live at the fork.
                unsafe { heap.dealloc(object, LAYOUT) };
            }
            let outcome = heap.purge().expect_err("there is nothing to give back");
            assert_eq!((outcome.operation, outcome.code), (Operation::Purge, libc::ENXIO));
            let large = Layout::from_size_align(64 << 20, 8).expect("a layout");
            assert!(heap.alloc(large).is_err(), "fresh pages are refused");
        });
        assert_eq!(ended, None);
        assert_untouched(&kept);
    });
}

#[test]
fn a_child_that_nobody_prepared_loses_nothing_of_its_own() {
    alone(|| {
        let heap = heap(HybridPlatform::new().with_fork_policy(ForkPolicy::Exclude));
        let kept = sparse_objects(&heap, LAYOUT, 20_000, 10);
        mesh_all(&heap);
        let (start, bytes) = arena(&kept);
        let ended = in_child(
            || {},
            || {
                assert_eq!(mappings(start, bytes), [], "the child has no such addresses");
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
                let at = core::ptr::with_exposed_provenance_mut(start);
                let access = libc::PROT_READ | libc::PROT_WRITE;
                // SAFETY: nobody uses these addresses.
                let own = unsafe { libc::mmap(at, 1 << 20, access, flags, -1, 0) };
                assert_eq!(own.addr(), start);
                // SAFETY: mapped just now.
                unsafe { own.cast::<u64>().write(7) };
                drop_in_child(&heap);
                // SAFETY: as above.
                assert_eq!(unsafe { own.cast::<u64>().read() }, 7);
            },
        );
        assert_eq!(ended, None);
        assert_untouched(&kept);
    });
}

#[test]
fn a_shared_heap_is_one_memory_for_parent_and_child() {
    alone(|| {
        for backing in [Backing::Memfd, Backing::SharedAnonymous] {
            let heap = heap(LinuxPlatform::with_backing(backing).with_fork_policy(ForkPolicy::Share));
            let kept = sparse_objects(&heap, LAYOUT, 60_000, 10);
            mesh_all(&heap);
            assert!(heap.statistics().aliased_bytes > 0);
            let (first, rest) = (kept[0], &kept[1..]);
            set_word(first, 1);
            let ended = fork(&heap, || {
                assert_eq!(word(first), 1);
                assert_untouched(rest);
                set_word(first, 2);
                // Whatever the child does with the heap takes no page away from the parent.
                for &object in rest {
                    // SAFETY: the object was live at the fork.
                    unsafe { heap.dealloc(object, LAYOUT) };
                }
                assert_eq!(heap.purge().map_err(|error| error.code), Err(libc::ENXIO));
                // SAFETY: nobody writes to objects.
                let step = unsafe { heap.mesh_at_safepoint(MeshBudget::UNLIMITED) };
                assert!(!matches!(step.end, StepEnd::Refused(error) if error.code != libc::ENXIO), "{step:?}");
                assert!(step.pages_freed == 0 && step.pages_purged == 0, "{step:?}");
                drop_in_child(&heap);
            });
            assert_eq!(ended, None);
            assert_eq!(word(first), 2, "one memory");
            assert_untouched(rest);
            mesh_all(&heap);
            heap.check_invariants();
        }
    });
}

#[test]
fn what_memory_cannot_do_is_refused() {
    fn assert_refuses<P: Platform>(platform: P) {
        let heap = heap(platform);
        let outcome = heap.fork_prepare();
        // SAFETY: this thread called `fork_prepare`.
        unsafe { heap.fork_done() };
        let refused = PlatformError { operation: Operation::Freeze, code: libc::EOPNOTSUPP };
        assert_eq!(outcome, Err(refused));
        assert!(heap.alloc(LAYOUT).is_ok(), "the heap goes on");
    }
    assert_refuses(HybridPlatform::new().with_fork_policy(ForkPolicy::Share));
    assert_refuses(LinuxPlatform::with_backing(Backing::Memfd).with_fork_policy(ForkPolicy::Snapshot));
}
