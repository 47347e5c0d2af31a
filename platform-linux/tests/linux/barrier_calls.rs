//! System calls that write into a page which is being meshed, behind each barrier.

use core::ptr::{NonNull, with_exposed_provenance_mut};
use std::fs::{OpenOptions, write};
use std::io::{Error, Write, pipe};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::Mutex;

use io_uring::{IoUring, opcode, types};
use meshheap::Access;

use crate::arena::{Arena, run};
use crate::barrier_userfaultfd::{Sleeper, arena};
use crate::process::alone;

/// What is to arrive.
const BYTES: &[u8; 8] = b"abcdefgh";

/// What `O_DIRECT` reads at once.
const BLOCK: usize = 4096;

/// One system call, and what it reads from.
struct Call {
    name: &'static str,
    make: Box<dyn Fn(NonNull<u8>) -> Result<usize, i32> + Send + Sync>,
    /// What it returns.
    length: usize,
    is_random: bool,
    /// After it failed it can be made again: nothing is lost.
    is_repeatable: bool,
}

impl Call {
    fn new(name: &'static str, make: impl Fn(NonNull<u8>) -> Result<usize, i32> + Send + Sync + 'static) -> Self {
        Self { name, make: Box::new(make), length: BYTES.len(), is_random: false, is_repeatable: true }
    }

    /// Checks what arrived, and in which page.
    fn check(&self, arena: &Arena, page: usize) {
        // SAFETY: the page lies in the arena, and nobody writes to it.
        let found = unsafe { arena.address(&(page..page + 1)).cast::<[u8; BYTES.len()]>().read() };
        let is_right = if self.is_random { found != [0; BYTES.len()] } else { found == *BYTES };
        assert!(is_right, "{}: {found:?}", self.name);
    }
}

fn outcome(length: isize) -> Result<usize, i32> {
    usize::try_from(length).map_err(|_| Error::last_os_error().raw_os_error().expect("an error of the system"))
}

fn read_from(source: &OwnedFd, to: NonNull<u8>) -> Result<usize, i32> {
    // SAFETY: the kernel writes at most so many bytes, which the page has.
    outcome(unsafe { libc::read(source.as_raw_fd(), to.as_ptr().cast(), BYTES.len()) })
}

fn read_pipe() -> Call {
    let (source, mut sink) = pipe().expect("two descriptors");
    sink.write_all(BYTES).expect("a pipe holds more");
    let source = OwnedFd::from(source);
    Call::new("read", move |to| read_from(&source, to))
}

fn receive_stream() -> Call {
    let (source, mut sink) = UnixStream::pair().expect("two descriptors");
    sink.write_all(BYTES).expect("a socket holds more");
    let source = OwnedFd::from(source);
    Call::new("recv from a stream", move |to| {
        // SAFETY: the kernel writes at most so many bytes, which the page has.
        outcome(unsafe { libc::recv(source.as_raw_fd(), to.as_ptr().cast(), BYTES.len(), 0) })
    })
}

fn receive_datagram() -> Call {
    let (source, sink) = UnixDatagram::pair().expect("two descriptors");
    sink.send(BYTES).expect("a socket holds more");
    source.set_nonblocking(true).expect("sockets can be");
    let source = OwnedFd::from(source);
    let call = Call::new("recv of a datagram", move |to| read_from(&source, to));
    Call { is_repeatable: false, ..call }
}

fn get_random() -> Call {
    let call = Call::new("getrandom", |to| {
        // SAFETY: the kernel writes at most so many bytes, which the page has.
        outcome(unsafe { libc::getrandom(to.as_ptr().cast(), BYTES.len(), 0) })
    });
    Call { is_random: true, ..call }
}

/// None, with a word, where the system has no io_uring.
fn read_by_ring() -> Option<Call> {
    let ring = IoUring::new(2).inspect_err(|error| println!("not tested: io_uring: {error}")).ok()?;
    let (source, mut sink) = pipe().expect("two descriptors");
    sink.write_all(BYTES).expect("a pipe holds more");
    let ring = Mutex::new(ring);
    Some(Call::new("io_uring", move |to| {
        let mut ring = ring.lock().expect("no call panics");
        let length = u32::try_from(BYTES.len()).expect("a few");
        let entry = opcode::Read::new(types::Fd(source.as_raw_fd()), to.as_ptr(), length).build();
        // SAFETY: the buffer is as long as that and outlives the call, which waits for the end.
        unsafe { ring.submission().push(&entry) }.expect("the queue is empty");
        ring.submit_and_wait(1).expect("one entry");
        let result = ring.completion().next().expect("the one that was waited for").result();
        usize::try_from(result).map_err(|_| -result)
    }))
}

