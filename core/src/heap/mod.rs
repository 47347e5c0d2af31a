//! The heap as a value: created, shared, used and dropped by its embedder. See the crate docs for the tour.

#[cfg(any(feature = "allocator-api2", feature = "allocator-api2-04", feature = "nightly"))]
pub(crate) mod allocator_api;
pub(crate) mod cell;
#[cfg(feature = "check")]
mod check;
#[cfg(not(all(loom, feature = "loom")))]
mod fork;
pub(crate) mod inspect;
pub(crate) mod json;
pub(crate) mod large;
pub(crate) mod leaks;
pub(crate) mod marks;
mod meshable;
pub(crate) mod pin;
pub(crate) mod relief;
mod reset;
pub(crate) mod statistics;
pub(crate) mod sweep;
pub(crate) mod walk;
mod would_fit;

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;

use crate::base::budget::{Budget, BudgetRef};
use crate::base::config::MIN_ALIGN;
use crate::base::error::{AllocError, Misuse, MisuseKind, PlatformError};
use crate::base::units::SizeClass;
use crate::ds::size_class::{SIZES, of_layout, of_size};
use crate::heap::relief::with_relief;
use crate::local_heap::LocalHeap;
use crate::mesh::pair::Writers;
use crate::mesh::pass::MeshPass;
use crate::mesh::{MeshBudget, MeshStep};
use crate::page_heap::{Content, PageKind};
use crate::platform::{Facts, Platform};
use crate::span::arena::{Arena, Options};

/// A heap that gives fragmented memory back without moving objects.
///
/// It is shared by reference: any thread may allocate and free, through a [`LocalHeap`] of its own (fast, mostly without
/// locks) or through the heap itself (a lock for each call). Any of them may free any object of the heap. Heaps are
/// independent of each other. **Dropping a heap gives all of its memory back**, live objects included, so the embedder must
/// not touch them afterwards.
///
/// Nothing happens behind the embedder's back: no threads, no signals, no statics. Memory comes back when
/// [`Heap::mesh_at_safepoint`], [`Heap::mesh`] or [`Heap::purge`] is called.
pub struct Heap<P: Platform> {
    pass: MeshPass,
    arena: Arena<P>,
}

impl<P: Platform> fmt::Debug for Heap<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap").field("statistics", &self.statistics()).finish_non_exhaustive()
    }
}

/// What a pointer into the heap points to the start of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Located {
    /// A slot of this class.
    Small(SizeClass),
    /// A large object.
    Large,
}

impl<P: Platform> Heap<P> {
    /// A heap on `platform` with the default [`Options`].
    ///
    /// # Errors
    /// The platform has no room for even the smallest arena or its tables.
    pub fn new(platform: P) -> Result<Self, AllocError> {
        Self::with_options(platform, Options::default())
    }

    /// A heap on `platform`, set up as `options` say. Where the platform has no room for the arena, half of it is tried, a
    /// quarter, and so on: [`Statistics::arena_bytes`] tells what it became.
    ///
    /// [`Statistics::arena_bytes`]: crate::Statistics::arena_bytes
    ///
    /// # Errors
    /// As for [`Heap::new`].
    pub fn with_options(platform: P, options: Options) -> Result<Self, AllocError> {
        Ok(Self { pass: MeshPass::new(), arena: Arena::new(platform, options, None)? })
    }

    /// The same, charged to `budget` and the nodes above it: the bytes of spans and large objects as they come and go
    /// ([`Resource::Virtual`]) and the memory that they hold ([`Resource::Physical`]). Several heaps may charge one node.
    ///
    /// When a node has no room, the allocation gives back what the heap holds without need, meshes if it may
    /// ([`Options::mesh_at_limit`]), and tries again; then it calls the node's hook
    /// ([`BudgetOptions::on_limit`](crate::BudgetOptions::on_limit)) once, and tries a last time. The error
    /// ([`AllocError::OverBudget`]) names the node. A free never fails, and needs no room.
    ///
    /// [`Resource::Virtual`]: crate::Resource::Virtual
    /// [`Resource::Physical`]: crate::Resource::Physical
    ///
    /// # Errors
    /// As for [`Heap::new`]. The heap's own metadata is not charged, so the budget refuses nothing yet.
    pub fn with_budget(platform: P, options: Options, budget: impl Into<BudgetRef>) -> Result<Self, AllocError> {
        Ok(Self { pass: MeshPass::new(), arena: Arena::new(platform, options, Some(budget.into()))? })
    }

    /// The node that the heap's memory is charged to.
    pub fn budget(&self) -> Option<&Budget> {
        self.arena.budget()
    }

    /// A handle for the calling thread, with a fast path of its own.
    pub fn local(&self) -> LocalHeap<&Self> {
        LocalHeap::new(self)
    }

