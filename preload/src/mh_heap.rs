//! The heap as a value, for C: made, used and destroyed by a runtime that embeds it.
//!
//! Each call may come from any thread. It takes a lock of the heap; local heaps (`mh_local_create`) do without. Pointers from a heap belong to that heap: `free` and the
//! other functions of malloc do not know them.

use core::alloc::Layout;
use core::ffi::{c_int, c_void};
use core::ptr::{self, NonNull};
use core::time::Duration;

use core_heap::{Heap, MeshBudget, Options, StepEnd};
use meshheap_linux::LinuxPlatform;

use crate::process::{MALLOC_ALIGN, allocate_aligned, fail, release};

/// A heap.
#[derive(Debug)]
pub struct MhHeap(pub(crate) Heap<LinuxPlatform>);

/// How a heap is set up. Zero everywhere but in `struct_bytes` means the defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MhOptions {
    /// `sizeof(mh_options)`.
    pub struct_bytes: usize,
    /// Bytes of address space for all objects: what the heap can hold. 0: 64 GiB.
    pub arena_bytes: usize,
    /// Mappings of the system that meshing may use. 0: a quarter of the system's limit.
    pub mapping_budget: usize,
    /// The seed of all placement. 0: a random one.
    pub seed: u64,
    /// Bytes that one local heap may keep for its next allocations. 0: 64 KiB.
    pub local_heap_bytes: usize,
}

/// What a step of meshing did.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MhStep {
    /// Why it ended: one of the `MH_STEP_` numbers.
    pub end: c_int,
    /// Pages that it freed by meshing.
    pub pages_freed: usize,
    /// How long it took, in nanoseconds.
    pub nanoseconds: u64,
}

/// The pass went through the whole heap; the next step begins another.
pub const MH_STEP_PASS_DONE: c_int = 0;
/// The time is over; the next step goes on.
pub const MH_STEP_BUDGET: c_int = 1;
/// The mapping budget is used up: meshing goes on once mappings have come back.
pub const MH_STEP_MAPPINGS_USED_UP: c_int = 2;
/// Another thread is in the middle of a step.
pub const MH_STEP_BUSY: c_int = 3;
/// The system refused a call. The heap is whole.
pub const MH_STEP_REFUSED: c_int = 4;
/// This heap cannot mesh.
pub const MH_STEP_UNSUPPORTED: c_int = 5;

/// A heap. `options` may be null. Null, with errno ENOMEM, if the system has no room for it; with errno EINVAL, if the options
/// are of another size than this library's.
///
/// # Safety
/// `options` must be null or readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mh_create(options: *const MhOptions) -> *mut MhHeap {
    let mut chosen = Options::default();
    if !options.is_null() {
        // SAFETY: by the caller's contract; the first field, a number of bytes, is there in every version.
        if unsafe { options.cast::<usize>().read() } != size_of::<MhOptions>() {
            return fail(libc::EINVAL).cast();
        }
        // SAFETY: it is this version's.
        let given = unsafe { options.read() };
        if given.arena_bytes != 0 {
            chosen.arena_bytes = given.arena_bytes;
        }
        chosen.mapping_budget = (given.mapping_budget != 0).then_some(given.mapping_budget);
        if given.local_heap_bytes != 0 {
            chosen.local_heap_bytes = given.local_heap_bytes;
        }
        chosen.seed = (given.seed != 0).then_some(given.seed);
    }
    let Some(place) = allocate_aligned(size_of::<MhHeap>(), align_of::<MhHeap>()) else {
        return fail(libc::ENOMEM).cast();
    };
    let Ok(heap) = Heap::with_options(LinuxPlatform::new(), chosen) else {
        // SAFETY: allocated above, and nobody knows of it.
        unsafe { release(place.as_ptr()) };
        return fail(libc::ENOMEM).cast();
    };
    let place = place.cast::<MhHeap>();
    // SAFETY: allocated above, for this.
    unsafe { place.write(MhHeap(heap)) };
    place.as_ptr()
}

/// Gives all of a heap's memory back, live objects included. Null is ignored.
///
/// # Safety
/// `heap` must be null, or come from [`mh_create`] and not be used by anybody from now on, nor its objects. It must have no local
/// heaps any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mh_destroy(heap: *mut MhHeap) {
    if heap.is_null() {
        return;
    }
    // SAFETY: by the caller's contract.
    unsafe { heap.drop_in_place() };
    // SAFETY: `mh_create` allocated it so.
    unsafe { release(heap.cast()) };
}

/// The layout that C asks for. An alignment of 0 is malloc's.
pub(crate) fn layout_of(size: usize, align: usize) -> Result<Layout, c_int> {
    let align = if align == 0 { MALLOC_ALIGN } else { align };
    if !align.is_power_of_two() {
        return Err(libc::EINVAL);
    }
    Layout::from_size_align(size, align).map_err(|_| libc::ENOMEM)
}

pub(crate) fn object_or_null(object: Result<NonNull<u8>, c_int>) -> *mut c_void {
    object.map_or_else(fail, NonNull::as_ptr).cast()
}

/// An object of `size` bytes at a multiple of `align`, a power of two; 0 stands for 16. Null, with errno ENOMEM or EINVAL, if
/// there is none.
///
/// # Safety
/// `heap` must be a live heap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mh_alloc(heap: *const MhHeap, size: usize, align: usize) -> *mut c_void {
    // SAFETY: by the caller's contract.
    let heap = unsafe { &(*heap).0 };
    object_or_null(layout_of(size, align).and_then(|layout| heap.alloc(layout).map_err(|_| libc::ENOMEM)))
}

