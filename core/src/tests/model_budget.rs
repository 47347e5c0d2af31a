//! Races: charges, uncharges and changes of a limit at the nodes of one tree of budgets.

use alloc::sync::Arc;

use crate::base::sync::testing::{model, thread};
use crate::tests::world::{LAYOUT, PAGE_SIZE};
use crate::{
    AllocError, Budget, BudgetOptions, BudgetRef, Heap, LimitBelowUse, Limits, Options, Resource, SimulatedPlatform,
};

const RESOURCE: Resource = Resource::Physical;

fn root(limits: Limits) -> BudgetRef {
    Arc::new(Budget::new(BudgetOptions::new(0).physical_bytes(limits))).into()
}

fn child(parent: &BudgetRef, limits: Limits) -> BudgetRef {
    let child = Budget::child(parent, BudgetOptions::new(1).physical_bytes(limits));
    Arc::new(child.expect("the floor fits")).into()
}

fn used(budget: &BudgetRef) -> usize {
    budget.usage(RESOURCE).used
}

/// Two threads charge two children of a process that has room for one of them.
///
/// Seen to fail: when `Counter::exchange` adds what it was to add to any value, so that the limit is checked once only (both
/// charges come through).
#[test]
fn two_charges_do_not_exceed_the_limit_above() {
    model(|| {
        let process = root(Limits::hard(4));
        let (first, second) = (child(&process, Limits::UNLIMITED), child(&process, Limits::UNLIMITED));
        let other = thread::spawn(move || (second.charge(RESOURCE, 3), second));
        let mine = first.charge(RESOURCE, 3);
        let (theirs, second) = other.join().expect("it does not panic");
        assert!(mine.is_ok() != theirs.is_ok(), "the limit has room for one of them");
        assert_eq!(used(&process), 3, "no byte is lost, and none stays of what was refused");
        drop((mine, theirs));
        assert_eq!((used(&first), used(&second), used(&process)), (0, 0, 0));
    });
}

/// Two threads charge one child across its floor, and one of them gives its bytes back at once.
///
/// Seen to fail: when `add` keeps what it charged above for the first value that it read, and when `Counter::exchange` adds to
/// any value (the process is charged too little); when `Counter::subtract` loads and stores (bytes are lost).
#[test]
fn what_is_beyond_a_floor_is_charged_above_once() {
    model(|| {
        let process = root(Limits::hard(8));
        let tenant = child(&process, Limits::UNLIMITED.with_floor(3));
        let other = {
            let tenant = tenant.clone();
            thread::spawn(move || drop(tenant.charge(RESOURCE, 2).expect("there is room")))
        };
        let mine = tenant.charge(RESOURCE, 4).expect("there is room");
        other.join().expect("it does not panic");
        assert_eq!((used(&tenant), used(&process)), (4, 4));
        drop(mine);
        assert_eq!((used(&tenant), used(&process)), (0, 3));
    });
}

/// A limit is lowered while a charge is made: either the charge sees it, or whoever lowered it sees the charge.
///
/// Seen to fail: without the fence in `charge_bytes` or without that in `set_hard`, and when `charge_bytes` does not look at
/// the limit again (both succeed).
#[test]
fn a_lowered_limit_holds_or_tells() {
    model(|| {
        let process = root(Limits::hard(8));
        let tenant = child(&process, Limits::UNLIMITED);
        let setter = {
            let process = process.clone();
            thread::spawn(move || process.set_hard(RESOURCE, 2))
        };
        let charge = tenant.charge(RESOURCE, 3);
        let set = setter.join().expect("it does not panic");
        match &charge {
            Ok(_) => assert_eq!(set, Err(LimitBelowUse { used: 3 })),
            Err(error) => assert_eq!((error.node(), error.level()), (0, 1)),
        }
        assert!(tenant.charge(RESOURCE, 3).is_err(), "the new limit is there");
        drop(charge);
        assert_eq!((used(&tenant), used(&process)), (0, 0));
    });
}

/// Two heaps of one tenant that has memory for one page each take one.
///
/// Seen to fail: when `PageHeap::take` keeps the address space that it charged for a run whose memory was refused, and when
/// `Account::hold` counts before it charges (I8); when `Counter::exchange` stores without comparing, and when
/// `Counter::subtract` loads and stores (bytes are lost).
#[test]
fn two_heaps_share_a_page() {
    model(|| {
        let tenant = root(Limits::hard(PAGE_SIZE));
        let heap = || {
            let options = Options { arena_bytes: 4 * PAGE_SIZE, seed: Some(1), ..Options::default() };
            let heap = Heap::with_budget(SimulatedPlatform::new(PAGE_SIZE), options, &tenant);
            Arc::new(heap.expect("the platform has room"))
        };
        let (first, second) = (heap(), heap());
        let other = thread::spawn(move || (second.alloc(LAYOUT).map(|_| ()), second));
        let mine = first.alloc(LAYOUT).map(|_| ());
        let (theirs, second) = other.join().expect("it does not panic");
        assert!(mine.is_ok() != theirs.is_ok(), "{mine:?} and {theirs:?}");
        let refused = mine.and(theirs).expect_err("one was refused");
        assert!(matches!(refused, AllocError::OverBudget(error) if error.resource() == RESOURCE), "{refused:?}");
        first.check_invariants();
        second.check_invariants();
        let spans = first.statistics().span_bytes + second.statistics().span_bytes;
        assert_eq!((used(&tenant), tenant.usage(Resource::Virtual).used), (spans, spans));
        drop((first, second));
        assert_eq!((used(&tenant), tenant.usage(Resource::Virtual).used), (0, 0));
    });
}
