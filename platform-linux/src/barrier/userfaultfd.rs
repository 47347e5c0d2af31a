//! The kernel's userfaultfd: its calls, and the descriptor that they need.

use core::ffi::{CStr, c_int};
use core::mem::MaybeUninit;

use crate::backing::Refusal;
use crate::calls;
use crate::descriptor::Descriptor;
use crate::errno::{Errno, check};

// Of the kernel's `linux/userfaultfd.h`.
const API: u64 = 0xaa;
/// Write protection of shared memory.
const FEATURE_WP_SHMEM: u64 = 1 << 12;
/// Write protection of private pages that were not touched yet. Linux 6.4 has both.
const FEATURE_WP_UNPOPULATED: u64 = 1 << 13;
const REGISTER_WP: u64 = 1 << 1;
const WRITE_PROTECT: u64 = 1 << 0;

#[repr(C)]
struct ApiArguments {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Range {
    start: u64,
    bytes: u64,
}

#[repr(C)]
struct RegisterArguments {
    range: Range,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct ProtectArguments {
    range: Range,
    mode: u64,
}

const TYPE: u32 = 0xaa;
const NEW: libc::Ioctl = libc::_IO(TYPE, 0x00);
const SET_API: libc::Ioctl = libc::_IOWR::<ApiArguments>(TYPE, 0x3f);
const REGISTER: libc::Ioctl = libc::_IOWR::<RegisterArguments>(TYPE, 0x00);
const UNREGISTER: libc::Ioctl = libc::_IOR::<Range>(TYPE, 0x01);
const WAKE: libc::Ioctl = libc::_IOR::<Range>(TYPE, 0x02);
const PROTECT: libc::Ioctl = libc::_IOWR::<ProtectArguments>(TYPE, 0x06);

/// Gives userfaultfds to whoever may open it.
const DEVICE: &CStr = c"/dev/userfaultfd";

/// Which open file a descriptor is: each userfaultfd has an inode of its own (since Linux 5.12).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Identity(libc::dev_t, libc::ino_t);

/// A userfaultfd for this process's memory, whose page faults may come from the kernel, too.
///
/// It is the one descriptor that this library keeps. The program may close it without a word, and open a file of its own that
/// gets the number; so it is looked at before each use.
#[derive(Debug)]
pub(super) struct Userfaultfd {
    number: c_int,
    identity: Identity,
    /// Whose memory it is for. After a fork, a child's calls would change its parent's.
    process: libc::pid_t,
}

impl Userfaultfd {
    /// A new one.
    pub(super) fn open() -> Result<Self, Refusal> {
        let file = open_file()?;
        let mut arguments = ApiArguments { api: API, features: FEATURE_WP_SHMEM | FEATURE_WP_UNPOPULATED, ioctls: 0 };
        // SAFETY: the kernel reads and writes the arguments, which are of the kind that it expects.
        let done = check(unsafe { libc::ioctl(file.number(), SET_API, &raw mut arguments) });
        done.map_err(|errno| errno.by("UFFDIO_API"))?;
        let identity = identity(file.number()).map_err(|errno| errno.by("fstat"))?;
        Ok(Self { number: file.into_number(), identity, process: process() })
    }

    /// Whether it was opened by another process, of which this is a child.
    pub(super) fn is_inherited(&self) -> bool {
        self.process != process()
    }

    /// Whether the descriptor is what was opened.
    pub(super) fn is_open(&self) -> bool {
        identity(self.number) == Ok(self.identity)
    }

    /// Writers to these addresses wait in the kernel from now on, whoever writes, until they are woken. Costs the two borders
    /// of a mapping that changes. On failure nobody waits.
    pub(super) fn protect(&self, start: usize, bytes: usize) -> Result<(), Errno> {
        if !self.is_open() {
            return Err(Errno(libc::EBADF));
        }
        let range = Range { start: start as u64, bytes: bytes as u64 };
        let mut arguments = RegisterArguments { range, mode: REGISTER_WP, ioctls: 0 };
        // SAFETY: as in `open`.
        check(unsafe { libc::ioctl(self.number, REGISTER, &raw mut arguments) })?;
        let done = self.set_protection(range, WRITE_PROTECT);
        if done.is_err() {
            let _ = self.unprotect(start, bytes);
        }
        done
    }