/// The same, all bytes zero.
///
/// # Safety
/// As for [`mh_alloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mh_alloc_zeroed(heap: *const MhHeap, size: usize, align: usize) -> *mut c_void {
    // SAFETY: by the caller's contract.
    let heap = unsafe { &(*heap).0 };
    object_or_null(layout_of(size, align).and_then(|layout| heap.alloc_zeroed(layout).map_err(|_| libc::ENOMEM)))
}

/// Frees an object; null is ignored. Returns 0, or EINVAL if the pointer is no live object of this heap.
///
/// # Safety
/// `heap` must be a live heap. Nobody may use the object from now on. It must not have been freed through a local heap already,
/// which may still keep its slot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mh_free(heap: *const MhHeap, object: *mut c_void) -> c_int {
    let Some(object) = NonNull::new(object.cast::<u8>()) else { return 0 };
    // SAFETY: by the caller's contract.
    let heap = unsafe { &(*heap).0 };
    // SAFETY: as the caller's: the object is live, or no slot that waits in a local heap.
    if unsafe { heap.free(object) }.is_ok() { 0 } else { libc::EINVAL }
}

/// Makes an object larger or smaller. Null is allocated; an alignment beyond 16 may be lost. Null, with errno ENOMEM, if there
/// is no memory; with errno EINVAL, if the pointer is no live object of this heap. The object is then as it was.
///
/// # Safety
/// As for [`mh_free`], if the result is not null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mh_realloc(heap: *const MhHeap, object: *mut c_void, size: usize) -> *mut c_void {
    let Some(object) = NonNull::new(object.cast::<u8>()) else {
        // SAFETY: as the caller's.
        return unsafe { mh_alloc(heap, size, 0) };
    };
    // SAFETY: by the caller's contract.
    let heap = unsafe { &(*heap).0 };
    // SAFETY: as the caller's.
    object_or_null(unsafe { resize(heap, object, size) })
}

/// # Safety
/// As for [`mh_realloc`].
unsafe fn resize(heap: &Heap<LinuxPlatform>, object: NonNull<u8>, size: usize) -> Result<NonNull<u8>, c_int> {
    let layout = layout_of(size, 0)?;
    let usable = heap.usable_size(object).map_err(|_| libc::EINVAL)?;
    // SAFETY: the object is live.
    if let Some(resized) = unsafe { heap.resize_live(object, size) }.map_err(|_| libc::EINVAL)? {
        return Ok(resized);
    }
    let moved = heap.alloc(layout).map_err(|_| libc::ENOMEM)?;
    // SAFETY: both objects hold that much, and they are two.
    unsafe { ptr::copy_nonoverlapping(object.as_ptr(), moved.as_ptr(), usable.min(size)) };
    // SAFETY: the caller gave the object up.
    unsafe { heap.free(object) }.map_err(|_| libc::EINVAL)?;
    Ok(moved)
}

/// Bytes that an object can hold; 0 for null and for what is no live object of this heap.
///
/// # Safety
/// `heap` must be a live heap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mh_usable_size(heap: *const MhHeap, object: *const c_void) -> usize {
    let Some(object) = NonNull::new(object.cast_mut().cast::<u8>()) else { return 0 };
    // SAFETY: by the caller's contract.
    let heap = unsafe { &(*heap).0 };
    heap.usable_size(object).unwrap_or(0)
}

/// One step of meshing, bounded to about `nanoseconds`. Call it until its end is `MH_STEP_PASS_DONE`.
///
/// # Safety
/// `heap` must be a live heap. Until the call returns, nobody may write to an object of this heap, be it by zeroed allocation or
/// reallocation, nor the kernel on somebody's behalf.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mh_mesh_at_safepoint(heap: *const MhHeap, nanoseconds: u64) -> MhStep {
    // SAFETY: by the caller's contract.
    let heap = unsafe { &(*heap).0 };
    let budget = MeshBudget::time(Duration::from_nanos(nanoseconds));
    // SAFETY: the caller keeps the same contract.
    let step = unsafe { heap.mesh_at_safepoint(budget) };
    let end = match step.end {
        StepEnd::PassDone => MH_STEP_PASS_DONE,
        StepEnd::Budget => MH_STEP_BUDGET,
        StepEnd::MappingsUsedUp => MH_STEP_MAPPINGS_USED_UP,
        StepEnd::Busy => MH_STEP_BUSY,
        StepEnd::Refused(_) => MH_STEP_REFUSED,
        _ => MH_STEP_UNSUPPORTED,
    };
    MhStep { end, pages_freed: step.pages_freed, nanoseconds: step.nanoseconds }
}

/// Gives all free pages back to the system. Returns how many bytes; 0 if the system refused.
///
/// # Safety
/// `heap` must be a live heap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mh_purge(heap: *const MhHeap) -> usize {
    // SAFETY: by the caller's contract.
    unsafe { &(*heap).0 }.purge().unwrap_or(0)
}

/// Changes how many mappings meshing may use.
///
/// # Safety
/// `heap` must be a live heap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mh_set_mapping_budget(heap: *const MhHeap, mappings: usize) {
    // SAFETY: by the caller's contract.
    unsafe { &(*heap).0 }.set_mapping_budget(mappings);
}
