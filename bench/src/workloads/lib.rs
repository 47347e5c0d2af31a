//! Workloads that stand for real programs, in safe Rust on whatever the global allocator is. Each is deterministic: the same
//! scale gives the same calls and the same checksum on every allocator.
//!
//! One binary target an allocator (`src/bin/workload_*.rs`) calls [`main`]; `meshheap-bench compare` runs them, each as its
//! own process, and compares what they cost. The scenarios of [`comeback`] are for `meshheap-bench comeback`.

mod aligned;
mod batches;
mod cache;
mod channel;
mod churn;
pub mod comeback;
mod handover;
mod interpreter;
mod json;
mod large;
mod maps;
mod objects;
mod outcome;
mod program;
mod sizes;
mod threads;
pub mod trace;
mod vectors;
mod zeroed;

use core::any::Any;
use core::fmt;

pub use outcome::Outcome;
pub use program::main;

/// One program to run.
#[derive(Clone, Copy)]
pub struct Workload {
    /// What the command line calls it.
    pub name: &'static str,
    /// What it does, in half a line.
    pub what: &'static str,
    run: fn(Scale) -> End,
}

impl Workload {
    /// Runs it.
    #[must_use]
    pub fn run(&self, scale: f64) -> End {
        (self.run)(Scale(scale))
    }

    /// The workload of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|workload| workload.name == name)
    }
}

impl fmt::Debug for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// How much of a workload to do; 1 takes something like a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale(f64);

impl Scale {
    /// `count` as often as the scale says, but once at least.
    pub(crate) fn of(self, count: usize) -> usize {
        ((count as f64 * self.0) as usize).max(1)
    }
}

/// How a workload ended.
pub struct End {
    /// Depends on the objects' contents: a wrong one means that the allocator broke them.
    pub checksum: u64,
    /// What the program holds at its end.
    pub held: Box<dyn Any>,
}

impl End {
    fn new(checksum: u64, held: impl Any) -> Self {
        Self { checksum, held: Box::new(held) }
    }
}

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("End").field("checksum", &self.checksum).finish_non_exhaustive()
    }
}

/// Every workload, in the order of the tables.
pub const ALL: &[Workload] = &[
    workload("churn-small", "one thread replaces objects of 8 to 128 bytes at random", churn::small),
    workload("churn-mixed", "the same with 16 bytes to 4 KiB, small ones more often", churn::mixed),
    workload("churn-power", "the same with 16 bytes to 64 KiB by a power law", churn::power_law),
    workload("free-lifo", "a large batch, last in first out", batches::lifo),
    workload("free-fifo", "a large batch, first in first out", batches::fifo),
    workload("free-random", "a large batch, freed in random order", batches::random),
    workload("producer-consumer", "two pairs of threads: one allocates, one frees", channel::pairs),
    workload("larson", "four threads that hand their objects on to fresh threads", handover::larson),
    workload("thread-churn", "thousands of threads that live briefly", threads::churn),
    workload("grow-vectors", "vectors and strings that grow, side by side", vectors::grow),
    workload("hash-map", "a hash map of strings, half of it replaced", maps::hash),
    workload("b-tree", "a B-tree of strings, half of it replaced", maps::tree),
    workload("interpreter", "parse an expression language to a tree and run it", interpreter::run),
    workload("json", "parse, change and write JSON documents", json::run),
    workload("lru-cache", "a cache with a budget whose values change their size", cache::run),
    workload("large-buffers", "buffers of 100 KiB to 8 MiB, each page touched", large::run),
    workload("zeroed-arrays", "zeroed arrays of 1 to 32 MiB, a tenth touched", zeroed::run),
    workload("over-aligned", "objects aligned to 64, 256 and 4096 bytes", aligned::run),
    workload("trace-lua", "sixteen replays of a trace of a Lua program", trace::replay::run),
];

const fn workload(name: &'static str, what: &'static str, run: fn(Scale) -> End) -> Workload {
    Workload { name, what, run }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use crate::ALL;

    #[test]
    fn names_are_unique() {
        let names: HashSet<_> = ALL.iter().map(|workload| workload.name).collect();
        assert_eq!(names.len(), ALL.len());
    }

    #[test]
    fn every_workload_gives_the_same_checksum_twice() {
        for workload in ALL {
            assert_eq!(workload.run(0.002).checksum, workload.run(0.002).checksum, "{workload:?}");
        }
    }
}
