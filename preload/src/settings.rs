//! The environment variables `MESHHEAP_...`, read once, when the heap is made.
//!
//! | variable | value | what it sets |
//! |---|---|---|
//! | `MESHHEAP_LIMIT` | bytes, with k, m or g for KiB, MiB, GiB | address space for all objects: beyond it, malloc fails |
//! | `MESHHEAP_THREAD_LIMIT` | bytes, likewise | what one thread may keep for itself |
//! | `MESHHEAP_MESH` | `auto`, `steps`, `thread`, `request` or `off` | when the heap is meshed: see `Meshing` |
//! | `MESHHEAP_BARRIER` | `auto`, `userfaultfd`, `signal` or `none` | how writers wait meanwhile: see `WriteBarrier` |
//! | `MESHHEAP_MAPPINGS` | a number | mappings of the process that meshing may take |
//! | `MESHHEAP_SEED` | a number | the seed of all placement |
//! | `MESHHEAP_MISUSE` | `abort` or `continue` | what follows the report of a wrong pointer |
//! | `MESHHEAP_STATISTICS` | `1` or `0` | whether the heap's figures are written to stderr at exit |
//!
//! Unknown names and malformed values are reported on stderr and ignored. A program that runs with more rights than its caller
//! gets none of it.

use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use core_heap::Options;
use meshheap_linux::{Meshing, WriteBarrier};

use meshheap_linux::process::LOCAL_HEAP_BYTES;

use crate::text::say;

/// See [`arena_bytes`].
const ARENA_LEAST_BYTES: usize = if usize::BITS < 64 { 1 << 30 } else { 1 << (33 % usize::BITS) }; // 8 GiB
/// See [`room`].
const OTHERS_BYTES: usize = 48 << 20; // 48 MiB
/// See [`arena_bytes`].
const ARENA_MOST_BYTES: usize = if usize::BITS < 64 { 1 << 30 } else { 1 << (40 % usize::BITS) }; // 1 TiB

const PREFIX: &[u8] = b"MESHHEAP_";

static CONTINUES_AFTER_MISUSE: AtomicBool = AtomicBool::new(false);
static STATISTICS_AT_EXIT: AtomicBool = AtomicBool::new(false);

/// The words for `MESHHEAP_MESH`, and what they mean.
const MESH_WORDS: [&[u8]; 5] = [b"auto", b"steps", b"thread", b"request", b"off"];
const MESHINGS: [Meshing; 5] = [Meshing::Auto, Meshing::Steps, Meshing::Thread, Meshing::OnRequest, Meshing::Off];

/// The words for `MESHHEAP_BARRIER`, and what they mean. A handler for SIGSEGV is for those who ask for it: system calls of a program
/// that knows nothing of it would fail.
const BARRIER_WORDS: [&[u8]; 4] = [b"auto", b"userfaultfd", b"signal", b"none"];
const BARRIERS: [Option<WriteBarrier>; 4] = [
    Some(WriteBarrier::Userfaultfd),
    Some(WriteBarrier::Userfaultfd),
    Some(WriteBarrier::PageProtection),
    Some(WriteBarrier::None),
];

/// Indices of the words above.
static MESHING: AtomicU8 = AtomicU8::new(0);
static BARRIER: AtomicU8 = AtomicU8::new(0);

/// When the heap is meshed.
pub(crate) fn meshing() -> Meshing {
    // Relaxed: set before the heap is published.
    MESHINGS[usize::from(MESHING.load(Ordering::Relaxed))]
}

/// How writers wait meanwhile.
pub(crate) fn barrier() -> Option<WriteBarrier> {
    // Relaxed: as above.
    BARRIERS[usize::from(BARRIER.load(Ordering::Relaxed))]
}

/// Whether the program goes on after a wrong pointer.
pub(crate) fn continues_after_misuse() -> bool {
    // Relaxed: set before the heap is published.
    CONTINUES_AFTER_MISUSE.load(Ordering::Relaxed)
}

/// Whether the heap's figures are written at exit.
pub(crate) fn statistics_at_exit() -> bool {
    // Relaxed: as above.
    STATISTICS_AT_EXIT.load(Ordering::Relaxed)
}

/// The heap's options by the environment.
pub(crate) fn options() -> Options {
    let mut options = Options { arena_bytes: arena_bytes(), local_heap_bytes: LOCAL_HEAP_BYTES, ..Options::default() };
    // SAFETY: takes a number only.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return options;
    }
    for_each_variable(|text| {
        let Some(variable) = text.to_bytes().strip_prefix(PREFIX) else { return };
        if apply(variable, &mut options).is_none() {
            let text = text.to_str().unwrap_or("MESHHEAP_... that is no text");
            say(format_args!("ignored: {text}"));
        }
    });
    options
}

/// Address space for all objects: twice the machine's memory. More could be filled by swapping only, and its tables are address
/// space, too, which a program that locks its memory pays for.
fn arena_bytes() -> usize {
    let memory = configured(libc::_SC_PHYS_PAGES).unwrap_or(0).saturating_mul(page_bytes());
    memory.saturating_mul(2).clamp(ARENA_LEAST_BYTES, ARENA_MOST_BYTES).min(room())
}