    /// The platform that the heap was made on.
    pub fn platform(&self) -> &P {
        self.arena.platform()
    }

    /// What that platform can do, and so which wishes the heap can fulfil: a heap whose platform cannot alias or purge pages does
    /// not mesh, and one without a write barrier meshes at safepoints only. Why it cannot is the platform's to tell.
    pub fn facts(&self) -> &Facts {
        self.arena.facts()
    }

    pub(crate) const fn arena(&self) -> &Arena<P> {
        &self.arena
    }

    /// An object that holds `layout`, uninitialised; a size of zero gives an object of its own, too. Takes a lock: threads
    /// that allocate much do so through a [`LocalHeap`].
    ///
    /// # Errors
    /// See [`AllocError`]; the heap is as before.
    pub fn alloc(&self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        let attempt = |heap: &mut &Self| match of_layout(layout) {
            Some(class) => Ok(heap.arena.claim_one(class)?.0),
            None => heap.alloc_large(layout, Content::Old),
        };
        with_relief(&mut &*self, |heap| heap, layout.size(), attempt)
    }

    /// An object that holds `layout`, all its bytes zero. Pages that are known to be zero are not touched.
    ///
    /// # Errors
    /// As for [`Heap::alloc`].
    pub fn alloc_zeroed(&self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        with_relief(&mut &*self, |heap| heap, layout.size(), |heap| heap.try_alloc_zeroed(layout))
    }

    /// The same, without making room in a budget.
    pub(crate) fn try_alloc_zeroed(&self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        let Some(class) = of_layout(layout) else {
            return self.alloc_large(layout, Content::Zero);
        };
        let (object, content) = self.arena.claim_one(class)?;
        if content == Content::Old {
            // SAFETY: the slot was just claimed and holds the layout's size.
            unsafe { object.write_bytes(0, layout.size()) };
        }
        Ok(object)
    }

    /// Frees an object.
    ///
    /// A wrong pointer is not freed, but counted and reported to [`Options::on_misuse`].
    ///
    /// # Safety
    /// `object` must be a live object of this heap, allocated (or last reallocated) with a layout of the same size and
    /// alignment, and not be used afterwards.
    pub unsafe fn dealloc(&self, object: NonNull<u8>, layout: Layout) {
        match of_layout(layout) {
            Some(class) => self.release_one(class, object),
            None => {
                if let Err(misuse) = self.free_large(object) {
                    self.arena.report(misuse);
                }
            }
        }
    }

    /// Frees an object whose layout the caller does not know.
    ///
    /// # Errors
    /// Nothing is freed if the pointer is not the start of a taken slot of this heap; see [`Misuse`].
    ///
    /// # Safety
    /// `object` must be a live object, which is not used afterwards, or any pointer but that of a slot that waits in a local
    /// heap or a depot: such a slot counts as taken and would be handed out twice.
    pub unsafe fn free(&self, object: NonNull<u8>) -> Result<(), Misuse> {
        match self.locate(object)? {
            Located::Small(class) => self.arena.release_one(class, object),
            Located::Large => self.free_large(object),
        }
    }

    pub(crate) fn release_one(&self, class: SizeClass, object: NonNull<u8>) {
        if let Err(misuse) = self.arena.release_one(class, object) {
            self.arena.report(misuse);
        }
    }

