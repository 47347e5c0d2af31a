//! What the heap needs for itself.

use core::alloc::Layout;

use meshheap::SlotOrder;
use serde::Serialize;

use crate::measure::ratio;
use crate::residue::heap::{self, Cost, Local};

/// The most metadata of a full heap of small objects, in per cent of its objects' bytes.
pub(crate) const FULL_HEAP_LIMIT_PERCENT: f64 = 2.5;
/// The most that a local heap may hold while it is idle.
pub(crate) const IDLE_LIMIT_KIB: f64 = 64.0;

const FULL_HEAP_BYTES: usize = 256 << 20;
const OBJECT_SIZE: usize = 64;
/// The largest size that has slots; every class is met in steps of 16 bytes.
const LARGEST_SIZE: usize = 32 << 10;
const SIZE_STEP: usize = 16;
/// More than two vectors hold, so that each class has had all that it wants.
const OBJECTS_EACH: usize = 1024;

/// A heap in which every byte of every span is an object's.
#[derive(Serialize)]
pub(crate) struct FullHeap {
    pub(crate) object_size: usize,
    pub(crate) live_bytes: usize,
    pub(crate) metadata_bytes: usize,
    pub(crate) metadata_percent: f64,
    /// What the system counts beyond the objects, in per cent of their bytes.
    pub(crate) pss_overhead_percent: Option<f64>,
}

pub(crate) fn of_a_full_heap(seed: u64) -> anyhow::Result<FullHeap> {
    let before = Cost::now();
    let heap = heap::new(seed, SlotOrder::default())?;
    let mut local = heap.local();
    let layout = Layout::from_size_align(OBJECT_SIZE, align_of::<u64>())?;
    for _ in 0..FULL_HEAP_BYTES / OBJECT_SIZE {
        let object = local.alloc(layout).map_err(heap::failed)?;
        // SAFETY: the object is ours and this large.
        unsafe { object.write_bytes(1, OBJECT_SIZE) };
    }
    let metadata_bytes = heap.statistics().metadata_bytes;
    let percent = |bytes| 100.0 * ratio(bytes, FULL_HEAP_BYTES);
    let pss = Cost::now().pss_since(&before);
    Ok(FullHeap {
        object_size: OBJECT_SIZE,
        live_bytes: FULL_HEAP_BYTES,
        metadata_bytes,
        metadata_percent: percent(metadata_bytes),
        pss_overhead_percent: pss.map(|pss| percent(pss) - 100.0),
    })
}

/// A local heap that all size classes were used through.
#[derive(Serialize)]
pub(crate) struct IdleLocalHeap {
    /// What it says it holds, at the end and at most.
    pub(crate) held_bytes: usize,
    pub(crate) most_held_bytes: usize,
    /// Slots that are taken although every object was freed and the depots are empty: those that wait in its vectors.
    pub(crate) slot_bytes: usize,
}

pub(crate) fn of_an_idle_local_heap(seed: u64) -> anyhow::Result<IdleLocalHeap> {
    let heap = heap::new(seed, SlotOrder::default())?;
    let mut local = heap.local();
    let mut most_held_bytes = 0;
    for size in (SIZE_STEP..=LARGEST_SIZE).step_by(SIZE_STEP) {
        let layout = Layout::from_size_align(size, SIZE_STEP)?;
        most_held_bytes = most_held_bytes.max(use_class(&mut local, layout)?);
    }
    heap.purge().map_err(|error| anyhow::anyhow!("the heap cannot be purged: {error:?}"))?;
    let slot_bytes = heap.statistics().taken_bytes;
    Ok(IdleLocalHeap { held_bytes: local.held_bytes(), most_held_bytes, slot_bytes })
}

/// Allocates and frees many objects. Returns the most that the local heap held.
fn use_class(local: &mut Local<'_>, layout: Layout) -> anyhow::Result<usize> {
    let objects: Vec<_> =
        (0..OBJECTS_EACH).map(|_| local.alloc(layout)).collect::<Result<_, _>>().map_err(heap::failed)?;
    let held = local.held_bytes();
    for object in objects {
        // SAFETY: allocated just now with this layout, and forgotten.
        unsafe { local.dealloc(object, layout) };
    }
    Ok(held.max(local.held_bytes()))
}
