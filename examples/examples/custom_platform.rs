//! The smallest platform: a fixed region of memory, as on a microcontroller or in WebAssembly's linear memory. Copy it to
//! port meshheap, and replace what is under [`Region`]; the comments say what each method owes the heap.
//!
//! ```text
//!   region   ├─ arena ─────────────┬─ tables ─┬─ pool ─┬─ free ─────┤
//!            0                                         next         REGION_BYTES
//! ```
//!
//! Such a heap allocates, frees and reallocates like any other. It does not mesh: that takes [`Platform::alias`].

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use meshheap::{AllocError, Facts, Heap, MeshBudget, Operation, Options, Platform, PlatformError, Purpose, StepEnd};

/// The smallest page that the heap accepts. A machine without an MMU may choose any power of two from here on.
const PAGE_BYTES: usize = 4096;

/// All memory that there is: in a port, the linker script's or the linear memory's bounds.
const REGION_BYTES: usize = 4 << 20; // 4 MiB

/// The heap asks for an arena aligned to 2 MiB. A region that is aligned so loses nothing to it.
const REGION_ALIGN: usize = 2 << 20; // 2 MiB

/// How much of the region is for objects. The rest is for the heap's own tables, at least 1 MiB of it.
const ARENA_BYTES: usize = 2 << 20; // 2 MiB

/// A fixed region that is handed out from its start to its end. A static array would do as well; the standard library's
/// heap stands in for it here, as a static of 4 MiB would make the executable's image that much larger.
#[derive(Debug)]
struct Region {
    start: NonNull<u8>,
    /// Offset of the first byte that is not reserved.
    next: AtomicUsize,
}

// SAFETY: the region's memory is never touched through `start` but by `reserve`, in bytes that nobody else has.
unsafe impl Send for Region {}
// SAFETY: as above; `next` is atomic, so no two calls of `reserve` get the same bytes.
unsafe impl Sync for Region {}

impl Region {
    const LAYOUT: Layout = match Layout::from_size_align(REGION_BYTES, REGION_ALIGN) {
        Ok(layout) => layout,
        Err(_) => panic!("the alignment is a power of two"),
    };

    fn new() -> Option<Self> {
        // SAFETY: the layout's size is not zero.
        let start = NonNull::new(unsafe { std::alloc::alloc(Self::LAYOUT) })?;
        Some(Self { start, next: AtomicUsize::new(0) })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and the heap on it is gone: it borrows or owns its platform.
        unsafe { std::alloc::dealloc(self.start.as_ptr(), Self::LAYOUT) };
    }
}

// SAFETY: `reserve` hands out zeroed bytes of the region that nobody else has until `release`, aligned as asked; `facts` is
// constant and rules out `purge`, `alias` and `protect`, whose default methods fail and change nothing.
unsafe impl Platform for Region {
    /// Must be the truth, and the same each time: the heap plans with it.
    fn facts(&self) -> Facts {
        Facts {
            page_size: PAGE_BYTES,
            // The region is there from the start, whether it is used or not.
            lazy_commit: false,
            can_purge: false,
            can_alias: false,
            can_protect: false,
            write_barrier: false,
            private_until_shared: false,
            can_relocate: false,
            mapping_limit: None,
        }
    }

    /// Owes memory that reads zero, is aligned to `align`, and belongs to nobody else until `release`; or an error, and then
    /// all is as before. The heap calls it three times at its start, and never when it allocates.
    fn reserve(&self, _: Purpose, bytes: usize, align: usize) -> Result<NonNull<u8>, PlatformError> {
        let place = |next: usize| {
            let address = self.start.addr().get().checked_add(next)?.checked_next_multiple_of(align)?;
            let offset = address - self.start.addr().get();
            let end = offset.checked_add(bytes)?;
            (end <= REGION_BYTES).then_some((offset, end))
        };
        // Acquire: pairs with the Release of whoever released these bytes, so that its writes come before ours.
        let before = self.next.fetch_update(Ordering::Acquire, Ordering::Acquire, |next| Some(place(next)?.1));
        // The code is the platform's own: here there is but one reason.
        let refused = PlatformError { operation: Operation::Reserve, code: 1 };
        let (offset, _) = before.ok().and_then(place).ok_or(refused)?;
        // SAFETY: `place` saw to it that the offset lies in the region.
        let start = unsafe { self.start.add(offset) };
        // An earlier heap may have been here, and fresh RAM holds anything. Where memory is known to be zero, as that of
        // `memory.grow` in WebAssembly, this can go.
        // SAFETY: these bytes lie in the region and are ours alone since `fetch_update`.
        unsafe { start.write_bytes(0, bytes) };
        Ok(start)
    }

