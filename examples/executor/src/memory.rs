//! Where tasks lie.

use core::alloc::{GlobalAlloc, Layout};
use core::fmt;
use core::ptr::NonNull;
use core::time::Duration;
use std::sync::Arc;

use meshheap::{Heap, LocalHeap, MeshBudget, MeshStep, Platform, StepEnd};

use crate::sync::{Mutex, lock};

/// A source of memory for tasks.
///
/// # Safety
/// An object is apart from all others and stays where it is until it is freed, by whichever handle.
pub unsafe trait Memory: Send + Sync + 'static {
    /// A worker's handle.
    type Local: Send;

    /// A new handle.
    fn local(&self) -> Self::Local;

    /// An object that holds `layout`, uninitialised; none if there is no memory.
    fn alloc(&self, local: &mut Self::Local, layout: Layout) -> Option<NonNull<u8>>;

    /// The same for a thread that has no handle.
    fn alloc_outside(&self, layout: Layout) -> Option<NonNull<u8>>;

    /// Frees an object.
    ///
    /// # Safety
    /// It was allocated here, with this layout, and is not used any more.
    unsafe fn dealloc(&self, local: &mut Self::Local, object: NonNull<u8>, layout: Layout);

    /// The handle's worker will be idle: whatever the handle keeps can be given back.
    fn rest(&self, _local: &mut Self::Local) {}

    /// Something useful to do while all workers are idle, for about a millisecond. Says whether there is more of it.
    ///
    /// # Safety
    /// No thread writes to an object meanwhile.
    unsafe fn idle_step(&self) -> bool {
        false
    }
}

/// What one executor's meshing came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meshed {
    /// Steps taken.
    pub steps: usize,
    /// Pages that came back, by meshing or because they held nothing any more.
    pub pages: usize,
    /// The longest step.
    pub longest: Duration,
}

/// A heap of the executor's own.
pub struct HeapMemory<P: Platform> {
    heap: Arc<Heap<P>>,
    meshed: Mutex<Meshed>,
}

impl<P: Platform> fmt::Debug for HeapMemory<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeapMemory").field("heap", &self.heap).finish_non_exhaustive()
    }
}

impl<P: Platform> HeapMemory<P> {
    /// How long workers that have nothing to do may be kept by one step.
    const PAUSE: Duration = Duration::from_micros(500);

    /// Tasks lie in `heap`, which should hold nothing else that is written to while the executor is idle.
    #[must_use]
    pub fn new(heap: Heap<P>) -> Self {
        Self { heap: Arc::new(heap), meshed: Mutex::new(Meshed::default()) }
    }

    /// The heap, for its figures.
    pub fn heap(&self) -> &Arc<Heap<P>> {
        &self.heap
    }

    /// What meshing came to so far.
    pub fn meshed(&self) -> Meshed {
        *lock(&self.meshed)
    }

    fn count(&self, step: &MeshStep) {
        let mut meshed = lock(&self.meshed);
        meshed.steps += 1;
        meshed.pages += step.pages_freed + step.pages_purged;
        meshed.longest = meshed.longest.max(Duration::from_nanos(step.nanoseconds));
    }
}

// SAFETY: a heap gives each object a slot or pages of its own, which any handle may free.
unsafe impl<P: Platform + 'static> Memory for HeapMemory<P>
where
    Heap<P>: Send + Sync,
{
    type Local = LocalHeap<Arc<Heap<P>>>;

    fn local(&self) -> Self::Local {
        LocalHeap::new(self.heap.clone())
    }

    fn alloc(&self, local: &mut Self::Local, layout: Layout) -> Option<NonNull<u8>> {
        local.alloc(layout).ok()
    }

    fn alloc_outside(&self, layout: Layout) -> Option<NonNull<u8>> {
        self.heap.alloc(layout).ok()
    }

    unsafe fn dealloc(&self, local: &mut Self::Local, object: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller keeps the same contract.
        unsafe { local.dealloc(object, layout) };
    }

    fn rest(&self, local: &mut Self::Local) {
        local.flush();
    }

    unsafe fn idle_step(&self) -> bool {
        let budget = MeshBudget::time(Self::PAUSE);
        let step = if self.heap.platform().facts().write_barrier {
            self.heap.mesh(budget)
        } else {
            // SAFETY: the caller's contract is what a safepoint is.
            unsafe { self.heap.mesh_at_safepoint(budget) }
        };
        self.count(&step);
        // A pass that found much may be followed by another that finds more.
        step.end == StepEnd::Budget || step.end == StepEnd::PassDone && step.pages_freed > 0
    }
}

/// Any other allocator, to compare with.
#[derive(Clone, Copy, Debug)]
pub struct Global<A>(pub A);

// SAFETY: what `GlobalAlloc` promises.
unsafe impl<A: GlobalAlloc + Send + Sync + 'static> Memory for Global<A> {
    type Local = ();

    fn local(&self) {}

    fn alloc(&self, (): &mut (), layout: Layout) -> Option<NonNull<u8>> {
        self.alloc_outside(layout)
    }

    fn alloc_outside(&self, layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: a task begins with a header, so the layout has a size.
        NonNull::new(unsafe { self.0.alloc(layout) })
    }

    unsafe fn dealloc(&self, (): &mut (), object: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller keeps the same contract.
        unsafe { self.0.dealloc(object.as_ptr(), layout) };
    }
}
