//! A heap profile of a program, for pprof: which places allocate, and which hold memory.
//!
//!     cargo run --release -p meshheap-examples --example heap_profile -- heap.prof
//!     pprof -top -sample_index=inuse_space target/release/examples/heap_profile heap.prof

use core::alloc::Layout;
use core::error::Error;
use core::ptr::NonNull;
use std::fs::File;
use std::io::{BufWriter, Write};

use meshheap::{AllocError, Heap, SampledLocal, Sampling};
use meshheap_examples::profile::HeapProfile;
use meshheap_linux::HybridPlatform;

/// Bytes between two samples, on average.
const INTERVAL: usize = 64 << 10;

type Local<'s, 'h> = SampledLocal<'s, 'h, HybridPlatform, HeapProfile>;

/// Keeps all that it allocates: some 20 MB.
#[inline(never)]
fn fill_cache(local: &mut Local<'_, '_>) -> Result<Vec<NonNull<u8>>, AllocError> {
    (0..20_000).map(|_| local.alloc(Layout::new::<[u8; 1000]>())).collect()
}

/// Keeps nothing of the 200 MB that it allocates.
#[inline(never)]
fn serve_requests(local: &mut Local<'_, '_>) -> Result<(), AllocError> {
    for number in 0..1_000_000 {
        let layout = Layout::from_size_align(100 + number % 200, 8).expect("small and aligned");
        let object = local.alloc(layout)?;
        // SAFETY: the object is live and is not used afterwards.
        unsafe { local.dealloc(object, layout) };
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: heap_profile FILE")?;
    let heap = Heap::new(HybridPlatform::new())?;
    let sampling = Sampling::new(&heap, INTERVAL, HeapProfile::default())?;
    let mut local = sampling.local();
    let cache = fill_cache(&mut local)?;
    serve_requests(&mut local)?;
    let mut out = BufWriter::new(File::create(&path)?);
    sampling.profiler().write(INTERVAL, &mut out)?;
    out.flush()?;
    let total = sampling.profiler().total();
    println!(
        "{} objects live; {} samples, {} of them alive",
        cache.len(),
        total.allocated.samples,
        total.alive.samples
    );
    Ok(())
}
