//! A JavaScript runtime with a heap of its own.

use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use meshheap::{AllocError, Heap, MeshBudget, Options};
use meshheap_linux::HybridPlatform;
use rquickjs::{Context, Ctx, Error, Function, Runtime};

use super::allocators::{Entered, HeapPointer, Mimalloc, SystemMalloc};
use crate::malloc::Malloc;
use crate::meshing::{MeshReport, mesh_until_settled};

/// Where a runtime's objects come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// A heap of its own, which may have so many bytes of address space.
    Heap {
        /// A request beyond it is refused, and JavaScript throws. Less than [`Source::MIN_LIMIT`] is refused.
        limit: usize,
    },
    /// The system's malloc.
    System,
    /// mimalloc.
    Mimalloc,
}

impl Source {
    /// What a runtime needs for JavaScript's library. QuickJS itself does not survive that there is no memory for it.
    pub const MIN_LIMIT: usize = 2 << 20;

    /// A heap that only the machine limits.
    #[must_use]
    pub fn heap() -> Self {
        Self::Heap { limit: Options::default().arena_bytes }
    }
}

/// Why a program did not come to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JsError {
    /// There is no memory for a heap or a runtime.
    NoEngine(Option<AllocError>),
    /// The program needs more memory than there is.
    OutOfMemory,
    /// The program threw this.
    Thrown(String),
}

impl fmt::Display for JsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEngine(Some(error)) => write!(f, "no heap: {error}"),
            Self::NoEngine(None) => f.write_str("there is no memory for a runtime"),
            Self::OutOfMemory => f.write_str("the program ran out of memory"),
            Self::Thrown(text) => write!(f, "the program threw: {text}"),
        }
    }
}

impl core::error::Error for JsError {}

/// A runtime and its heap. J1: the heap is never borrowed mutably, and outlives the runtime.
pub struct Engine {
    context: ManuallyDrop<Context>,
    runtime: ManuallyDrop<Runtime>,
    /// From `Box::into_raw`; none on other allocators.
    heap: Option<HeapPointer>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("heap", &self.heap()).finish_non_exhaustive()
    }
}

impl Engine {
    /// A runtime with JavaScript's standard library.
    ///
    /// # Errors
    /// There is no memory, or the heap's limit does not suffice even for that.
    pub fn new(source: Source) -> Result<Self, JsError> {
        let heap = match source {
            Source::Heap { limit } => Some(new_heap(limit)?),
            Source::System | Source::Mimalloc => None,
        };
        let _entered = Entered::new(heap);
        let runtime = match (heap, source) {
            (Some(heap), _) => Runtime::new_with_alloc(Malloc::new(heap)),
            (None, Source::Mimalloc) => Runtime::new_with_alloc(Mimalloc),
            (None, _) => Runtime::new_with_alloc(SystemMalloc),
        };
        let made = runtime.and_then(|runtime| Ok((Context::full(&runtime)?, runtime)));
        let Ok((context, runtime)) = made else {
            heap.into_iter().for_each(drop_heap);
            return Err(JsError::NoEngine(None));
        };
        Ok(Self { context: ManuallyDrop::new(context), runtime: ManuallyDrop::new(runtime), heap })
    }

    /// Runs a program's text.
    ///
    /// # Errors
    /// It throws. The engine stays usable.
    pub fn load(&mut self, text: &str) -> Result<(), JsError> {
        self.enter(|context| context.eval::<(), _>(text))
    }

    /// Calls the global function `name`.
    ///
    /// # Errors
    /// It throws, or its result is no number. The engine stays usable.
    pub fn call(&mut self, name: &str, argument: u32) -> Result<f64, JsError> {
        self.enter(|context| context.globals().get::<_, Function<'_>>(name)?.call((argument,)))
    }

    fn enter<T>(&mut self, work: impl FnOnce(&Ctx<'_>) -> Result<T, Error>) -> Result<T, JsError> {
        let _entered = Entered::new(self.heap);
        self.context.with(|context| {
            work(&context).map_err(|error| match error {
                Error::Allocation => JsError::OutOfMemory,
                Error::Exception => thrown(&context),
                other => JsError::Thrown(other.to_string()),
            })
        })
    }

    /// Collects all garbage.
    pub fn collect(&mut self) {
        let _entered = Entered::new(self.heap);
        self.runtime.run_gc();
    }

    /// The heap; none on other allocators.
    #[must_use]
    pub fn heap(&self) -> Option<&Heap<HybridPlatform>> {
        // SAFETY: J1.
        self.heap.as_ref().map(|heap| unsafe { heap.0.as_ref() })
    }

    /// Meshes, in the pause of a collection or whenever no program runs, in steps that `budget` bounds. None on other
    /// allocators.
    pub fn mesh(&mut self, budget: MeshBudget) -> Option<MeshReport> {
        // SAFETY: all objects of the heap are the runtime's, which is here, borrowed mutably: no program runs.
        self.heap().map(|heap| unsafe { mesh_until_settled(heap, budget, |_| ()) })
    }

    /// Drops the heap with everything in it, in a time that does not depend on how many objects there are: none of them is
    /// looked at. What rquickjs itself keeps of a runtime outside of its heap, some hundred bytes, is lost. On other allocators
    /// the same as `drop`.
    pub fn drop_at_once(self) {
        let this = ManuallyDrop::new(self);
        match this.heap {
            // Runtime and context are forgotten.
            Some(heap) => drop_heap(heap),
            None => drop(ManuallyDrop::into_inner(this)),
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let entered = Entered::new(self.heap);
        // SAFETY: neither is used afterwards.
        unsafe { ManuallyDrop::drop(&mut self.context) };
        // SAFETY: as above.
        unsafe { ManuallyDrop::drop(&mut self.runtime) };
        drop(entered);
        self.heap.into_iter().for_each(drop_heap);
    }
}

fn new_heap(limit: usize) -> Result<HeapPointer, JsError> {
    if limit < Source::MIN_LIMIT {
        return Err(JsError::NoEngine(None));
    }
    // One thread uses it: it may keep more slots at hand than one of a thousand.
    let local_heap_bytes = (limit / 64).min(1 << 20);
    let options = Options { arena_bytes: limit, local_heap_bytes, ..Options::default() };
    let heap = Heap::with_options(HybridPlatform::new(), options).map_err(|error| JsError::NoEngine(Some(error)))?;
    Ok(HeapPointer(NonNull::from(Box::leak(Box::new(heap)))))
}

/// Nobody uses the heap any more.
fn drop_heap(heap: HeapPointer) {
    // SAFETY: made by `Box::leak` in `new_heap`, and dropped once: with its engine.
    drop(unsafe { Box::from_raw(heap.0.as_ptr()) });
}

/// What the program threw. Without memory for an error object, QuickJS throws null.
fn thrown(context: &Ctx<'_>) -> JsError {
    let value = context.catch();
    let message = value.as_exception().and_then(|exception| exception.message());
    match message {
        Some(text) if text == "out of memory" => JsError::OutOfMemory,
        Some(text) => JsError::Thrown(text),
        None if value.is_null() || value.is_exception() => JsError::OutOfMemory,
        None => JsError::Thrown(format!("{value:?}")),
    }
}
