//! The heaps that are measured, and what the system says of them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use anyhow::anyhow;
use meshheap::{AllocError, Heap, LocalHeap, Options, SlotOrder};
use meshheap_linux::{LinuxPlatform, memory};

pub(crate) type LinuxHeap = Heap<LinuxPlatform>;
pub(crate) type Local<'h> = LocalHeap<&'h LinuxHeap>;

/// A heap as an embedder gets it, but with a seed.
pub(crate) fn new(seed: u64, order: SlotOrder) -> anyhow::Result<LinuxHeap> {
    let options = Options { seed: Some(seed), slot_order: order, ..Options::default() };
    Heap::with_options(LinuxPlatform::new(), options).map_err(failed)
}

pub(crate) fn failed(error: AllocError) -> anyhow::Error {
    anyhow!("the heap has no memory: {error:?}")
}

/// What the process costs now. A heap's own cost is the difference to the moment before it was made.
#[derive(Clone, Copy)]
pub(crate) struct Cost {
    pss: Option<usize>,
    file: Option<usize>,
}

impl Cost {
    pub(crate) fn now() -> Self {
        Self { pss: memory::pss_bytes(), file: arena_file_bytes() }
    }

    /// By how much the process's proportional set size grew since `before`.
    pub(crate) fn pss_since(&self, before: &Self) -> Option<usize> {
        Some(self.pss?.saturating_sub(before.pss?))
    }

    /// The same for the files behind arenas: their pages count even where no address shows them.
    pub(crate) fn file_since(&self, before: &Self) -> Option<usize> {
        Some(self.file?.saturating_sub(before.file?))
    }
}

/// Memory of all files behind arenas, by way of their mappings: nobody has descriptors of them. Only the privileged may look.
fn arena_file_bytes() -> Option<usize> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let arenas = maps.lines().filter(|line| line.contains("/memfd:meshheap"));
    let addresses = arenas.filter_map(|line| line.split_whitespace().next());
    let mut files = BTreeMap::new();
    for range in addresses {
        // The kernel writes addresses with leading zeros there, and reads them without.
        let (start, end) = range.split_once('-')?;
        let path = format!("/proc/self/map_files/{}-{}", start.trim_start_matches('0'), end.trim_start_matches('0'));
        let file = fs::metadata(path).ok()?;
        files.insert((file.dev(), file.ino()), file.blocks());
    }
    let blocks: u64 = files.values().sum();
    // A block is 512 bytes, whatever the file system.
    usize::try_from(blocks * 512).ok()
}
