//! What a mesh pass would free, estimated from a few spans of each class before paying for the search and the calls.

use crate::base::config::{CLASS_COUNT, MAX_MESH_SLOTS};
use crate::base::units::{PageIndex, SizeClass};
use crate::heap::Heap;
use crate::mesh::row::candidate;
use crate::platform::Platform;
use crate::span::arena::class_number;

/// Spans of a class that are compared with each other: all pairs take some 50 microseconds, the bitmaps 8 KiB of stack.
const SAMPLE_SPANS: usize = 256;

/// Pages that are looked at for them, in chunks spread over the heap: some 20 microseconds.
const SAMPLE_PAGES: u32 = 16 << 10;

/// Pages looked at under one hold of the class lock.
const CHUNK_PAGES: u32 = 64;

/// The bitmap of a group that may be meshed.
type Bits = [u64; MAX_MESH_SLOTS as usize / 64];

/// Some of a class's spans.
struct Sample {
    bits: [Bits; SAMPLE_SPANS],
    length: usize,
    /// Spans of the class that might have been taken into it, had they not been full or aliases.
    considered: usize,
}

impl<P: Platform> Heap<P> {
    /// About how many bytes of physical memory a mesh pass would free now by meshing, without doing any of it. Free pages,
    /// which a pass gives back as well ([`crate::Statistics::dirty_bytes`]), are not part of it.
    ///
    /// It is an estimate from at most 256 spans of each class, on random heaps within a factor of two of what a pass then
    /// frees: good for the question whether a pass is worth its time. It is 0 where the platform cannot mesh, and as small as the mapping
    /// budget makes it. Other threads may use the heap meanwhile.
    ///
    /// Some 100 microseconds for each class in use that meshes, however large the heap; some 9 KiB of stack.
    pub fn meshable_bytes(&self) -> usize {
        let arena = self.arena();
        if !arena.facts().can_alias || !arena.facts().can_purge {
            return 0;
        }
        let (frontier, mut mappings) = {
            let pages = arena.page_heap();
            (pages.counts().frontier, pages.mappings().budget().saturating_sub(pages.mappings().in_use()))
        };
        let mut pages = 0;
        // As a pass does: longest spans first, while there are mappings. Each span takes one or two.
        for class in (0..CLASS_COUNT).rev().map(class_number) {
            let (cut, counts) = (arena.cut(class), arena.class(class).spans.counts());
            if counts.spans - counts.aliases < 2 || !cut.can_mesh() {
                continue;
            }
            let freed = self.sample(class, counts.spans, frontier).freed_of(counts.spans as usize).min(mappings);
            mappings -= freed;
            // Pages that hold no memory do not free any.
            pages += (freed * cut.pages as usize).saturating_sub(counts.hollow_pages as usize);
        }
        pages * arena.map().page_size()
    }

    /// Spans of `class`, of which there are `spans`, from all over the heap.
    #[inline(never)]
    fn sample(&self, class: SizeClass, spans: u32, frontier: u32) -> Sample {
        let (map, pages) = (self.arena().map(), self.arena().cut(class).pages);
        let mut sample = Sample { bits: [Bits::default(); SAMPLE_SPANS], length: 0, considered: 0 };
        // From one chunk to the next; small heaps are looked at as a whole.
        let stride = (frontier / (SAMPLE_PAGES / CHUNK_PAGES)).max(CHUNK_PAGES);
        let expected = u64::from(spans) * u64::from(CHUNK_PAGES) / u64::from(stride);
        let step = expected.div_ceil(SAMPLE_SPANS as u64).max(1);
        let (mut start, mut seen) = (0, 0_u64);
        while start < frontier && sample.length < SAMPLE_SPANS {
            let guard = self.arena().class(class);
            for page in (start..frontier.min(start + CHUNK_PAGES)).map(PageIndex::new) {
                if !map.starts_span(class, page, pages) {
                    continue;
                }
                seen += 1;
                if !seen.is_multiple_of(step) || sample.length == SAMPLE_SPANS {
                    continue;
                }
                sample.considered += 1;
                if let Some(bits) = candidate(self.arena(), &guard, class, page) {
                    sample.bits[sample.length].copy_from_slice(&bits[..Bits::default().len()]);
                    sample.length += 1;
                }
            }
            drop(guard);
            start = start.saturating_add(stride);
        }
        sample
    }
}

impl Sample {
    /// How many of `spans` spans, of which these are some, would become aliases.
    fn freed_of(&mut self, spans: usize) -> usize {
        if self.length < 2 {
            return 0;
        }
        let length = self.length as u128;
        let population = spans as u128 * length / self.considered as u128;
        let disjoint = self.disjoint_pairs() as u128;
        let pairs = length * (length - 1) / 2;
        // Where few spans fit each other, more find a partner among more of them. A span that fits `c` others on average is
        // paired with probability c / (1 + c), if pairs are taken as they come.
        let fitting = disjoint * population.saturating_sub(1);
        let by_pairs = if population > length { population * fitting / (2 * (pairs + fitting)) } else { 0 };
        let by_groups = population * (length - self.groups() as u128) / length;
        usize::try_from(by_pairs.max(by_groups)).unwrap_or(usize::MAX)
    }

    fn disjoint_pairs(&self) -> usize {
        let spans = &self.bits[..self.length];
        let fits_after = |(index, span)| spans[index + 1..].iter().filter(|other| disjoint(span, other)).count();
        spans.iter().enumerate().map(fits_after).sum()
    }

    /// In how many groups they end if each, fullest first, joins the first group that it fits. The groups take the spans'
    /// places.
    fn groups(&mut self) -> usize {
        let taken = |bits: &Bits| bits.iter().map(|word| word.count_ones()).sum::<u32>();
        self.bits[..self.length].sort_unstable_by_key(|bits| core::cmp::Reverse(taken(bits)));
        let mut groups = 0;
        for index in 0..self.length {
            let span = self.bits[index];
            match self.bits[..groups].iter_mut().find(|group| disjoint(group, &span)) {
                Some(group) => group.iter_mut().zip(span).for_each(|(group, word)| *group |= word),
                None => {
                    self.bits[groups] = span;
                    groups += 1;
                }
            }
        }
        groups
    }
}

fn disjoint(one: &Bits, other: &Bits) -> bool {
    one.iter().zip(other).all(|(one, other)| one & other == 0)
}