    /// The addresses can be written again; who waited goes on.
    pub(super) fn unprotect(&self, start: usize, bytes: usize) -> Result<(), Errno> {
        if !self.is_open() {
            // The kernel did it when the last descriptor went.
            return Ok(());
        }
        let mut range = Range { start: start as u64, bytes: bytes as u64 };
        // SAFETY: as in `open`.
        let done = check(unsafe { libc::ioctl(self.number, UNREGISTER, &raw mut range) });
        if done.is_err() {
            // No memory to merge mappings: they stay registered, but nobody waits.
            return self.set_protection(range, 0);
        }
        // Unregistering wakes those only who wait for missing pages.
        self.wake(start, bytes);
        Ok(())
    }

    fn set_protection(&self, range: Range, mode: u64) -> Result<(), Errno> {
        let mut arguments = ProtectArguments { range, mode };
        // SAFETY: as in `open`.
        check(unsafe { libc::ioctl(self.number, PROTECT, &raw mut arguments) })?;
        Ok(())
    }

    /// Lets those go on who wait at these addresses, which show another mapping by now. Whoever meets it when the descriptor
    /// was closed was woken by that; and no other file knows this call.
    pub(super) fn wake(&self, start: usize, bytes: usize) {
        let mut range = Range { start: start as u64, bytes: bytes as u64 };
        // SAFETY: as in `open`.
        let _ = check(unsafe { libc::ioctl(self.number, WAKE, &raw mut range) });
    }
}

impl Drop for Userfaultfd {
    fn drop(&mut self) {
        if self.is_open() {
            drop(Descriptor::new(self.number));
        }
    }
}

/// By the system call, which a privileged process may make, or by the device.
fn open_file() -> Result<Descriptor, Refusal> {
    // Without UFFD_USER_MODE_ONLY: the kernel's own writes are to wait, too.
    // SAFETY: takes numbers only.
    let number = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) };
    #[expect(clippy::cast_possible_truncation, reason = "descriptors are small numbers")]
    let opened = check(number as c_int).map(Descriptor::new).map_err(|errno| errno.by("userfaultfd"));
    opened.or_else(|refusal| open_by_device().ok_or(refusal)).map(beyond_standard)
}

fn open_by_device() -> Option<Descriptor> {
    let device = calls::open(DEVICE, libc::O_RDWR | libc::O_CLOEXEC).ok()?;
    let device = Descriptor::new(device);
    // SAFETY: takes numbers only.
    check(unsafe { libc::ioctl(device.number(), NEW, libc::O_CLOEXEC) }).ok().map(Descriptor::new)
}

/// The same file with a number that no program takes for its standard streams: those who closed them expect the numbers at
/// their next `open`.
fn beyond_standard(file: Descriptor) -> Descriptor {
    if file.number() > libc::STDERR_FILENO {
        return file;
    }
    // SAFETY: takes numbers only.
    let moved = check(unsafe { libc::fcntl(file.number(), libc::F_DUPFD_CLOEXEC, libc::STDERR_FILENO + 1) });
    moved.map_or(file, Descriptor::new)
}

fn identity(number: c_int) -> Result<Identity, Errno> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the kernel fills the status in, or fails.
    check(unsafe { libc::fstat(number, status.as_mut_ptr()) })?;
    // SAFETY: it did not fail.
    let status = unsafe { status.assume_init() };
    Ok(Identity(status.st_dev, status.st_ino))
}

fn process() -> libc::pid_t {
    // SAFETY: takes no arguments.
    unsafe { libc::getpid() }
}
