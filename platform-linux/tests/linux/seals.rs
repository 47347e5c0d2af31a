//! Nobody can cut the file short that a heap's memory lies in: whoever touched its pages afterwards would be killed by SIGBUS.

use core::alloc::Layout;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;

use meshheap::{Heap, Options, Platform};
use meshheap_linux::{Backing, HybridPlatform, LinuxPlatform};
use meshheap_tests::sparse::{assert_untouched, mesh_all, sparse_objects};

use crate::backing_limits::refuse;
use crate::process::alone;

const LAYOUT: Layout = Layout::new::<[u64; 16]>();

fn heap<P: Platform>(platform: P) -> Heap<P> {
    let options = Options { arena_bytes: 64 << 20, seed: Some(3), ..Options::default() };
    Heap::with_options(platform, options).expect("Linux has room")
}

/// The heap's file, as a debugger or a mistaken program gets hold of it. None where that is not permitted.
fn file_of_heap() -> Option<File> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux has this file");
    let line = maps.lines().find(|line| line.contains("memfd:meshheap"))?;
    let path = format!("/proc/self/map_files/{}", line.split(' ').next()?);
    OpenOptions::new().read(true).write(true).open(path).ok()
}

fn assert_cannot_be_cut<P: Platform>(heap: &Heap<P>) {
    let kept = sparse_objects(heap, LAYOUT, 60_000, 10);
    mesh_all(heap);
    assert!(heap.statistics().aliased_bytes > 0, "pages were meshed");
    if let Some(file) = file_of_heap() {
        let copy = file.try_clone().expect("another descriptor");
        for file in [&file, &copy] {
            let refused = file.set_len(4096).expect_err("the length is sealed");
            assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
            assert!(file.set_len(1 << 40).is_err(), "in both directions");
        }
        // SAFETY: takes numbers only.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        assert_eq!(seals & libc::F_SEAL_WRITE, 0);
    }
    assert_untouched(&kept);
    // Pages are still given back and taken.
    let held = heap.statistics().held_bytes;
    for object in kept {
        // SAFETY: the object is live and is not used afterwards.
        unsafe { heap.dealloc(object, LAYOUT) };
    }
    heap.purge().expect("Linux gives pages back");
    assert!(heap.statistics().held_bytes < held / 2);
    assert_untouched(&sparse_objects(heap, LAYOUT, 60_000, 10));
}

#[test]
fn nobody_can_cut_an_arena_s_file_short() {
    alone(|| {
        let heap = heap(LinuxPlatform::with_backing(Backing::Memfd));
        assert_cannot_be_cut(&heap);
        assert_eq!(heap.platform().backing().unsealed, None);
    });
}

#[test]
fn nobody_can_cut_the_file_of_meshed_pages_short() {
    alone(|| {
        let heap = heap(HybridPlatform::new());
        assert_cannot_be_cut(&heap);
        assert_eq!(heap.platform().unsealed(), None);
    });
}

#[test]
fn where_sealing_is_refused_it_is_a_fact() {
    alone(|| {
        refuse(&[libc::SYS_fcntl]);
        let shared = heap(LinuxPlatform::with_backing(Backing::Memfd));
        let refusal = shared.platform().backing().unsealed.expect("fcntl is refused");
        assert_eq!((refusal.by, refusal.code), ("fcntl(F_ADD_SEALS)", libc::EPERM));
        let hybrid = heap(HybridPlatform::new());
        let kept = sparse_objects(&hybrid, LAYOUT, 60_000, 10);
        mesh_all(&hybrid);
        assert!(hybrid.statistics().aliased_bytes > 0, "it meshes all the same");
        assert_eq!(hybrid.platform().unsealed(), Some(refusal));
        assert_untouched(&kept);
    });
}
