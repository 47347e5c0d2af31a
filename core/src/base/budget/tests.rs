//! Trees of budgets against a reference model, and what single nodes promise.

use alloc::sync::Arc;
use std::vec::Vec;

use quickcheck::{Arbitrary, Gen, quickcheck};

use crate::base::budget::{
    Budget, BudgetOptions, BudgetRef, Charge, LimitBelowUse, Limits, OverBudget, Resource, Teardown,
};

const RESOURCE: Resource = Resource::Physical;

/// Each node's parent: a process, two tenants, two isolates each, and one that is four deep.
const PARENTS: [Option<usize>; 8] = [None, Some(0), Some(0), Some(1), Some(1), Some(2), Some(2), Some(3)];

fn node(id: u32, limits: Limits) -> Arc<Budget> {
    Arc::new(Budget::new(BudgetOptions::new(id).physical_bytes(limits)))
}

fn child(parent: &Arc<Budget>, id: u32, limits: Limits) -> Result<Arc<Budget>, OverBudget> {
    Budget::child(parent, BudgetOptions::new(id).physical_bytes(limits)).map(Arc::new)
}

fn used(budget: &Budget) -> usize {
    budget.usage(RESOURCE).used
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Charge(usize, usize),
    Uncharge(usize),
    SetHard(usize, usize),
    BeginTeardown(usize),
    EndTeardown,
}

impl Arbitrary for Op {
    fn arbitrary(g: &mut Gen) -> Self {
        let (index, bytes) = (usize::arbitrary(g), usize::from(u8::arbitrary(g)));
        match u8::arbitrary(g) % 10 {
            0..=4 => Self::Charge(index % PARENTS.len(), bytes),
            5 | 6 => Self::Uncharge(index),
            7 => Self::SetHard(index % PARENTS.len(), 4 * bytes),
            8 => Self::BeginTeardown(index % PARENTS.len()),
            _ => Self::EndTeardown,
        }
    }
}

/// What the tree should be, computed from the leaves each time.
struct Reference {
    limits: [Limits; PARENTS.len()],
    /// Charged at each node itself.
    own: [usize; PARENTS.len()],
    teardowns: [usize; PARENTS.len()],
    peaks: [usize; PARENTS.len()],
}

impl Reference {
    fn used(&self, node: usize) -> usize {
        let children = (0..PARENTS.len()).filter(|&other| PARENTS[other] == Some(node));
        self.own[node] + children.map(|other| self.used(other).max(self.limits[other].floor)).sum::<usize>()
    }

    /// The node that refuses, and how far up it is.
    fn charge(&mut self, node: usize, bytes: usize) -> Result<(), (usize, u8)> {
        let before: Vec<_> = (0..PARENTS.len()).map(|other| self.used(other)).collect();
        self.own[node] += bytes;
        let (mut here, mut level, mut open) = (node, 0, false);
        loop {
            open |= self.teardowns[here] > 0;
            let allowed = self.limits[here].hard + if open { self.limits[here].reserve } else { 0 };
            // What lies within the child's floor was charged with it.
            if self.used(here) > before[here] && self.used(here) > allowed {
                self.own[node] -= bytes;
                return Err((here, level));
            }
            let Some(parent) = PARENTS[here] else { break };
            (here, level) = (parent, level + 1);
        }
        (0..PARENTS.len()).for_each(|other| self.peaks[other] = self.peaks[other].max(self.used(other)));
        Ok(())
    }
}

fn limits(numbers: &[u8], index: usize) -> Limits {
    let number = |offset| usize::from(numbers.get(4 * index + offset).copied().unwrap_or(100));
    // Roots have more than their leaves.
    let scale = if index < 3 { 6 } else { 2 };
    Limits::hard(scale * number(0)).with_floor(number(1) / 8).with_reserve(number(2) / 4)
}

/// None: a floor does not fit, which the reference says as well.
fn tree(limits: &[Limits; PARENTS.len()]) -> Option<Vec<Arc<Budget>>> {
    let mut floors = [0; PARENTS.len()];
    let mut nodes = Vec::<Arc<Budget>>::new();
    for (index, &parent) in PARENTS.iter().enumerate() {
        let id = u32::try_from(index).expect("a small number");
        let Some(parent) = parent else {
            nodes.push(node(id, limits[index]));
            continue;
        };
        // From the parent up, as far as it is beyond floors.
        let (mut fits, mut at, mut bytes) = (true, Some(parent), limits[index].floor);
        while let Some(here) = at.filter(|_| bytes > 0) {
            let (before, after) = (floors[here], floors[here] + bytes);
            fits &= after <= limits[here].hard;
            floors[here] = after;
            let floor = limits[here].floor;
            (at, bytes) = (PARENTS[here], after.saturating_sub(floor) - usize::saturating_sub(before, floor));
        }
        let made = child(&nodes[parent], id, limits[index]);
        assert_eq!(made.is_ok(), fits, "a child is made iff its floor fits");
        nodes.push(made.ok()?);
    }
    Some(nodes)
}