/// None, with a word, where the file system of temporary files has no direct reads.
fn read_directly() -> Option<Call> {
    let path = std::env::temp_dir().join(format!("meshheap-direct-{}", std::process::id()));
    write(&path, BYTES.repeat(BLOCK / BYTES.len())).expect("room for a page");
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&path);
    std::fs::remove_file(&path).expect("it was just written");
    let file = opened.inspect_err(|error| println!("not tested: O_DIRECT: {error}")).ok()?;
    let call = Call::new("a direct read", move |to| {
        // SAFETY: the kernel writes at most so many bytes, which the page has.
        outcome(unsafe { libc::pread(file.as_raw_fd(), to.as_ptr().cast(), BLOCK, 0) })
    });
    Some(Call { length: BLOCK, ..call })
}

fn calls() -> impl Iterator<Item = Call> {
    let always = [read_pipe(), receive_stream(), receive_datagram(), get_random()];
    always.into_iter().chain(read_by_ring()).chain(read_directly())
}

#[test]
fn behind_userfaultfd_calls_into_a_page_that_is_meshed_wait_and_lose_nothing() {
    let Some(arena) = arena(16) else { return };
    for call in calls() {
        let start = arena.address(&(8..9)).as_ptr().expose_provenance();
        arena.protect(run(8, 1), Access::ReadOnly).expect("two mappings");
        let sleeper = Sleeper::default();
        std::thread::scope(|scope| {
            let caller = scope.spawn(|| {
                let to = NonNull::new(with_exposed_provenance_mut(start)).expect("an address of the arena");
                sleeper.run(|| (call.make)(to))
            });
            sleeper.wait_until_it_waits();
            arena.alias(run(8, 1), 2).expect("two mappings");
            assert_eq!(caller.join().expect("no panic"), Ok(call.length), "{}", call.name);
        });
        call.check(&arena, 2);
        arena.unalias(run(8, 1)).expect("it merges");
        assert!(arena.holds(8, 0), "{}: nothing was written to the old page", call.name);
        arena.fill(2..3, 0);
    }
}

#[test]
fn behind_page_protection_they_fail_and_all_but_datagrams_can_be_made_again() {
    let arena = Arena::with_barrier(16);
    let to = arena.address(&(8..9));
    for call in calls() {
        arena.protect(run(8, 1), Access::ReadOnly).expect("two mappings");
        assert_eq!((call.make)(to), Err(libc::EFAULT), "{}", call.name);
        assert!(arena.holds(8, 0), "{}", call.name);
        arena.alias(run(8, 1), 2).expect("as many");
        if call.is_repeatable {
            assert_eq!((call.make)(to), Ok(call.length), "{}", call.name);
            call.check(&arena, 2);
        } else {
            assert_eq!((call.make)(to), Err(libc::EAGAIN), "the kernel dropped it: why `Heap::mesh` warns");
        }
        arena.unalias(run(8, 1)).expect("it merges");
        arena.fill(2..3, 0);
    }
}

/// What is pinned is beyond every barrier: why there is `Heap::pin`.
#[test]
fn a_registered_buffer_is_written_to_where_it_was() {
    alone(|| {
        let Some(arena) = arena(16) else { return };
        let Ok(ring) = IoUring::new(2) else { return };
        let at = arena.address(&(8..9));
        let buffer = libc::iovec { iov_base: at.as_ptr().cast(), iov_len: arena.page };
        // SAFETY: the page outlives the ring.
        unsafe { ring.submitter().register_buffers(&[buffer]) }.expect("a page may be locked");
        let (source, mut sink) = pipe().expect("two descriptors");
        sink.write_all(BYTES).expect("a pipe holds more");
        arena.protect(run(8, 1), Access::ReadOnly).expect("two mappings");
        arena.alias(run(8, 1), 2).expect("as many");
        let mut ring = ring;
        let length = u32::try_from(BYTES.len()).expect("a few");
        let entry = opcode::ReadFixed::new(types::Fd(source.as_raw_fd()), at.as_ptr(), length, 0).build();
        // SAFETY: the buffer is registered, and nobody reads the page meanwhile.
        unsafe { ring.submission().push(&entry) }.expect("the queue is empty");
        ring.submit_and_wait(1).expect("one entry");
        assert!(arena.holds(2, 0), "nothing arrived in the page that the addresses show");
        arena.unalias(run(8, 1)).expect("it merges");
        // SAFETY: the page lies in the arena, and nobody writes to it.
        assert_eq!(unsafe { at.cast::<[u8; BYTES.len()]>().read() }, *BYTES);
    });
}
