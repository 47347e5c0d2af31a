//! The bitmap of a whole group: a keeper's own slots and those of its aliases, which share its pages and are disjoint (I4).

use crate::base::units::{PageIndex, PageLink};
use crate::page_heap::{PageMap, PageRecord};

/// Words of the longest bitmap: 16-byte slots on a page of 64 KiB.
pub(crate) const MAX_WORDS: usize = 64;

/// One bit a slot.
pub(crate) type GroupBits = [u64; MAX_WORDS];

/// The aliases of a keeper, from the link in its record on.
///
/// # Safety
/// The caller must hold the class lock for as long as it uses the iterator.
pub(crate) unsafe fn aliases(map: &PageMap, first: PageLink) -> impl Iterator<Item = (PageIndex, PageRecord)> {
    let mut link = first;
    core::iter::from_fn(move || {
        let page = link.get()?;
        // SAFETY: an alias belongs to its keeper's class, whose lock is held by the function's contract.
        let record = unsafe { map.record(page) };
        let PageRecord::Alias { next, .. } = record else {
            unreachable!("I4: a keeper links aliases");
        };
        link = next;
        Some((page, record))
    })
}

/// Word number `word` of the union of the bitmaps of the keeper at `head` and its aliases, of which `first` is the first.
///
/// # Safety
/// The caller must hold the class lock.
#[inline]
pub(crate) unsafe fn union_word(map: &PageMap, head: PageIndex, first: PageLink, word: usize) -> u64 {
    // SAFETY: the keeper is of the class whose lock is held.
    let own = unsafe { map.word(head, word) };
    if first == PageLink::NONE {
        return own;
    }
    // SAFETY: by the function's contract.
    let members = unsafe { aliases(map, first) };
    // SAFETY: an alias belongs to its keeper's class.
    members.fold(own, |all, (page, _)| all | unsafe { map.word(page, word) })
}

/// The first `words` words of that union.
///
/// # Safety
/// The caller must hold the class lock.
pub(crate) unsafe fn union(map: &PageMap, head: PageIndex, first: PageLink, words: usize) -> GroupBits {
    let mut bits = [0; MAX_WORDS];
    for (word, all) in bits.iter_mut().enumerate().take(words) {
        // SAFETY: by the function's contract.
        *all = unsafe { union_word(map, head, first, word) };
    }
    bits
}

/// Set bits in the own bitmap of the span at `head`.
///
/// # Safety
/// The caller must hold the class lock.
pub(crate) unsafe fn own_live(map: &PageMap, head: PageIndex, words: usize) -> u16 {
    // SAFETY: by the function's contract.
    let ones = (0..words).map(|word| unsafe { map.word(head, word) }.count_ones()).sum::<u32>();
    u16::try_from(ones).expect("a span has at most 4096 slots")
}

/// The positions of the set bits of `word`, ascending.
pub(crate) fn set_bits(mut word: u64) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        if word == 0 {
            return None;
        }
        let bit = word.trailing_zeros();
        word &= word - 1;
        Some(bit)
    })
}
