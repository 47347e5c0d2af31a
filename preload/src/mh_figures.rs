//! A heap's figures for C: as a struct that may grow, as JSON, and page by page.

use core::ffi::{c_char, c_int, c_void};
use core::fmt::Write;

use core_heap::{PageUse, Statistics};

use crate::mh_heap::MhHeap;
use crate::process;
use crate::text::Line;

/// A heap's figures, in bytes unless their names say otherwise. Later versions add fields at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MhStatistics {
    /// In objects, which count with the whole slots that they lie in.
    pub live_bytes: u64,
    /// Physical memory that the heap holds: objects' pages (each shared page once), dirty free pages and metadata.
    pub held_bytes: u64,
    /// The part of `held_bytes` that is metadata.
    pub metadata_bytes: u64,
    /// The part of `held_bytes` in free pages.
    pub free_bytes: u64,
    /// Address space in spans and large objects.
    pub span_bytes: u64,
    /// The most that `span_bytes` has been.
    pub span_bytes_peak: u64,
    /// Address space that shows other pages' memory: what meshing saves now.
    pub meshed_bytes: u64,
    /// Address space for all objects.
    pub arena_bytes: u64,
    /// Mappings of the system in use beyond the first.
    pub mappings: u64,
    /// The most that meshing may use of them.
    pub mapping_budget: u64,
    /// Steps of meshing so far.
    pub mesh_steps: u64,
    /// Passes through the whole heap so far.
    pub mesh_passes: u64,
    /// Pages that meshing has freed so far.
    pub pages_meshed: u64,
    /// The longest step so far, in nanoseconds.
    pub longest_step_ns: u64,
    /// Wrong pointers found so far.
    pub wrong_pointers: u64,
    /// Objects that are pinned now, not bytes.
    pub pinned_objects: u64,
    /// Forks so far before which the system refused to make meshed pages private, so that the child shares them. Only malloc's heap
    /// forks: 0 for others.
    pub refused_forks: u64,
}

fn figures(heap: &MhHeap) -> MhStatistics {
    figures_of(heap.0.statistics(), 0)
}

const fn figures_of(now: Statistics, refused_forks: usize) -> MhStatistics {
    MhStatistics {
        live_bytes: now.taken_bytes as u64,
        held_bytes: now.held_bytes as u64,
        metadata_bytes: now.metadata_bytes as u64,
        free_bytes: now.dirty_bytes as u64,
        span_bytes: now.span_bytes as u64,
        span_bytes_peak: now.span_bytes_peak as u64,
        meshed_bytes: now.aliased_bytes as u64,
        arena_bytes: now.arena_bytes as u64,
        mappings: now.mappings as u64,
        mapping_budget: now.mapping_budget as u64,
        mesh_steps: now.mesh_steps,
        mesh_passes: now.mesh_passes,
        pages_meshed: now.pages_meshed,
        longest_step_ns: now.longest_step_ns,
        wrong_pointers: now.misuses,
        pinned_objects: now.pinned_objects as u64,
        refused_forks: refused_forks as u64,
    }
}

/// Writes the heap's figures to `statistics`, of which the caller's version has `struct_bytes` bytes. Returns how many bytes
/// were written: what is beyond is not known to this library.
///
/// # Safety
/// `heap` must be a live heap, and `statistics` be writable for `struct_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mh_statistics(
    heap: *const MhHeap,
    statistics: *mut MhStatistics,
    struct_bytes: usize,
) -> usize {
    // SAFETY: by the caller's contract.
    let now = figures(unsafe { &*heap });
    // SAFETY: as the caller's.
    unsafe { write_figures(&now, statistics, struct_bytes) }
}

/// The same for the heap that malloc itself uses in this process; what the calling thread keeps for its next allocations goes back
/// to it.
///
/// # Safety
/// `statistics` must be writable for `struct_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mh_malloc_statistics(statistics: *mut MhStatistics, struct_bytes: usize) -> usize {
    let now = figures_of(process::statistics(), process::refused_forks());
    // SAFETY: as the caller's.
    unsafe { write_figures(&now, statistics, struct_bytes) }
}

/// # Safety
/// As for [`mh_malloc_statistics`].
unsafe fn write_figures(now: &MhStatistics, statistics: *mut MhStatistics, struct_bytes: usize) -> usize {
    let bytes = struct_bytes.min(size_of::<MhStatistics>());
    // SAFETY: both are at least that long, and they are two.
    unsafe { core::ptr::from_ref(now).cast::<u8>().copy_to_nonoverlapping(statistics.cast(), bytes) };
    bytes
}

