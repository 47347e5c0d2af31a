//! Which barrier a platform gets, and what it tells of that.

use meshheap::{Access, Platform};
use meshheap_linux::{Backing, LinuxPlatform, Refusal, WriteBarrier};

use crate::arena::{Arena, run};
use crate::backing_limits::refuse;
use crate::barrier::action;
use crate::barrier_userfaultfd::arena;
use crate::process::{alone, set_limit};

fn refusal(by: &'static str, code: i32) -> Option<Refusal> {
    Some(Refusal { by, code })
}

#[test]
fn it_is_userfaultfd_where_the_system_permits_it() {
    if arena(16).is_none() {
        return;
    }
    let choice = LinuxPlatform::with_write_barrier().barrier();
    assert_eq!(choice.barrier, WriteBarrier::Userfaultfd);
    assert_eq!((choice.userfaultfd, choice.page_protection), (None, None));
}

#[test]
fn it_is_page_protection_under_a_filter_without_userfaultfd() {
    alone(|| {
        // The device might give one.
        refuse(&[libc::SYS_userfaultfd, libc::SYS_openat]);
        let platform = LinuxPlatform::with_write_barrier();
        let choice = platform.barrier();
        assert_eq!(choice.barrier, WriteBarrier::PageProtection);
        assert_eq!((choice.userfaultfd, choice.page_protection), (refusal("userfaultfd", libc::EPERM), None));
        let arena = Arena::on(platform, 16);
        arena.protect(run(8, 1), Access::ReadOnly).expect("two mappings");
        arena.alias(run(8, 1), 2).expect("as many");
        arena.fill(8..9, 1);
    });
}

#[test]
fn it_is_page_protection_without_privileges() {
    alone(|| {
        // SAFETY: takes numbers only.
        if unsafe { libc::geteuid() } == 0 {
            // SAFETY: takes numbers only.
            assert_eq!(unsafe { libc::setresuid(65534, 65534, 65534) }, 0);
        }
        let choice = LinuxPlatform::with_write_barrier().barrier();
        match choice.userfaultfd {
            Some(refused) => {
                assert_eq!(refused, Refusal { by: "userfaultfd", code: libc::EPERM });
                assert_eq!(choice.barrier, WriteBarrier::PageProtection);
            }
            // The administrator permits it.
            None => assert_eq!(choice.barrier, WriteBarrier::Userfaultfd),
        }
    });
}

#[test]
fn a_barrier_that_is_asked_for_by_name_and_refused_is_none() {
    alone(|| {
        refuse(&[libc::SYS_userfaultfd, libc::SYS_openat, libc::SYS_rt_sigaction]);
        let before = LinuxPlatform::new().barrier();
        assert_eq!((before.userfaultfd, before.page_protection), (None, None), "nothing was tried");
        for (barrier, by) in [(WriteBarrier::Userfaultfd, "userfaultfd"), (WriteBarrier::PageProtection, "sigaction")] {
            let platform = LinuxPlatform::new().and_barrier(barrier);
            assert!(!platform.facts().write_barrier);
            let choice = platform.barrier();
            assert_eq!(choice.barrier, WriteBarrier::None);
            let told = [choice.userfaultfd, choice.page_protection].into_iter().flatten().collect::<Vec<_>>();
            assert_eq!(told, [Refusal { by, code: libc::EPERM }]);
        }
        let choice = LinuxPlatform::with_write_barrier().barrier();
        assert_eq!(choice.barrier, WriteBarrier::None);
        assert_eq!(choice.userfaultfd, refusal("userfaultfd", libc::EPERM));
        assert_eq!(choice.page_protection, refusal("sigaction", libc::EPERM));
    });
}

#[test]
fn none_is_none_and_installs_no_handler() {
    alone(|| {
        let before = action();
        let platform = LinuxPlatform::new().and_barrier(WriteBarrier::None);
        assert!(!platform.facts().write_barrier);
        drop(Arena::on(platform, 16));
        assert_eq!(action(), before);
    });
}

#[test]
fn private_memory_has_none_and_says_why() {
    let platform = LinuxPlatform::with_backing(Backing::Private).and_write_barrier();
    let choice = platform.barrier();
    assert_eq!((choice.barrier, platform.facts().write_barrier), (WriteBarrier::None, false));
    assert_eq!(choice.userfaultfd, refusal("private memory", libc::EOPNOTSUPP));
    assert_eq!(choice.page_protection, choice.userfaultfd);
}

#[test]
fn without_descriptors_it_is_page_protection() {
    alone(|| {
        set_limit(libc::RLIMIT_NOFILE, 3);
        let choice = LinuxPlatform::with_write_barrier().barrier();
        assert_eq!(choice.barrier, WriteBarrier::PageProtection);
        assert!(choice.userfaultfd.is_some());
    });
}
