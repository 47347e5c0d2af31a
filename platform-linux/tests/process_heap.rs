//! [`MeshHeap`] as a program's allocator: what its calls leave alone, and who makes its steps.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::time::Instant;

use io_uring::{IoUring, opcode, types};
use meshheap::{MeshBudget, StepEnd};
use meshheap_linux::MeshHeap;

#[global_allocator]
static GLOBAL: MeshHeap = MeshHeap::new();

/// Runs `child` in a child process, and gives how that ended.
fn in_child(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the heap is whole in a child, which ends without returning.
    let process = unsafe { libc::fork() };
    if process == 0 {
        let code = child();
        // SAFETY: takes a number only.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: the kernel writes the status.
    assert_eq!(unsafe { libc::waitpid(process, &raw mut status, 0) }, process);
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -status }
}

/// Makes the system refuse advice on memory from now on, with EPERM.
fn refuse_advice() {
    let statement = |code: u32, k: u32, jf: u8| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    let mut program = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, core::mem::offset_of!(libc::seccomp_data, nr) as u32, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_madvise as u32, 1),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: takes numbers only.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    // SAFETY: the kernel copies the program, which lives until here.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) }, 0);
}

fn errno() -> &'static mut i32 {
    // SAFETY: takes no arguments.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: this thread's own variable, of which there is one reference at a time.
    unsafe { &mut *place }
}

/// What `call` sets errno to, from 7.
fn errno_after(call: impl FnOnce()) -> i32 {
    *errno() = 7;
    call();
    *errno()
}

#[test]
fn neither_allocation_nor_free_changes_errno() {
    let code = in_child(|| {
        // What the heap gives back it cannot, and notices.
        refuse_advice();
        let (mut changed, begun) = ([0, 0, 0], Instant::now());
        let mut keep = |which: usize, errno: i32| changed[which] += i32::from(errno != 7);
        while begun.elapsed() < Duration::from_millis(500) {
            let mut all = Vec::with_capacity(2000);
            let note = errno_after(|| (0..2000).for_each(|n| all.push(vec![1_u8; 30_000 + n])));
            keep(0, note);
            let note = errno_after(|| all.iter_mut().step_by(9).for_each(|bytes| bytes.resize(70_000, 2)));
            keep(1, note);
            let note = errno_after(|| drop(all));
            keep(2, note);
        }
        // Slowly, so that some pages are free for so long that they go back.
        let (mut all, begun) = (vec![vec![1_u8; 3000]; 20_000], Instant::now());
        while let Some(bytes) = all.pop() {
            keep(2, errno_after(|| drop(bytes)));
            while begun.elapsed() < Duration::from_micros(20) * (20_000 - all.len() as u32) {
                core::hint::spin_loop();
            }
        }
        changed.iter().enumerate().map(|(which, &count)| i32::from(count > 0) << which).sum()
    });
    assert_eq!(code, 0, "bits: errno after allocation, after growth, after drops");
}

/// Steps made so far, and whether one is being made.
static STEPS: AtomicUsize = AtomicUsize::new(0);
static IS_IN_STEP: AtomicBool = AtomicBool::new(false);

/// Ends the process if a step does not come back.
fn watch() {
    let (mut before, mut same) = (0, 0);
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let now = STEPS.load(Ordering::SeqCst);
        same = if IS_IN_STEP.load(Ordering::SeqCst) && now == before { same + 1 } else { 0 };
        before = now;
        if same > 20 {
            // SAFETY: takes a number only.
            unsafe { libc::_exit(9) };
        }
    }
}

/// Datagrams that arrive for a ring of this thread while it asks for steps: the kernel writes them to objects in its name.
fn receive_while_meshing() -> i32 {
    const SOCKETS: usize = 400;
    std::thread::spawn(watch);
    let sockets: Vec<_> = (0..SOCKETS).map(|_| UnixDatagram::pair().expect("descriptors")).collect();
    let Ok(mut ring) = IoUring::new(1024) else {
        println!("not tested: no io_uring");
        return 0;
    };
    for _ in 0..200 {
        // One object a page is left, and is a buffer: each page that is meshed has one under way.
        let mut objects: Vec<Option<Box<[u8; 128]>>> = (0..32 * SOCKETS).map(|_| Some(Box::new([1; 128]))).collect();
        objects.iter_mut().enumerate().filter(|(at, _)| at % 32 != 5).for_each(|(_, object)| drop(object.take()));
        let mut buffers: Vec<_> = objects.into_iter().flatten().collect();
        for (at, (_, receiver)) in sockets.iter().enumerate() {
            let buffer = buffers[at].as_mut_ptr();
            let receive = opcode::Recv::new(types::Fd(receiver.as_raw_fd()), buffer, 128).build().user_data(at as u64);
            // SAFETY: the buffers live until all has been received.
            unsafe { ring.submission().push(&receive) }.expect("room");
        }
        ring.submit().expect("valid");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for (sender, _) in &sockets {
                    sender.send(&[0x5a; 128]).expect("the receiver is there");
                    (0..200).for_each(|_| core::hint::spin_loop());
                }
            });
            loop {
                IS_IN_STEP.store(true, Ordering::SeqCst);
                let step = GLOBAL.mesh(MeshBudget::UNLIMITED);
                IS_IN_STEP.store(false, Ordering::SeqCst);
                STEPS.fetch_add(1, Ordering::SeqCst);
                if step.is_none_or(|step| step.end != StepEnd::Budget) {
                    break;
                }
            }
        });
        let mut received = 0;
        while received < SOCKETS {
            ring.submit_and_wait(1).expect("they were sent");
            for completion in ring.completion() {
                received += 1;
                // Behind page protection a call fails with EFAULT; what was reported to be there must be there.
                let buffer = &buffers[completion.user_data() as usize];
                if completion.result() == 128 && buffer.iter().any(|&byte| byte != 0x5a) {
                    return 5;
                }
            }
        }
    }
    let meshed = GLOBAL.statistics().map_or(0, |statistics| statistics.pages_meshed);
    if meshed > 1000 { 0 } else { 6 }
}

#[test]
fn a_thread_whose_ring_receives_meanwhile_may_ask_for_steps() {
    assert_eq!(
        in_child(receive_while_meshing),
        0,
        "9: a step has not come back; 5: what was received is lost; 6: none was made"
    );
}
