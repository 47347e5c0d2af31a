//! Races: charges, uncharges and changes of a limit at the nodes of one tree of budgets.

use alloc::sync::Arc;

use crate::base::sync::UnsafeCell;
use crate::base::sync::testing::{model, thread};
use crate::tests::world::{LAYOUT, PAGE_SIZE};
use crate::{
    AllocError, Budget, BudgetOptions, BudgetRef, Heap, LimitBelowUse, Limits, Options, Refusal, Resource,
    SimulatedPlatform,
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

/// What only a hook touches: loom sees two at a time, or one that does not see what the last one did.
struct Calls(UnsafeCell<usize>);

// SAFETY: only the hook touches the cell, and hooks come one after another: that this is so is what the model checks.
unsafe impl Sync for Calls {}
// SAFETY: as above.
unsafe impl Send for Calls {}

/// Two tenants meet the limit of their process, whose hook makes room for whoever calls it. It runs for one of them at a time,
/// and each run sees what the last one did.
///
/// Seen to fail: with a relaxed swap in `call_hook` and with a relaxed store in `Hooked::drop` (the second run does not see the
/// first), and when `call_hook` loads and stores (both run at once).
#[test]
fn the_hook_of_the_node_above_runs_for_one_tenant_at_a_time() {
    model(|| {
        let calls = Arc::new(Calls(UnsafeCell::new(0)));
        let hook = {
            let calls = Arc::clone(&calls);
            move |refusal: &Refusal<'_>| {
                // SAFETY: see `Calls`.
                let called = calls.0.with(|calls| unsafe { *calls }) + 1;
                refusal.node.set_hard(refusal.resource, called * refusal.wanted).expect("the limit is raised");
                // The last thing: the fence of `set_hard` would hand over what came before it.
                // SAFETY: as above.
                calls.0.with_mut(|calls| unsafe { *calls = called });
            }
        };
        let options = BudgetOptions::new(0).physical_bytes(Limits::hard(0)).on_limit(Arc::new(hook));
        let process: BudgetRef = Arc::new(Budget::new(options)).into();
        let meet = |tenant: &BudgetRef| {
            let called = match tenant.charge(RESOURCE, 1) {
                Err(refused) => {
                    assert_eq!((refused.node(), refused.level()), (0, 1));
                    tenant.call_hook(refused, 1)
                }
                Ok(charge) => return (false, Some(charge)),
            };
            (called, if called { tenant.charge(RESOURCE, 1).ok() } else { None })
        };
        let (first, second) = (child(&process, Limits::UNLIMITED), child(&process, Limits::UNLIMITED));
        let other = thread::spawn(move || (meet(&second), second));
        let mine = meet(&first);
        let (theirs, _second) = other.join().expect("it does not panic");
        let called = usize::from(mine.0) + usize::from(theirs.0);
        // SAFETY: both threads are through.
        assert_eq!(calls.0.with(|calls| unsafe { *calls }), called, "each call ran");
        let made = usize::from(mine.1.is_some()) + usize::from(theirs.1.is_some());
        assert!((1..=2).contains(&called) && made >= 1, "{called} calls made room for {made}");
        assert_eq!(used(&process), made);
    });
}
