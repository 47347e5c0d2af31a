//! What happens at a budget's hard limit.
//!
//! ```text
//!   attempt ──refused──▶ drain, purge, mesh ──▶ attempt ──refused──▶ the node's hook ──▶ attempt ──refused──▶ the error
//! ```
//!
//! No lock is held between attempts, so that the hook may do what it likes.

use crate::base::budget::{OverBudget, Resource};
use crate::base::config::{RELIEF_MESH_PAGES, RELIEF_MESH_STEPS, RELIEF_MESH_TIME};
use crate::base::error::AllocError;
use crate::heap::Heap;
use crate::mesh::{MeshBudget, StepEnd};
use crate::platform::Platform;

/// What `attempt` gives, tried again if a budget refuses it: after `source`'s heap has given back what it can, and after the hook.
#[inline]
pub(crate) fn with_relief<S, P: Platform, T>(
    source: &mut S,
    heap_of: impl Fn(&S) -> &Heap<P>,
    wanted: usize,
    attempt: impl Fn(&mut S) -> Result<T, AllocError>,
) -> Result<T, AllocError> {
    match attempt(source) {
        Err(AllocError::OverBudget(refused)) => attempt_with_relief(source, heap_of, wanted, refused, attempt),
        other => other,
    }
}

#[cold]
fn attempt_with_relief<S, P: Platform, T>(
    source: &mut S,
    heap_of: impl Fn(&S) -> &Heap<P>,
    wanted: usize,
    refused: OverBudget,
    attempt: impl Fn(&mut S) -> Result<T, AllocError>,
) -> Result<T, AllocError> {
    heap_of(source).relieve(refused.resource());
    match attempt(source) {
        Err(AllocError::OverBudget(refused)) => {
            let called = heap_of(source).budget().is_some_and(|budget| budget.call_hook(refused, wanted));
            if called { attempt(source) } else { Err(refused.into()) }
        }
        other => other,
    }
}

impl<P: Platform> Heap<P> {
    /// Gives back what the heap holds of `resource` without need.
    fn relieve(&self, resource: Resource) {
        match resource {
            Resource::Virtual => {
                self.arena().drain_all();
                self.arena().retry_parted();
            }
            Resource::Physical => {
                // What the platform refuses to take back stays charged.
                let _ = self.purge();
                self.mesh_at_limit();
            }
            // What the caller keeps of them went back before.
            Resource::Objects => {}
        }
    }

    /// Meshes a little, if the embedder said so and the platform can do it at any moment.
    fn mesh_at_limit(&self) {
        if !self.arena().options().mesh_at_limit {
            return;
        }
        let budget = MeshBudget::time(RELIEF_MESH_TIME).with_pages(RELIEF_MESH_PAGES);
        for _ in 0..RELIEF_MESH_STEPS {
            let step = self.mesh(budget);
            if step.end != StepEnd::Budget || step.pages_freed > 0 {
                break;
            }
        }
    }
}
