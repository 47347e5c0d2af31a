//! Objects as the synthetic workloads use them: memory of a given size of which the head is written, as most programs do
//! with a fresh object.

/// How much is written: a cache line.
const HEAD: usize = 64;

/// A page of the system.
const PAGE: usize = 4096;

/// An object of `size` bytes that begins with `tag`.
pub(crate) fn object(size: usize, tag: usize) -> Vec<u8> {
    let mut object = Vec::with_capacity(size);
    object.resize(size.min(HEAD), tag as u8);
    object
}

/// An object of `size` bytes of which each page is touched.
pub(crate) fn touched(size: usize, tag: usize) -> Vec<u8> {
    let mut object = object(size, tag);
    for page in object.spare_capacity_mut().chunks_mut(PAGE) {
        page[0].write(tag as u8);
    }
    object
}

/// What the object begins with: read before it goes.
pub(crate) fn tag(object: &[u8]) -> u64 {
    object.first().copied().unwrap_or(0).into()
}
