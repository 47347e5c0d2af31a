//! The loops that are measured. All have the same form: take a pointer, show it to nobody, put it back.

use core::alloc::Layout;
use core::ptr::NonNull;

use anyhow::anyhow;
use meshheap::{Heap, LocalHeap, Options};
use meshheap_linux::LinuxPlatform;

use crate::fastpath::Kind;
use crate::fastpath::array::Array;
use crate::fastpath::barrier::{hide, hide_layout};

type Local<'h> = LocalHeap<&'h Heap<LinuxPlatform>>;

const LAYOUT: Layout = Layout::new::<[u8; 64]>();
/// Small, since valgrind has little room for address space.
const ARENA_BYTES: usize = 64 << 20;

/// What the loops work on.
pub(crate) struct Loops<'h> {
    local: Local<'h>,
    array: Array,
}

impl Loops<'_> {
    /// Gives `work` loops on a heap of their own.
    pub(crate) fn with<R>(work: impl FnOnce(&mut Loops<'_>) -> R) -> anyhow::Result<R> {
        let options = Options { seed: Some(1), arena_bytes: ARENA_BYTES, ..Options::default() };
        let heap = Heap::with_options(LinuxPlatform::new(), options).map_err(|error| anyhow!("no heap: {error:?}"))?;
        let mut local = heap.local();
        let object = local.alloc(LAYOUT).map_err(|error| anyhow!("no object: {error:?}"))?;
        Ok(work(&mut Loops { local, array: Array::new(object) }))
    }

    /// Runs so many pairs of one kind.
    pub(crate) fn run(&mut self, kind: Kind, pairs: u64) {
        match kind {
            Kind::Empty => empty(&mut self.array, pairs),
            Kind::UncheckedArray => unchecked_array(&mut self.array, pairs),
            Kind::Array => array(&mut self.array, pairs),
            Kind::Known => known(&mut self.local, pairs),
            Kind::Unknown => unknown(&mut self.local, pairs),
        }
    }
}

/// The same value, of which the compiler has to assume that it was changed.
#[inline(always)]
fn changed<T>(value: &mut T) -> &mut T {
    // SAFETY: it is the pointer that went in, and nobody else has it.
    unsafe { &mut *hide(value) }
}

/// The same pointer, of which the compiler has to assume that it is another.
#[inline(always)]
fn used(object: NonNull<u8>) -> NonNull<u8> {
    // SAFETY: it is the pointer that went in.
    unsafe { NonNull::new_unchecked(hide(object.as_ptr())) }
}

#[inline(never)]
fn empty(array: &mut Array, pairs: u64) {
    for _ in 0..pairs {
        let object = NonNull::from(changed(array));
        used(object.cast());
        changed(array);
    }
}

#[inline(never)]
fn unchecked_array(array: &mut Array, pairs: u64) {
    for _ in 0..pairs {
        // SAFETY: the array is half full whenever a pair begins.
        let object = used(unsafe { changed(array).pop_unchecked() });
        // SAFETY: as above.
        unsafe { changed(array).push_unchecked(object) };
    }
}

#[inline(never)]
fn array(array: &mut Array, pairs: u64) {
    for _ in 0..pairs {
        let Some(object) = changed(array).pop() else { unreachable!("the array is half full") };
        let object = used(object);
        let Some(()) = changed(array).push(object) else { unreachable!("the array is half full") };
    }
}

#[inline(never)]
fn known(local: &mut Local<'_>, pairs: u64) {
    for _ in 0..pairs {
        let Ok(object) = changed(local).alloc(LAYOUT) else { unreachable!("the heap is all but empty") };
        let object = used(object);
        // SAFETY: allocated just now with this layout.
        unsafe { changed(local).dealloc(object, LAYOUT) };
    }
}

/// The layout is another one at each call, for all that the compiler knows, so that nothing is worked out but once.
#[inline(never)]
fn unknown(local: &mut Local<'_>, pairs: u64) {
    let layout = hide_layout(LAYOUT);
    for _ in 0..pairs {
        let Ok(object) = changed(local).alloc(hide_layout(layout)) else { unreachable!("the heap is all but empty") };
        let object = used(object);
        // SAFETY: allocated just now with this layout.
        unsafe { changed(local).dealloc(object, hide_layout(layout)) };
    }
}
