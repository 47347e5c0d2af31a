//! Two tenants of one process, a heap and a budget each. One stores more than it may: at its limit its cache makes room, and
//! what cannot fit is an error that names it. Its neighbour notices nothing; and when it goes, all of its memory does.
//!
//!     cargo run --release --example budgets

use core::alloc::Layout;
use core::error::Error;
use core::ptr::NonNull;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use meshheap::{AllocError, Budget, BudgetOptions, Heap, LimitBelowUse, Limits, Options, Refusal, Resource};
use meshheap_linux::HybridPlatform;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// An entry of a cache: each of its bytes is its number.
struct Entry {
    start: NonNull<u8>,
    layout: Layout,
    number: u8,
}

// SAFETY: an entry belongs to the cache that holds it.
unsafe impl Send for Entry {}

impl Entry {
    fn is_untouched(&self) -> bool {
        // SAFETY: the entry is live, and all of its bytes were written.
        let bytes = unsafe { NonNull::slice_from_raw_parts(self.start, self.layout.size()).as_ref() };
        bytes.iter().all(|&byte| byte == self.number)
    }
}

/// A cache in a heap, with a budget of its own.
#[derive(Default)]
struct Tenant {
    heap: OnceLock<Heap<HybridPlatform>>,
    /// Oldest entries first.
    cache: Mutex<VecDeque<Entry>>,
}

impl Tenant {
    /// A tenant that may hold `limit` bytes of memory, and is sure of a quarter of them.
    fn new(process: &Arc<Budget>, id: u32, limit: usize) -> Result<Arc<Self>, AllocError> {
        let tenant = Arc::new(Self::default());
        let make_room = {
            let tenant = Arc::downgrade(&tenant);
            move |_: &Refusal<'_>| tenant.upgrade().into_iter().for_each(|tenant| tenant.forget_half())
        };
        let limits = Limits::hard(limit).with_floor(limit / 4);
        let options = BudgetOptions::new(id).physical_bytes(limits).on_limit(Arc::new(make_room));
        let budget = Arc::new(Budget::child(process, options)?);
        let options = Options { arena_bytes: 256 * MIB, ..Options::default() };
        let heap = Heap::with_budget(HybridPlatform::new(), options, budget)?;
        tenant.heap.get_or_init(|| heap);
        Ok(tenant)
    }

    fn heap(&self) -> &Heap<HybridPlatform> {
        self.heap.get().expect("a tenant begins with a heap")
    }

    fn cache(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores one entry. The cache is not locked meanwhile, as the hook will want it.
    fn store(&self, bytes: usize, number: u8) -> Result<(), AllocError> {
        let layout = Layout::from_size_align(bytes, 16).map_err(|_| AllocError::TooLarge)?;
        let start = self.heap().alloc(layout)?;
        // SAFETY: the object holds so many bytes and is ours.
        unsafe { start.write_bytes(number, bytes) };
        self.cache().push_back(Entry { start, layout, number });
        Ok(())
    }

    /// What the budget's hook does at the limit.
    fn forget_half(&self) {
        let mut cache = self.cache();
        let half = cache.len() / 2;
        for Entry { start, layout, .. } in cache.drain(..half) {
            // SAFETY: the entry is live and forgotten here.
            unsafe { self.heap().dealloc(start, layout) };
        }
    }

    fn budget(&self) -> &Budget {
        self.heap().budget().expect("a tenant has a budget")
    }
}

fn show(what: &str, budget: &Budget) {
    let usage = budget.usage(Resource::Physical);
    println!(
        "{what:<34} {:>6} KiB used, {:>6} KiB at most, of {:>6} KiB; {} refusals",
        usage.used / KIB,
        usage.peak / KIB,
        usage.hard / KIB,
        usage.refusals
    );
}

fn main() -> Result<(), Box<dyn Error>> {
    let process = Arc::new(Budget::new(BudgetOptions::new(0).physical_bytes(Limits::hard(64 * MIB))));
    let greedy = Tenant::new(&process, 1, 8 * MIB)?;
    let calm = Tenant::new(&process, 2, 8 * MIB)?;
    for number in 0..100 {
        calm.store(10 * KIB, number)?;
    }
    show("the calm tenant, 1 MiB stored", calm.budget());

    for entry in 0..20_000_usize {
        greedy.store(KIB, (entry % 251) as u8)?;
    }
    show("the greedy one, 20 MiB stored", greedy.budget());
    assert!(greedy.cache().iter().all(Entry::is_untouched), "what it kept is whole");

    match greedy.store(9 * MIB, 0) {
        Err(AllocError::OverBudget(error)) if error.node() == 1 => println!("9 MiB more at once: {error}"),
        other => return Err(format!("9 MiB do not fit: {other:?}").into()),
    }
    greedy.store(KIB, 1)?;
    println!("... and it goes on with {} entries", greedy.cache().len());

    if let Err(LimitBelowUse { used }) = greedy.budget().set_hard(Resource::Physical, MIB) {
        println!("its limit is 1 MiB from now on; {} KiB are in use until it frees", used / KIB);
    }
    greedy.forget_half();
    greedy.heap().purge()?;
    show("half of its entries forgotten", greedy.budget());

    show("the calm tenant meanwhile", calm.budget());
    assert_eq!(calm.budget().usage(Resource::Physical).refusals, 0);
    assert!(calm.cache().len() == 100 && calm.cache().iter().all(Entry::is_untouched));
    drop(greedy);
    show("the process without the greedy one", &process);
    assert_eq!(process.usage(Resource::Physical).used, 2 * MIB, "the floor of the calm one");
    Ok(())
}
