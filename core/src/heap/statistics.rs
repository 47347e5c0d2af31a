//! What a heap holds, in bytes, as one plain struct.

use crate::heap::Heap;
use crate::platform::Platform;
use crate::span::arena::all_classes;

/// A heap's figures. Each is exact for the moment at which its part was looked at; parts are looked at one after another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// [`Statistics::VERSION`], for readers of copies that outlive the program.
    pub version: u32,
    /// Bytes in slots that are taken and in large objects. Slots count whole. Those that wait in local heaps and, until
    /// [`Heap::purge`] or a mesh pass, in depots (up to 128 KiB a class) count as taken.
    pub taken_bytes: usize,
    /// Bytes of physical memory that the heap holds: objects' pages (each shared page once), dirty free pages and metadata.
    /// Pages that were handed out but not touched yet count. Where commit is not lazy, all that was reserved.
    pub held_bytes: usize,
    /// The part of `held_bytes` that is metadata: tables, pool, and a mesh pass's scratch memory while there is one.
    pub metadata_bytes: usize,
    /// The part of `held_bytes` in free pages that hold old content.
    pub dirty_bytes: usize,
    /// Bytes of address space in spans and large objects, aliases included.
    pub span_bytes: usize,
    /// The most that `span_bytes` has been.
    pub span_bytes_peak: usize,
    /// Bytes of address space that show other pages' memory: what meshing saves now.
    pub aliased_bytes: usize,
    /// Bytes of address space in free runs without memory, before the last page that is in use.
    pub clean_bytes: usize,
    /// Bytes of address space of dead aliases that the system refused to unalias so far.
    pub parted_bytes: usize,
    /// Bytes of the arena's address space.
    pub arena_bytes: usize,
    /// Mappings in use beyond the arena's first.
    pub mappings: usize,
    /// The most that meshing may use of them.
    pub mapping_budget: usize,
    /// Steps of meshing so far.
    pub mesh_steps: u64,
    /// Passes through the whole heap so far.
    pub mesh_passes: u64,
    /// Pages that meshing has freed so far.
    pub pages_meshed: u64,
    /// The longest step so far, in nanoseconds of the platform's clock.
    pub longest_step_ns: u64,
    /// Objects that are pinned now: see [`Heap::pin`].
    pub pinned_objects: usize,
    /// Wrong pointers found so far.
    pub misuses: u64,
}

impl Statistics {
    /// Changes when a field's meaning changes or a field goes, not when one is added.
    pub const VERSION: u32 = 1;
}

impl<P: Platform> Heap<P> {
    /// The heap's figures now. O(number of classes).
    pub fn statistics(&self) -> Statistics {
        let arena = self.arena();
        let page_size = arena.map().page_size();
        let (mut taken_bytes, mut class_pages, mut hollow_pages) = (0, 0, 0);
        for class in all_classes() {
            let counts = arena.class(class).spans.counts();
            let cut = arena.cut(class);
            taken_bytes += usize::try_from(counts.taken).unwrap_or(usize::MAX) * cut.size as usize;
            class_pages += counts.spans as usize * cut.pages as usize;
            hollow_pages += counts.hollow_pages as usize;
        }
        let (counts, mappings, mapping_budget) = {
            let pages = arena.page_heap();
            (pages.counts(), pages.mappings().in_use(), pages.mappings().budget())
        };
        let totals = self.pass.totals();
        let metadata_bytes = arena.metadata_bytes(counts.tables) + totals.scratch_bytes;
        let in_use = counts.in_use as usize;
        let without_memory = counts.aliased as usize + hollow_pages;
        let held_pages = in_use.saturating_sub(without_memory) + (counts.dirty + counts.unpurged) as usize;
        Statistics {
            version: Statistics::VERSION,
            taken_bytes: taken_bytes + in_use.saturating_sub(class_pages) * page_size,
            held_bytes: if arena.facts().lazy_commit { held_pages } else { counts.total as usize } * page_size
                + metadata_bytes,
            metadata_bytes,
            dirty_bytes: counts.dirty as usize * page_size,
            span_bytes: in_use * page_size,
            span_bytes_peak: counts.in_use_peak as usize * page_size,
            aliased_bytes: counts.aliased as usize * page_size,
            clean_bytes: counts.clean as usize * page_size,
            parted_bytes: counts.parted as usize * page_size,
            arena_bytes: counts.total as usize * page_size,
            mappings,
            mapping_budget,
            mesh_steps: totals.steps,
            mesh_passes: totals.passes,
            pages_meshed: totals.pages_freed,
            longest_step_ns: totals.longest_step_ns,
            pinned_objects: arena.pinned(),
            misuses: arena.misuse_count(),
        }
    }
}