/// Writes the heap's figures to `text` as a JSON object, with the field names of `mh_figures`, cut off to `text_bytes` bytes
/// with the zero at its end. Returns its whole length without the zero, as `snprintf` does.
///
/// # Safety
/// `heap` must be a live heap, and `text` be writable for `text_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mh_statistics_json(heap: *const MhHeap, text: *mut c_char, text_bytes: usize) -> usize {
    // SAFETY: by the caller's contract.
    let now = figures(unsafe { &*heap });
    let fields = [
        ("live_bytes", now.live_bytes),
        ("held_bytes", now.held_bytes),
        ("metadata_bytes", now.metadata_bytes),
        ("free_bytes", now.free_bytes),
        ("span_bytes", now.span_bytes),
        ("span_bytes_peak", now.span_bytes_peak),
        ("meshed_bytes", now.meshed_bytes),
        ("arena_bytes", now.arena_bytes),
        ("mappings", now.mappings),
        ("mapping_budget", now.mapping_budget),
        ("mesh_steps", now.mesh_steps),
        ("mesh_passes", now.mesh_passes),
        ("pages_meshed", now.pages_meshed),
        ("longest_step_ns", now.longest_step_ns),
        ("wrong_pointers", now.wrong_pointers),
        ("pinned_objects", now.pinned_objects),
        ("refused_forks", now.refused_forks),
    ];
    let mut line = Line::new();
    for (at, (name, value)) in fields.into_iter().enumerate() {
        let before = if at == 0 { '{' } else { ',' };
        // A line never fails, and this one fits.
        let _ = write!(line, "{before}\"{name}\":{value}");
    }
    let _ = line.write_char('}');
    let bytes = line.as_bytes();
    if text_bytes > 0 {
        let copied = bytes.len().min(text_bytes - 1);
        // SAFETY: both are at least that long, and they are two.
        unsafe { bytes.as_ptr().copy_to_nonoverlapping(text.cast(), copied) };
        // SAFETY: `copied` is less than the text's length.
        let end = unsafe { text.add(copied) };
        // SAFETY: within the text.
        unsafe { end.write(0) };
    }
    bytes.len()
}

/// A run of pages, as [`mh_walk`] shows it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MhRun {
    /// The number of its first page in the heap's arena.
    pub first_page: usize,
    /// Its pages.
    pub pages: usize,
    /// What it is used for: one of the `MH_PAGES_` numbers.
    pub used_for: c_int,
    /// Of spans: bytes of a slot.
    pub slot_bytes: usize,
    /// Of spans: how many slots there are.
    pub slots: usize,
    /// Of spans: how many of them are taken at the span's own addresses.
    pub live_slots: usize,
    /// Of aliases: the first page of the span whose memory it shows.
    pub keeper_page: usize,
}

/// Free, without memory.
pub const MH_PAGES_CLEAN: c_int = 0;
/// Free, with old content.
pub const MH_PAGES_DIRTY: c_int = 1;
/// A span that shows its own memory.
pub const MH_PAGES_SPAN: c_int = 2;
/// A span that shows another's memory.
pub const MH_PAGES_ALIAS: c_int = 3;
/// A large object.
pub const MH_PAGES_LARGE: c_int = 4;
/// Anything else.
pub const MH_PAGES_OTHER: c_int = 5;

/// Calls `see` with `context` and each run of pages, up to the last that is in use. The run is gone after the call.
///
/// # Safety
/// `heap` must be a live heap, which `see` may use but not destroy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mh_walk(
    heap: *const MhHeap,
    see: extern "C" fn(context: *mut c_void, run: *const MhRun),
    context: *mut c_void,
) {
    // SAFETY: by the caller's contract.
    let heap = unsafe { &(*heap).0 };
    heap.walk_pages(|pages, used| {
        let mut run = MhRun {
            first_page: pages.start.as_usize(),
            pages: pages.count as usize,
            used_for: MH_PAGES_OTHER,
            slot_bytes: 0,
            slots: 0,
            live_slots: 0,
            keeper_page: 0,
        };
        match used {
            PageUse::Clean => run.used_for = MH_PAGES_CLEAN,
            PageUse::Dirty => run.used_for = MH_PAGES_DIRTY,
            PageUse::Large => run.used_for = MH_PAGES_LARGE,
            PageUse::Span { slot_size, slots, live, .. } => {
                (run.used_for, run.slot_bytes, run.slots, run.live_slots) = (MH_PAGES_SPAN, slot_size, slots, live);
            }
            PageUse::Alias { keeper, slot_size, slots, live } => {
                (run.used_for, run.slot_bytes, run.slots, run.live_slots) = (MH_PAGES_ALIAS, slot_size, slots, live);
                run.keeper_page = keeper.as_usize();
            }
            _ => {}
        }
        see(context, &raw const run);
    });
}
