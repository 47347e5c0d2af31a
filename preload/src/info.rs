//! What a program may ask of its malloc, or tell it: figures, trimming, options.

use core::ffi::c_int;
use core::fmt::Write;

use crate::process::{give_back, refused_forks, statistics};
use crate::settings;
use crate::text::{Line, say};

/// The figures of [`mallinfo2`]. Bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "the names are C's; see `mallinfo2` for what they mean here")]
pub struct Mallinfo2 {
    pub arena: usize,
    pub ordblks: usize,
    pub smblks: usize,
    pub hblks: usize,
    pub hblkhd: usize,
    pub usmblks: usize,
    pub fsmblks: usize,
    pub uordblks: usize,
    pub fordblks: usize,
    pub keepcost: usize,
}

/// The same in C's `int`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "as for `Mallinfo2`")]
pub struct Mallinfo {
    pub arena: c_int,
    pub ordblks: c_int,
    pub smblks: c_int,
    pub hblks: c_int,
    pub hblkhd: c_int,
    pub usmblks: c_int,
    pub fsmblks: c_int,
    pub uordblks: c_int,
    pub fordblks: c_int,
    pub keepcost: c_int,
}

/// The heap's figures in the C library's terms: `arena` is what the heap holds of the system's memory for objects, of which
/// `uordblks` is in objects, `fordblks` is free, and `keepcost` is free in whole pages, which `malloc_trim` gives back. Objects
/// count with the whole slots that they lie in, and what other threads keep for their next allocations counts as objects.
/// Nothing is mapped apart (`hblks`, `hblkhd`), and chunks are not counted (`ordblks`).
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo2() -> Mallinfo2 {
    let figures = statistics();
    let arena = figures.held_bytes - figures.metadata_bytes;
    let used = figures.taken_bytes.min(arena);
    Mallinfo2 { arena, uordblks: used, fordblks: arena - used, keepcost: figures.dirty_bytes, ..Mallinfo2::default() }
}

/// [`mallinfo2`] in C's `int`: what does not fit becomes `INT_MAX`, where the C library's wraps.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo() -> Mallinfo {
    let figures = mallinfo2();
    let int = |bytes: usize| c_int::try_from(bytes).unwrap_or(c_int::MAX);
    Mallinfo {
        arena: int(figures.arena),
        uordblks: int(figures.uordblks),
        fordblks: int(figures.fordblks),
        keepcost: int(figures.keepcost),
        ..Mallinfo::default()
    }
}

fn say_statistics() {
    let figures = statistics();
    say(format_args!(
        "live {} held {} metadata {} free {} peak {} meshed {} mappings {} passes {} steps {} longest step {} ns wrong pointers {} refused forks {}",
        figures.taken_bytes,
        figures.held_bytes,
        figures.metadata_bytes,
        figures.dirty_bytes,
        figures.span_bytes_peak,
        figures.aliased_bytes,
        figures.mappings,
        figures.mesh_passes,
        figures.mesh_steps,
        figures.longest_step_ns,
        figures.misuses,
        refused_forks(),
    ));
}

/// Writes the heap's figures to stderr, as one line; bytes, unless it says otherwise.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_stats() {
    say_statistics();
}

/// Writes the heap's figures to `stream` as XML. Returns 0, or EINVAL if `options` is not 0, or -1 if the stream fails.
///
/// # Safety
/// `stream` must be an open stream of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_info(options: c_int, stream: *mut libc::FILE) -> c_int {
    if options != 0 {
        return libc::EINVAL;
    }
    let figures = statistics();
    let arena = figures.held_bytes - figures.metadata_bytes;
    let mut text = Line::new();
    // A line never fails, and this one fits.
    let _ = writeln!(
        text,
        "<malloc version=\"1\">\n<system type=\"current\" size=\"{}\"/>\n<system type=\"max\" size=\"{}\"/>\n\
         <aspace type=\"total\" size=\"{}\"/>\n<total type=\"rest\" count=\"0\" size=\"{}\"/>\n\
         <meshheap live=\"{}\" metadata=\"{}\" meshed=\"{}\"/>\n</malloc>",
        arena,
        figures.span_bytes_peak,
        figures.arena_bytes,
        arena.saturating_sub(figures.taken_bytes),
        figures.taken_bytes,
        figures.metadata_bytes,
        figures.aliased_bytes,
    );
    // SAFETY: a string, and by the caller's contract an open stream.
    if unsafe { libc::fputs(text.as_c_string(), stream) } < 0 { -1 } else { 0 }
}

/// Meshes the heap, and gives all free pages back to the system; how much to keep is not looked at. Returns 1 if there were any, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(_keep: usize) -> c_int {
    c_int::from(give_back() > 0)
}

/// Takes the C library's options: all of those it knows mean nothing here. Returns 1 for these, 0 for others.
#[unsafe(no_mangle)]
pub extern "C" fn mallopt(option: c_int, _value: c_int) -> c_int {
    // M_ARENA_MAX (-8) to M_TRIM_THRESHOLD (-1), M_MXFAST (1).
    c_int::from(matches!(option, -8..=-1 | 1))
}

/// Runs when the process exits, after the program's own handlers.
extern "C" fn at_exit() {
    if settings::statistics_at_exit() {
        say_statistics();
    }
}

/// A place in the library's list of destructors: nothing has to be registered for it.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;