quickcheck! {
    fn a_tree_is_what_its_leaves_make_of_it(numbers: Vec<u8>, ops: Vec<Op>) -> bool {
        let mut reference = Reference {
            limits: core::array::from_fn(|index| limits(&numbers, index)),
            own: [0; PARENTS.len()],
            teardowns: [0; PARENTS.len()],
            peaks: [0; PARENTS.len()],
        };
        let Some(nodes) = tree(&reference.limits) else { return true };
        reference.peaks = core::array::from_fn(|index| reference.used(index));
        let mut charges = Vec::<(usize, Charge)>::new();
        let mut teardowns = Vec::<(usize, Teardown<'_>)>::new();
        for op in ops {
            match op {
                Op::Charge(index, bytes) => {
                    let charged = BudgetRef::from(&nodes[index]).charge(RESOURCE, bytes);
                    let named = charged.as_ref().err().map(|error| (error.node() as usize, error.level()));
                    let expected = if bytes == 0 { None } else { reference.charge(index, bytes).err() };
                    assert_eq!(named, expected, "{bytes} bytes at {index}");
                    charges.extend(charged.ok().map(|charge| (index, charge)));
                }
                Op::Uncharge(index) if !charges.is_empty() => {
                    let (node, charge) = charges.swap_remove(index % charges.len());
                    reference.own[node] -= charge.bytes();
                }
                Op::SetHard(index, bytes) => {
                    reference.limits[index].hard = bytes;
                    let used = reference.used(index);
                    let expected = if used > bytes { Err(LimitBelowUse { used }) } else { Ok(()) };
                    assert_eq!(nodes[index].set_hard(RESOURCE, bytes), expected);
                }
                Op::BeginTeardown(index) => {
                    reference.teardowns[index] += 1;
                    teardowns.push((index, nodes[index].begin_teardown()));
                }
                Op::EndTeardown => {
                    let ended = teardowns.pop();
                    ended.into_iter().for_each(|(index, _)| reference.teardowns[index] -= 1);
                }
                Op::Uncharge(_) => {}
            }
            for (index, node) in nodes.iter().enumerate() {
                let usage = node.usage(RESOURCE);
                let expected = (reference.used(index), reference.peaks[index], reference.limits[index].hard);
                assert_eq!((usage.used, usage.peak, usage.hard), expected, "after {op:?}, node {index}");
            }
        }
        drop((charges, teardowns));
        let root = Arc::clone(&nodes[0]);
        drop(nodes);
        used(&root) == 0
    }
}

#[test]
fn a_floor_is_there_whatever_the_neighbours_use() {
    let process = node(0, Limits::hard(100));
    let calm = child(&process, 1, Limits::UNLIMITED.with_floor(40)).expect("it fits");
    let greedy = child(&process, 2, Limits::UNLIMITED).expect("it fits");
    let _most = BudgetRef::from(&greedy).charge(RESOURCE, 60).expect("what is no floor is free for all");
    let error = BudgetRef::from(&greedy).charge(RESOURCE, 1).expect_err("the rest is the calm one's");
    assert_eq!((error.node(), error.level(), error.resource()), (0, 1, RESOURCE));
    let floor = BudgetRef::from(&calm).charge(RESOURCE, 40).expect("it is guaranteed");
    assert!(BudgetRef::from(&calm).charge(RESOURCE, 1).is_err());
    drop(floor);
    // Even when the process is limited below what it uses.
    assert_eq!(process.set_hard(RESOURCE, 50), Err(LimitBelowUse { used: 100 }));
    let _floor = BudgetRef::from(&calm).charge(RESOURCE, 40).expect("it is guaranteed");
}

#[test]
fn floors_that_do_not_fit_are_errors_that_charge_nothing() {
    let process =
        Arc::new(Budget::new(BudgetOptions::new(7).physical_bytes(Limits::hard(10)).virtual_bytes(Limits::hard(30))));
    let greedy = Limits::UNLIMITED.with_floor(20);
    let options = BudgetOptions::new(8).virtual_bytes(greedy).physical_bytes(greedy);
    let error = Budget::child(&process, options).expect_err("20 bytes do not fit");
    assert_eq!((error.node(), error.level(), error.resource()), (7, 0, Resource::Physical));
    for resource in Resource::ALL {
        assert_eq!(process.usage(resource).used, 0);
    }
}

#[test]
fn a_node_that_is_charged_outlives_its_owner() {
    let process = node(0, Limits::hard(100));
    let tenant = child(&process, 1, Limits::hard(50).with_floor(10)).expect("it fits");
    let charge = BudgetRef::from(&tenant).charge(RESOURCE, 30).expect("it fits");
    drop(tenant);
    assert_eq!(used(&process), 30, "the bytes are in use still");
    drop(charge);
    assert_eq!(used(&process), 0, "with the last of them the node goes, and its floor");
}

#[test]
fn what_does_not_fit_into_a_number_is_refused() {
    let process = node(0, Limits::UNLIMITED);
    let _some = BudgetRef::from(&process).charge(RESOURCE, 10).expect("no limit");
    assert!(BudgetRef::from(&process).charge(RESOURCE, usize::MAX).is_err());
    assert_eq!((used(&process), process.usage(RESOURCE).refusals), (10, 1));
}

#[test]
fn soft_limits_press_but_refuse_nothing() {
    let process = node(0, Limits::UNLIMITED.with_soft(10));
    let tenant = child(&process, 1, Limits::UNLIMITED).expect("it fits");
    let _some = BudgetRef::from(&tenant).charge(RESOURCE, 11).expect("soft limits refuse nothing");
    assert!(process.is_over_soft(RESOURCE) && !tenant.is_over_soft(RESOURCE));
    assert!(tenant.is_pressed(RESOURCE), "by the process");
    process.set_soft(RESOURCE, 11);
    assert!(!tenant.is_pressed(RESOURCE));
}