    /// Makes an object larger or smaller: in place if its slot or its pages allow, else by a copy. The alignment stays.
    ///
    /// # Errors
    /// As for [`Heap::alloc`]; the object is then as it was.
    ///
    /// # Safety
    /// As for [`Heap::dealloc`] with `layout`; on success only the returned pointer may be used.
    pub unsafe fn realloc(
        &self,
        object: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Result<NonNull<u8>, AllocError> {
        let new_layout = Layout::from_size_align(new_size, layout.align()).map_err(|_| AllocError::TooLarge)?;
        // SAFETY: the caller keeps the same contract.
        if let Some(resized) = unsafe { self.resize(object, layout, new_layout) } {
            return Ok(resized);
        }
        let moved = self.alloc(new_layout)?;
        let kept = layout.size().min(new_size);
        // SAFETY: both objects hold at least `kept` bytes, and they are two.
        unsafe { moved.copy_from_nonoverlapping(object, kept) };
        // SAFETY: the caller gave the object up.
        unsafe { self.dealloc(object, layout) };
        Ok(moved)
    }

    /// `object`, allocated with `layout`, made to hold `new_layout` without a copy: where it is or, if it is long, by moving its
    /// pages. None if it has to be copied; then it is as it was.
    ///
    /// # Safety
    /// As for [`Heap::realloc`].
    pub(crate) unsafe fn resize(&self, object: NonNull<u8>, layout: Layout, new_layout: Layout) -> Option<NonNull<u8>> {
        match (of_layout(layout), of_layout(new_layout)) {
            (Some(old), Some(new)) => (old == new).then_some(object),
            // SAFETY: the caller keeps the same contract.
            (None, None) => unsafe { self.resize_or_relocate(object, new_layout) },
            _ => None,
        }
    }

    /// What `object` points to the start of, as the page map alone tells: right for live objects, and for other pointers
    /// never more than a slot of the heap.
    #[inline]
    pub(crate) fn locate(&self, object: NonNull<u8>) -> Result<Located, Misuse> {
        let misuse = |kind| Misuse { address: object.addr().get(), kind };
        let map = self.arena.map();
        let page = map.page_of(object).ok_or(misuse(MisuseKind::NotOurs))?;
        match map.kind(page) {
            PageKind::Small(class) => {
                let slot = map.slot_of(self.arena.cut(class), page, object);
                slot.map(|_| Located::Small(class)).ok_or(misuse(MisuseKind::Interior))
            }
            PageKind::LargeHead if map.offset_in(page, object) == 0 => Ok(Located::Large),
            PageKind::LargeHead | PageKind::LargeTail => Err(misuse(MisuseKind::Interior)),
            PageKind::Free => Err(misuse(MisuseKind::NotOurs)),
        }
    }

    /// Whether `object` points to the start of a slot of `class`: what debug builds ask before a free.
    pub(crate) fn is_of_class(&self, object: NonNull<u8>, class: SizeClass) -> bool {
        matches!(self.locate(object), Ok(Located::Small(found)) if found == class)
    }

    /// Bytes that a live object can really hold, at least its layout's size.
    ///
    /// # Errors
    /// The pointer is no live object of this heap; see [`Misuse`].
    pub fn usable_size(&self, object: NonNull<u8>) -> Result<usize, Misuse> {
        match self.locate(object)? {
            Located::Small(class) => {
                self.arena.class(class).spans.check_taken(self.arena.map(), object)?;
                Ok(self.arena.cut(class).size as usize)
            }
            Located::Large => self.large_size(object),
        }
    }

    /// Bytes of the slot that starts at `object`, be it taken or free; none if a large object starts there. Takes no lock.
    ///
    /// # Errors
    /// The pointer is the start of neither; see [`Misuse`].
    #[inline]
    pub fn slot_size(&self, object: NonNull<u8>) -> Result<Option<usize>, Misuse> {
        Ok(match self.locate(object)? {
            Located::Small(class) => Some(self.arena.cut(class).size as usize),
            Located::Large => None,
        })
    }

    /// Bytes of each slot of the span that `pointer` points into, wherever in a slot; none if it points into a large object, or to
    /// nothing of this heap. One byte of the page map is read, and nothing else is checked.
    ///
    /// For the address of a live small object that is its usable size, for which C libraries ask their allocator at each call; and
    /// whoever does not know the object's layout may free and resize it as one of this size, aligned to 16, which is faster than
    /// [`LocalHeap::free`], and checks less.
    #[inline]
    pub fn slot_size_at(&self, pointer: NonNull<u8>) -> Option<usize> {
        let map = self.arena.map();
        match map.kind(map.page_of(pointer)?) {
            PageKind::Small(class) => Some(SIZES[class.index()] as usize),
            PageKind::LargeHead | PageKind::LargeTail | PageKind::Free => None,
        }
    }

    /// [`Heap::usable_size`] for an object that the caller knows to be live: no lock for a small one, and a free slot counts as
    /// live.
    ///
    /// # Errors
    /// The pointer is not the start of a slot or of a large object; see [`Misuse`].
    #[inline]
    pub fn usable_size_of_live(&self, object: NonNull<u8>) -> Result<usize, Misuse> {
        match self.slot_size(object)? {
            Some(size) => Ok(size),
            None => self.large_size(object),
        }
    }

    /// A live object, whose layout the caller does not know, made to hold `size` bytes without a copy: where it is or, if it is
    /// long, by moving its pages. None if it has to be copied, as one that would waste half of its memory or more; then it is
    /// as it was. Its alignment becomes that of a slot or a page.
    ///
    /// # Errors
    /// The pointer is not the start of a slot or of a large object; see [`Misuse`].
    ///
    /// # Safety
    /// `object` must be a live object, of which no more than `size` bytes are used afterwards, and none if the result is another
    /// pointer; or any pointer that is an error.
    pub unsafe fn resize_live(&self, object: NonNull<u8>, size: usize) -> Result<Option<NonNull<u8>>, Misuse> {
        let (is_slot, usable) = match self.slot_size(object)? {
            Some(size) => (true, size),
            None => (false, self.large_size(object)?),
        };
        if of_size(size).is_some_and(|class| self.arena.cut(class).size as usize <= usable / 2) {
            return Ok(None);
        }
        if is_slot {
            return Ok((size <= usable).then_some(object));
        }
        let layout = Layout::from_size_align(size, MIN_ALIGN).ok();
        // SAFETY: the caller keeps the same contract.
        Ok(layout.and_then(|layout| unsafe { self.resize_or_relocate(object, layout) }))
    }

    /// Whether `pointer` points into a span or a large object of this heap, be it to the start of an object or not. A free
    /// slot counts: its page is the heap's.
    pub fn contains(&self, pointer: NonNull<u8>) -> bool {
        let map = self.arena.map();
        map.page_of(pointer).is_some_and(|page| map.kind(page) != PageKind::Free)
    }

    /// One bounded step of meshing: lays spans whose live objects do not overlap onto the same physical pages and gives the
    /// freed pages back to the system. No object moves and no byte of one changes. Call it again until
    /// [`MeshStep::end`] says that the pass is done.
    ///
    /// Other threads may allocate (`alloc`) and free meanwhile, as long as they do not write to objects; `alloc_zeroed` and
    /// `realloc` write. Only one step runs at a time: a second one returns at once, with [`crate::StepEnd::Busy`].
    ///
    /// A step looks at the budget between units of work of some 10 to 50 microseconds. A call of the platform that fails
    /// ends the step with [`crate::StepEnd::Refused`]; the heap is whole and everything meshed so far stays meshed.
    ///
    /// # Safety
    /// The caller must stand at a *safepoint*: until the call returns, no thread writes to any object of this heap, be it by
    /// `alloc_zeroed` or `realloc`, nor does the kernel or a device on a thread's behalf. Reads are fine.
    pub unsafe fn mesh_at_safepoint(&self, budget: MeshBudget) -> MeshStep {
        // SAFETY: the caller keeps the same contract.
        unsafe { self.pass.step(&self.arena, budget, Writers::AtSafepoint) }
    }

    /// The same, safe at any moment: other threads may do whatever they like to objects meanwhile. Needs a platform with a
    /// *write barrier* ([`crate::Facts::write_barrier`]), else it ends with [`StepEnd::Unsupported`]. Steps of both kinds go on
    /// with one another's pass.
    ///
    /// While a span moves, which takes some 10 microseconds, its addresses can be read, and writes to them wait. What
    /// cannot wait is told, not lost: **a system call that writes to an object just then may fail** (on Linux, if the
    /// barrier is made of page protection, with EFAULT, and a datagram that was to go there is dropped; with userfaultfd it
    /// waits). Make such calls into pinned objects ([`Heap::pin`]), make them again, or mesh at safepoints.
    ///
    /// What writes past page protection knows nothing of any barrier, and goes to the old page, that is nowhere: devices and
    /// the kernel on pages that they pinned before (`O_DIRECT`, registered buffers of io_uring, RDMA), and other processes.
    /// Such objects, and futexes that processes share, must be pinned with [`Heap::pin`], or live in a heap that
    /// [never meshes](crate::Options::never_mesh).
    ///
    /// [`StepEnd::Unsupported`]: crate::StepEnd::Unsupported
    pub fn mesh(&self, budget: MeshBudget) -> MeshStep {
        // SAFETY: without a safepoint nothing is asked of the caller.
        unsafe { self.pass.step(&self.arena, budget, Writers::Running) }
    }

    /// Gives all free pages back to the system, those inside spans included, and slots that wait in depots to their spans.
    /// Returns how many bytes went back.
    ///
    /// # Errors
    /// The platform's code; the heap is whole, and the pages that could not be given back stay free.
    pub fn purge(&self) -> Result<usize, PlatformError> {
        self.arena.drain_all();
        self.arena.retry_parted();
        let pages = self.arena.hollow_all()? + self.arena.purge(u32::MAX)?;
        Ok(pages as usize * self.arena.map().page_size())
    }

    /// Gives the slots that wait in depots back to their spans, which takes no call of the system but for spans that become empty. When
    /// every local heap was flushed before ([`LocalHeap::flush`]), a slot is then taken if and only if a caller holds it, until the
    /// next allocation or free: what a collector wants before it marks by [`Heap::object_at`] or walks [`Heap::objects`].
    /// [`Heap::sweep`], [`Heap::purge`] and [`Heap::leaks`] do it themselves.
    ///
    /// O(slots that wait).
    pub fn drain_depots(&self) {
        self.arena.drain_all();
    }

    /// Changes how many mappings meshing may use beyond the first. Mappings in use above it stay until their objects die.
    pub fn set_mapping_budget(&self, mappings: usize) {
        self.arena.page_heap().mappings_mut().set_budget(mappings);
    }
}

impl<P: Platform> Drop for Heap<P> {
    fn drop(&mut self) {
        self.pass.abandon(&self.arena);
    }
}
