//! The descriptor behind the barrier made of userfaultfd: a program may close it, lack it, or fork with it.

use std::fs::{File, read_dir, read_link};
use std::io::{Read, Seek, Write};
use std::os::fd::{AsRawFd, RawFd};

use meshheap::{Access, Operation};

use crate::arena::{Arena, error, run};
use crate::barrier_userfaultfd::{Sleeper, arena};
use crate::process::{alone, ends_well, lower_for_a_while};

/// The process's userfaultfds.
fn descriptors() -> Vec<RawFd> {
    let all = read_dir("/proc/self/fd").expect("Linux tells").filter_map(Result::ok);
    let ours = all.filter(|entry| read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().contains("userfaultfd")));
    ours.map(|entry| entry.file_name().to_string_lossy().parse().expect("a number")).collect()
}

fn close(number: RawFd) {
    // SAFETY: a program may close what it likes, which is what is tested.
    assert_eq!(unsafe { libc::close(number) }, 0);
}

fn mesh(arena: &Arena) {
    arena.protect(run(8, 1), Access::ReadOnly).expect("two mappings");
    arena.alias(run(8, 1), 2).expect("as many");
    arena.fill(8..9, 5);
    assert!(arena.holds(2, 5));
    arena.unalias(run(8, 1)).expect("it merges");
}

/// Puts the userfaultfd's number to another use, and gives the file.
fn file_with_number(number: RawFd) -> File {
    close(number);
    let path = std::env::temp_dir().join(format!("meshheap-own-{}", std::process::id()));
    let mut file = File::options().read(true).write(true).create(true).truncate(true).open(&path).expect("room");
    std::fs::remove_file(&path).expect("it was just made");
    assert_eq!(file.as_raw_fd(), number, "the lowest free number");
    file.write_all(b"mine").expect("room for a few bytes");
    file
}

#[test]
fn there_is_one_for_each_arena_which_other_programs_do_not_inherit() {
    alone(|| {
        let Some(first) = arena(16) else { return };
        let second = arena(16).expect("permitted");
        let open = descriptors();
        assert_eq!(open.len(), 2);
        for number in open {
            // SAFETY: takes numbers only.
            assert_eq!(unsafe { libc::fcntl(number, libc::F_GETFD) }, libc::FD_CLOEXEC);
        }
        drop(first);
        mesh(&second);
        drop(second);
        assert_eq!(descriptors(), []);
    });
}

#[test]
fn its_number_is_none_that_a_program_takes_for_its_standard_streams() {
    alone(|| {
        close(libc::STDIN_FILENO);
        let Some(arena) = arena(16) else { return };
        assert!(descriptors().into_iter().all(|number| number > libc::STDERR_FILENO));
        let next = File::open("/dev/null").expect("it is there");
        assert_eq!(next.as_raw_fd(), libc::STDIN_FILENO);
        mesh(&arena);
    });
}

#[test]
fn after_the_program_closed_it_there_is_no_mesh_and_nothing_is_lost() {
    alone(|| {
        let Some(arena) = arena(16) else { return };
        arena.fill(8..9, 8);
        close(descriptors()[0]);
        for _ in 0..2 {
            assert_eq!(arena.protect(run(8, 1), Access::ReadOnly), error(Operation::Protect, libc::EBADF));
            // Nobody waits for anything.
            arena.fill(8..9, 8);
        }
        arena.alias(run(10, 1), 2).expect("at a safepoint this works still");
        arena.fill(10..11, 3);
        assert!(arena.holds(2, 3) && arena.holds(8, 8));
        assert_eq!(descriptors(), [], "nothing is opened behind the program's back");
    });
}

#[test]
fn a_file_that_got_its_number_is_left_alone() {
    alone(|| {
        let Some(arena) = arena(16) else { return };
        let mut file = file_with_number(descriptors()[0]);
        assert_eq!(arena.protect(run(8, 1), Access::ReadOnly), error(Operation::Protect, libc::EBADF));
        arena.fill(8..9, 1);
        drop(arena);
        file.rewind().expect("it is open");
        let mut content = String::new();
        file.read_to_string(&mut content).expect("it is open");
        assert_eq!(content, "mine");
    });
}

#[test]
fn another_userfaultfd_that_got_its_number_is_left_alone() {
    alone(|| {
        let Some(first) = arena(16) else { return };
        close(descriptors()[0]);
        let second = arena(16).expect("permitted");
        assert_eq!(first.protect(run(8, 1), Access::ReadOnly), error(Operation::Protect, libc::EBADF));
        drop(first);
        assert_eq!(descriptors().len(), 1);
        mesh(&second);
    });
}

#[test]
fn if_it_is_closed_while_a_writer_waits_the_writer_goes_on() {
    alone(|| {
        let Some(arena) = arena(16) else { return };
        let start = arena.address(&(8..9)).as_ptr().expose_provenance();
        arena.protect(run(8, 1), Access::ReadOnly).expect("two mappings");
        let sleeper = Sleeper::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let byte = core::ptr::with_exposed_provenance_mut::<u8>(start);
                // SAFETY: the byte lies in the arena, and nobody else writes to it.
                sleeper.run(|| unsafe { byte.write_volatile(7) });
            });
            sleeper.wait_until_it_waits();
            close(descriptors()[0]);
        });
        arena.protect(run(8, 1), Access::ReadWrite).expect("the kernel did it already");
        assert_eq!(arena.protect(run(8, 1), Access::ReadOnly), error(Operation::Protect, libc::EBADF));
    });
}

#[test]
fn a_child_of_a_fork_has_one_of_its_own_and_does_not_touch_its_parents_memory() {
    alone(|| {
        let Some(arena) = arena(16) else { return };
        mesh(&arena);
        let parents = descriptors();
        assert!(ends_well(|| {
            mesh(&arena);
            // What is protected here must not make the parent wait, who is not woken.
            let is_raised = arena.protect(run(8, 1), Access::ReadOnly).is_ok();
            is_raised && descriptors().len() == 1
        }));
        // The memory is shared, the mappings are not.
        arena.fill(8..9, 1);
        mesh(&arena);
        assert_eq!(descriptors(), parents);
    });
}

#[test]
fn a_child_that_closed_all_it_inherited_meshes() {
    alone(|| {
        let Some(arena) = arena(16) else { return };
        let inherited = descriptors()[0];
        assert!(ends_well(|| {
            let mut file = file_with_number(inherited);
            mesh(&arena);
            let mut content = String::new();
            file.rewind().is_ok() && file.read_to_string(&mut content).is_ok() && content == "mine"
        }));
        mesh(&arena);
    });
}

#[test]
fn without_descriptors_there_is_no_mesh_until_there_are_some() {
    alone(|| {
        let Some(arena) = arena(16) else { return };
        assert!(ends_well(|| {
            let lift = lower_for_a_while(libc::RLIMIT_NOFILE, 0);
            let refused = arena.protect(run(8, 1), Access::ReadOnly);
            arena.fill(8..9, 1);
            lift();
            mesh(&arena);
            refused == error(Operation::Protect, libc::EMFILE)
        }));
    });
}
