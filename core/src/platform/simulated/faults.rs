//! Which calls of a platform fail because a test wants it. See the crate docs for the tour.

use crate::base::error::Operation;

/// By `Operation as usize`.
#[derive(Debug, Default)]
pub(in crate::platform) struct Faults([Plan; 9]);

/// What was, and what shall be, of one operation.
#[derive(Clone, Copy, Debug, Default)]
struct Plan {
    calls: usize,
    /// The call with this number fails.
    fail_at: Option<usize>,
    /// Every call fails.
    failing: bool,
}

impl Faults {
    /// A call begins.
    pub(in crate::platform) fn count(&mut self, operation: Operation) {
        self.0[operation as usize].calls += 1;
    }

    /// Whether the call that was counted last fails.
    pub(in crate::platform) fn strike(&self, operation: Operation) -> bool {
        let plan = self.0[operation as usize];
        plan.failing || plan.fail_at == Some(plan.calls)
    }

    pub(in crate::platform) fn calls(&self, operation: Operation) -> usize {
        self.0[operation as usize].calls
    }

    pub(in crate::platform) fn fail_nth(&mut self, operation: Operation, n: usize) {
        let plan = &mut self.0[operation as usize];
        plan.fail_at = Some(plan.calls + n);
    }

    pub(in crate::platform) fn fail_all(&mut self, operation: Operation) {
        self.0[operation as usize].failing = true;
    }

    pub(in crate::platform) fn heal(&mut self) {
        for plan in &mut self.0 {
            *plan = Plan { calls: plan.calls, ..Plan::default() };
        }
    }
}
