//! CPU time of a pair of calls that counts its bytes.

use core::alloc::Layout;
use core::hint::black_box;
use core::ptr::NonNull;

use meshheap::{AllocError, Budget, BudgetOptions, CountedLocal, Heap, Limits, LocalHeap, Options};
use meshheap_linux::LinuxPlatform;
use serde::Serialize;

use crate::measure::{cpu_time, median};

/// Pairs of one measurement: some milliseconds.
const PAIRS: u32 = 1_000_000;

const LAYOUT: Layout = Layout::new::<[u64; 8]>();

/// One kind of pair.
#[derive(Serialize)]
pub(super) struct Pair {
    pub(super) what: &'static str,
    pub(super) stock_bytes: usize,
    pub(super) nanoseconds: f64,
    /// Beyond a pair that counts nothing.
    pub(super) added_ns: f64,
}

/// What is measured: a stock, and how many nodes are above the heap's. None: a plain local heap.
const KINDS: [(&str, Option<(usize, usize)>); 5] = [
    ("not counted", None),
    ("counted, stock of 64 KiB", Some((64 << 10, 0))),
    ("counted, stock of 64 KiB, four deep", Some((64 << 10, 3))),
    ("counted, no stock", Some((0, 0))),
    ("counted, no stock, four deep", Some((0, 3))),
];

type Plain<'h> = LocalHeap<&'h Heap<LinuxPlatform>>;

enum Local<'h> {
    Plain(Plain<'h>),
    Counted(CountedLocal<&'h Heap<LinuxPlatform>>),
}

/// The medians over `rounds` rounds, in each of which all kinds take turns.
pub(super) fn measure(rounds: u32) -> anyhow::Result<Vec<Pair>> {
    let heaps: Vec<_> =
        KINDS.iter().map(|(_, kind)| heap(kind.map_or(0, |(_, above)| above))).collect::<Result<_, _>>()?;
    let local = |(heap, (_, kind)): (_, &(_, Option<(usize, _)>))| match kind {
        None => Local::Plain(Heap::local(heap)),
        Some((stock, _)) => Local::Counted(CountedLocal::new(Heap::local(heap), *stock)),
    };
    let mut locals: Vec<_> = heaps.iter().zip(&KINDS).map(local).collect();
    let mut found = vec![Vec::new(); KINDS.len()];
    for _ in 0..rounds {
        for (local, found) in locals.iter_mut().zip(&mut found) {
            let (outcome, time) = cpu_time(|| match local {
                Local::Plain(local) => pairs_plain(local),
                Local::Counted(local) => pairs_counted(local),
            });
            outcome?;
            found.push(time.as_secs_f64() * 1e9 / f64::from(PAIRS));
        }
    }
    let medians: Vec<_> = found.iter().map(|found| median(found)).collect();
    let mut pairs = Vec::new();
    for (&(what, kind), &nanoseconds) in KINDS.iter().zip(&medians) {
        let stock_bytes = kind.map_or(0, |(stock, _)| stock);
        pairs.push(Pair { what, stock_bytes, nanoseconds, added_ns: nanoseconds - medians[0] });
    }
    Ok(pairs)
}

fn heap(above: usize) -> anyhow::Result<Heap<LinuxPlatform>> {
    let keep = |budget| &*Box::leak(Box::new(budget));
    let options = BudgetOptions::new(0).object_bytes(Limits::hard(1 << 30));
    let mut node: &'static Budget = keep(Budget::new(options.clone()));
    for _ in 0..above {
        node = keep(Budget::child(node, options.clone())?);
    }
    Ok(Heap::with_budget(LinuxPlatform::new(), Options { seed: Some(1), ..Options::default() }, node)?)
}

#[inline(never)]
fn pairs_plain(local: &mut Plain<'_>) -> Result<(), AllocError> {
    for _ in 0..PAIRS {
        let object: NonNull<u8> = black_box(&mut *local).alloc(LAYOUT)?;
        // SAFETY: the object is live and is not used afterwards.
        unsafe { local.dealloc(black_box(object), LAYOUT) };
    }
    Ok(())
}

#[inline(never)]
fn pairs_counted(local: &mut CountedLocal<&Heap<LinuxPlatform>>) -> Result<(), AllocError> {
    for _ in 0..PAIRS {
        let object: NonNull<u8> = black_box(&mut *local).alloc(LAYOUT)?;
        // SAFETY: the object is live and is not used afterwards.
        unsafe { local.dealloc(black_box(object), LAYOUT) };
    }
    Ok(())
}