    /// Takes memory back, and cannot fail. A heap gives back last what it got first, so lowering the mark will do; what is
    /// released in another order is lost until the region starts anew.
    unsafe fn release(&self, _: Purpose, base: NonNull<u8>, bytes: usize) {
        let offset = base.addr().get() - self.start.addr().get();
        // Release: pairs with the Acquire in `reserve`. If it is not the last reservation, the mark stays where it is.
        let _ = self.next.compare_exchange(offset + bytes, offset, Ordering::Release, Ordering::Relaxed);
    }

    // All other methods have defaults that fit a fixed region:
    //
    // commit     does nothing. Fill it in where pages must be paid for or mapped before they are written.
    // now_ns     gives 0: steps of meshing are then bounded by pages and mappings alone. Any clock that never goes back does.
    // entropy    gives a constant: placement is the same in each run. A hardware generator or a cycle counter does.
    // yield_now  spins. With threads, let another one run.
    //
    // To get meshing, add in this order, each with its bit in `facts`:
    //
    // purge      gives the physical memory of pages back; they read zero afterwards. Free memory now shrinks the program.
    // alias      makes addresses show other pages of the arena, in one step. With page tables: change the entries, then
    //            flush them from the TLB.
    // unalias    makes them show their own pages again. Without it the heap could not reuse an alias's addresses.
    //
    // protect is for meshing beside running threads; at safepoints it is not needed.
}

fn main() -> Result<(), AllocError> {
    let region = Region::new().expect("4 MiB of memory");
    for run in 1..=2 {
        println!("heap {run} on the same region");
        use_a_heap(&region)?;
        // The heap is dropped and gave everything back.
        assert_eq!(region.next.load(Ordering::Relaxed), 0);
    }
    Ok(())
}

/// The platform is lent, so that it can be looked at meanwhile; a port may as well give it away.
fn use_a_heap(region: &Region) -> Result<(), AllocError> {
    // By default the heap asks for 64 GiB of address space, and for the half of it until the platform agrees. Where memory
    // is scarce, say what is meant: by halves the arena would take all of the region and leave no room for the tables.
    let mut options = Options::default();
    println!("  an arena of {} MiB instead of {} GiB", ARENA_BYTES >> 20, options.arena_bytes >> 30);
    options.arena_bytes = ARENA_BYTES;
    let heap = Heap::with_options(region, options)?;
    let mut local = heap.local();

    // Allocate, write, grow, free. On a single core without threads the heap's own methods would do, too.
    let small = Layout::new::<[u64; 8]>();
    let object = local.alloc(small)?;
    // SAFETY: the object has 64 bytes.
    unsafe { object.write_bytes(7, small.size()) };
    // SAFETY: it was allocated with this layout, and only the new pointer is used from now on.
    let object = unsafe { local.realloc(object, small, 10_000) }?;
    // SAFETY: the object has 10,000 bytes, of which the first 64 were copied.
    assert_eq!(unsafe { object.cast::<[u8; 64]>().read() }, [7; 64]);
    let large = Layout::from_size_align(10_000, small.align()).expect("the alignment is the same");
    // SAFETY: it was reallocated to this layout, and is not used any more.
    unsafe { local.dealloc(object, large) };

    // Out of memory is a value, and what was allocated stays as it is.
    let mut objects = Vec::new();
    let error = loop {
        match local.alloc(small) {
            Ok(object) => objects.push(object),
            Err(error) => break error,
        }
    };
    println!("  {} objects of {} bytes, then: {error}", objects.len(), small.size());
    let full = heap.statistics();
    println!("  held {} KiB, {} KiB of them for tables", full.held_bytes >> 10, full.metadata_bytes >> 10);
    for object in objects {
        // SAFETY: each was allocated with this layout, and is not used any more.
        unsafe { local.dealloc(object, small) };
    }
    local.flush();
    // Slots that wait for reuse count as taken until they are purged to their spans; no page goes back here.
    assert_eq!(heap.purge(), Ok(0));
    assert_eq!(heap.statistics().taken_bytes, 0);
    println!("  all free, and usable again: {:?}", local.alloc(small).is_ok());

    // SAFETY: nobody writes to an object meanwhile: there is one thread, and it is here.
    let step = unsafe { heap.mesh_at_safepoint(MeshBudget::UNLIMITED) };
    assert_eq!(step.end, StepEnd::Unsupported);
    println!("  meshing: {:?}", step.end);
    Ok(())
}