/// What limits of the process leave for objects. Tables are reserved for a whole arena, so one beyond that would leave less. Under
/// a limit of address space the program needs some for its libraries, stacks and files.
fn room() -> usize {
    let space = limit(libc::RLIMIT_AS).map(|most| most.saturating_sub(OTHERS_BYTES.max(most / 4)).max(most / 4));
    let data = limit(libc::RLIMIT_DATA);
    space.into_iter().chain(data).min().unwrap_or(usize::MAX)
}

/// The name of a limit: the C libraries disagree.
#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = c_int;

/// A limit of the process, if there is one.
fn limit(resource: Resource) -> Option<usize> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the kernel writes into `limit`, or fails.
    let is_known = unsafe { libc::getrlimit(resource, &raw mut limit) } == 0;
    (is_known && limit.rlim_cur != libc::RLIM_INFINITY).then(|| usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX))
}

/// A number of the system's configuration.
fn configured(name: c_int) -> Option<usize> {
    // SAFETY: takes a number only.
    usize::try_from(unsafe { libc::sysconf(name) }).ok()
}

/// Bytes of a page.
pub(crate) fn page_bytes() -> usize {
    configured(libc::_SC_PAGESIZE).expect("Linux always tells its page size")
}

/// Applies one `NAME=value`, without the prefix; none if it means nothing.
fn apply(variable: &[u8], options: &mut Options) -> Option<()> {
    let equals = variable.iter().position(|&byte| byte == b'=')?;
    let (name, value) = (&variable[..equals], &variable[equals + 1..]);
    match name {
        b"LIMIT" => options.arena_bytes = bytes(value)?,
        b"THREAD_LIMIT" => options.local_heap_bytes = bytes(value)?,
        b"MESH" => MESHING.store(word(value, &MESH_WORDS)?, Ordering::Relaxed),
        b"BARRIER" => BARRIER.store(word(value, &BARRIER_WORDS)?, Ordering::Relaxed),
        b"MAPPINGS" => options.mapping_budget = Some(usize::try_from(number(value)?).ok()?),
        b"SEED" => options.seed = Some(number(value)?),
        // Relaxed: see `continues_after_misuse`.
        b"MISUSE" => CONTINUES_AFTER_MISUSE.store(choice(value, b"abort", b"continue")?, Ordering::Relaxed),
        b"STATISTICS" => STATISTICS_AT_EXIT.store(choice(value, b"0", b"1")?, Ordering::Relaxed),
        _ => return None,
    }
    Some(())
}

/// Which of these words `value` is.
fn word(value: &[u8], words: &[&[u8]]) -> Option<u8> {
    words.iter().position(|&word| word == value).and_then(|number| u8::try_from(number).ok())
}

/// Which of two words `value` is.
fn choice(value: &[u8], no: &[u8], yes: &[u8]) -> Option<bool> {
    if value == yes { Some(true) } else { (value == no).then_some(false) }
}

fn number(digits: &[u8]) -> Option<u64> {
    core::str::from_utf8(digits).ok()?.parse().ok()
}

/// A positive number of bytes.
fn bytes(value: &[u8]) -> Option<usize> {
    let (digits, shift) = match value {
        [digits @ .., b'k' | b'K'] => (digits, 10),
        [digits @ .., b'm' | b'M'] => (digits, 20),
        [digits @ .., b'g' | b'G'] => (digits, 30),
        digits => (digits, 0),
    };
    let count = usize::try_from(number(digits)?).ok()?.checked_mul(1 << shift)?;
    (count > 0).then_some(count)
}

unsafe extern "C" {
    /// The C library's list of variables; null until it has been set up.
    static environ: *const *const c_char;
    /// Where the kernel put what a program starts with: the number of arguments, those and a null, then the variables.
    #[cfg(target_env = "gnu")]
    static __libc_stack_end: *const usize;
}

/// The list of variables: ends with a null, or is null itself.
fn variables() -> *const *const c_char {
    // SAFETY: the C library's variable.
    let list = unsafe { environ };
    #[cfg(target_env = "gnu")]
    if list.is_null() {
        // A program allocates before its libraries have been set up.
        // SAFETY: set by the loader before any code of the program or its libraries runs, and never again.
        let start = unsafe { __libc_stack_end };
        // SAFETY: the number of arguments comes first.
        let arguments = unsafe { start.read() };
        // SAFETY: the variables come behind it, the arguments and a null.
        return unsafe { start.add(1 + arguments + 1) }.cast();
    }
    list
}

/// Tells `see` each variable of the environment, as `NAME=value`. Not by `getenv`, which a program may have replaced.
fn for_each_variable(mut see: impl FnMut(&CStr)) {
    let mut entry = variables();
    while !entry.is_null() {
        // SAFETY: the list ends with a null, which was not met yet.
        let text = unsafe { *entry };
        if text.is_null() {
            return;
        }
        // SAFETY: entries are strings.
        see(unsafe { CStr::from_ptr(text) });
        // SAFETY: as above, there is at least the null.
        entry = unsafe { entry.add(1) };
    }
}
