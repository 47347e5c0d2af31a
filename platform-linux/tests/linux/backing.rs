//! What the arena is made of: each kind does what it promises, and the choice falls on what the system allows.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd};

use meshheap::{Operation, PageIndex, PageRun, Platform, Purpose, Touch};
use meshheap_linux::memory::mapping_count;
use meshheap_linux::{Backing, BackingChoice, LinuxPlatform};

use crate::arena::error;
use crate::heap::{are_untouched, assert_meshes, heap_on, mesh_all, sparse_objects};
use crate::process::alone;

/// Room for the objects of `assert_meshes`.
const ARENA_BYTES: usize = 64 << 20;

/// What is said of a backing that nothing stood in the way of.
const fn free_choice(backing: Backing) -> BackingChoice {
    BackingChoice { backing, memfd: None, shared_anonymous: None, unsealed: None }
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("Linux has this folder").count()
}

#[test]
fn a_heap_on_a_file_in_memory_meshes() {
    alone(|| {
        let platform = LinuxPlatform::with_backing(Backing::Memfd);
        assert_eq!(platform.backing(), free_choice(Backing::Memfd));
        assert_meshes(platform, ARENA_BYTES);
    });
}

#[test]
fn a_heap_on_shared_anonymous_memory_meshes() {
    alone(|| {
        let platform = LinuxPlatform::with_backing(Backing::SharedAnonymous);
        assert_eq!(platform.backing(), free_choice(Backing::SharedAnonymous));
        assert_meshes(platform, ARENA_BYTES);
    });
}

#[test]
fn each_kind_of_shared_memory_meshes_behind_a_write_barrier() {
    alone(|| {
        for backing in [Backing::Memfd, Backing::SharedAnonymous] {
            let platform = LinuxPlatform::with_backing(backing).and_write_barrier();
            assert!(platform.facts().write_barrier, "Linux installs handlers");
            assert_meshes(platform, ARENA_BYTES);
        }
    });
}

#[test]
fn a_heap_on_private_memory_works_and_does_not_mesh() {
    let platform = LinuxPlatform::with_backing(Backing::Private).and_write_barrier();
    let facts = platform.facts();
    assert!(facts.can_purge && !facts.can_alias && !facts.can_protect && !facts.write_barrier);
    assert_eq!(platform.backing(), free_choice(Backing::Private));
    let heap = heap_on(platform, ARENA_BYTES);
    let kept = sparse_objects(&heap);
    mesh_all(&heap);
    assert!(are_untouched(&kept) && heap.statistics().aliased_bytes == 0);
}

#[test]
fn private_memory_does_what_it_can_and_says_what_it_cannot() {
    let platform = LinuxPlatform::with_backing(Backing::Private);
    let page = platform.facts().page_size;
    let base = platform.reserve(Purpose::Arena, 4 * page, page).expect("an arena");
    assert_eq!(platform.reserve(Purpose::Arena, page, page), error(Operation::Reserve, libc::EBUSY));
    let [first, second, third] = [0, 1, 2].map(|page| PageRun::new(PageIndex::new(page), 1));
    // SAFETY: pages of the reservation.
    let words = [0, 1, 2].map(|index| unsafe { base.add(index * page) }.cast::<usize>());
    // SAFETY: they are fresh.
    unsafe { platform.commit(PageRun::new(first.start, 3), Touch::Sparse) }.expect("memory");
    for word in words {
        // SAFETY: the pages were committed, and nothing else uses them.
        unsafe { word.write(word.addr().get()) };
    }
    // SAFETY: there are no objects.
    unsafe { platform.relocate(first, third.start) }.expect("Linux moves private memory");
    // SAFETY: as above.
    unsafe { platform.purge(second) }.expect("Linux gives pages back");
    // SAFETY: as when they were written.
    assert_eq!(words.map(|word| unsafe { word.read() }), [0, 0, words[0].addr().get()]);
    // SAFETY: as above.
    assert_eq!(unsafe { platform.alias(second, PageIndex::new(0)) }, error(Operation::Alias, libc::EOPNOTSUPP));
    // SAFETY: as above.
    assert_eq!(unsafe { platform.unalias(second) }, error(Operation::Unalias, libc::EOPNOTSUPP));
    // SAFETY: the reservation from above, not used any more.
    unsafe { platform.release(Purpose::Arena, base, 4 * page) };
}

#[test]
fn by_default_it_is_a_file_in_memory_and_trying_leaves_nothing_behind() {
    alone(|| {
        let before = (mapping_count(), open_files());
        let platform = LinuxPlatform::new();
        assert_eq!(platform.backing(), free_choice(Backing::Memfd));
        assert_eq!((mapping_count(), open_files()), before);
    });
}

/// What `/proc/self/maps` calls the mappings of an arena.
fn names_of_arena(backing: Backing) -> Vec<String> {
    let platform = LinuxPlatform::with_backing(backing);
    let page = platform.facts().page_size;
    let base = platform.reserve(Purpose::Arena, 16 * page, page).expect("an arena");
    // SAFETY: there are no objects.
    unsafe { platform.alias(PageRun::new(PageIndex::new(8), 1), PageIndex::new(0)) }.expect("two mappings");
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux has this file");
    // SAFETY: the reservation from above, not used any more.
    unsafe { platform.release(Purpose::Arena, base, 16 * page) };
    maps.lines().filter(|line| line.contains("meshheap") && line.contains(" rw-s ")).map(str::to_owned).collect()
}

#[test]
fn arenas_can_be_told_by_their_names() {
    alone(|| {
        assert_eq!(names_of_arena(Backing::Memfd).len(), 4);
        let names = names_of_arena(Backing::SharedAnonymous);
        // Linux before 6.2, or built without it, has no names for shared memory.
        assert!(names.is_empty() || names.len() == 4, "{names:?}");
    });
}

#[test]
fn a_program_that_closes_every_descriptor_keeps_its_heap_and_its_own_files() {
    alone(|| {
        for backing in [Backing::Memfd, Backing::SharedAnonymous] {
            let heap = heap_on(LinuxPlatform::with_backing(backing), ARENA_BYTES);
            let kept = sparse_objects(&heap);
            // SAFETY: takes numbers only. The test holds no descriptor beyond the standard ones, and neither does the runner.
            assert_eq!(unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) }, 0);
            // As many numbers as any heap could have had.
            let mut files: Vec<_> = (0..16).map(|_| own_file()).collect();
            assert_eq!(files[0].as_raw_fd(), 3, "all were closed");
            mesh_all(&heap);
            assert!(are_untouched(&kept) && heap.statistics().aliased_bytes > 0);
            let more = sparse_objects(&heap);
            mesh_all(&heap);
            assert!(are_untouched(&kept) && are_untouched(&more));
            drop(heap);
            for file in &mut files {
                let mut content = Vec::new();
                file.rewind().expect("it is a file");
                file.read_to_end(&mut content).expect("it is open");
                assert!(content.len() == FILE_BYTES && content.iter().all(|&byte| byte == 7));
            }
        }
    });
}

const FILE_BYTES: usize = 64 << 10;

/// A file of the program's own, full of sevens.
fn own_file() -> File {
    // SAFETY: the name ends with a zero.
    let fd = unsafe { libc::memfd_create(c"own".as_ptr(), libc::MFD_CLOEXEC) };
    assert!(fd >= 0);
    // SAFETY: opened just now, and nobody else's.
    let mut file = unsafe { File::from_raw_fd(fd) };
    file.write_all(&[7; FILE_BYTES]).expect("it is in memory");
    file
}
