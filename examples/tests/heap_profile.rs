//! A heap profile says what is alive, and is written as pprof reads it.

use core::alloc::Layout;

use meshheap::{Heap, Options, Sampling};
use meshheap_examples::profile::HeapProfile;
use meshheap_linux::HybridPlatform;

/// Samples alive, their bytes, and all samples of a line `1: 2 [3: 4] @ ...`.
fn figures(line: &str) -> [usize; 3] {
    let mut numbers = line.split(|letter: char| !letter.is_ascii_digit()).filter_map(|number| number.parse().ok());
    let mut next = || numbers.next().expect("a number");
    let (alive, bytes, allocated) = (next(), next(), next());
    [alive, bytes, allocated]
}

#[test]
fn a_profile_tells_what_is_alive_by_place_and_scales_up_to_the_truth() {
    const INTERVAL: usize = 4096;
    let options = Options { seed: Some(1), arena_bytes: 1 << 30, ..Options::default() };
    let heap = Heap::with_options(HybridPlatform::new(), options).expect("Linux has room");
    let sampling = Sampling::new(&heap, INTERVAL, HeapProfile::default()).expect("Linux has room");
    let mut local = sampling.local();
    let layout = Layout::new::<[u64; 50]>();
    let kept: Vec<_> = (0..20_000).map(|_| local.alloc(layout).expect("room")).collect();
    for _ in 0..20_000 {
        let object = local.alloc(layout).expect("room");
        // SAFETY: the object is live and is not used afterwards.
        unsafe { local.dealloc(object, layout) };
    }
    let mut text = Vec::new();
    sampling.profiler().write(INTERVAL, &mut text).expect("a vector takes all");
    let text = String::from_utf8(text).expect("text");
    let mut lines = text.lines();
    let head = lines.next().expect("a line");
    assert!(head.starts_with("heap profile: ") && head.ends_with(" @ heap_v2/4096"), "{head}");
    let [alive, bytes, allocated] = figures(head.trim_start_matches("heap profile: "));
    assert_eq!(bytes, alive * layout.size());
    // As pprof scales: an object of 400 bytes is sampled with probability 1 - exp(-400 / 4096).
    let scale = 1.0 / (1.0 - (-(layout.size() as f64) / INTERVAL as f64).exp());
    let estimate = |samples: usize| samples as f64 * scale;
    assert!((estimate(alive) - 20_000.0).abs() < 2_000.0, "{}", estimate(alive));
    assert!((estimate(allocated) - 40_000.0).abs() < 3_000.0, "{}", estimate(allocated));
    let places: Vec<_> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    assert!(places.len() >= 2, "two loops allocate: {places:?}");
    assert!(places.iter().all(|place| place.contains(" @ 0x")));
    assert_eq!(places.iter().map(|place| figures(place)[0]).sum::<usize>(), alive);
    assert!(places.iter().any(|place| figures(place)[0] == 0), "what the second loop allocated is gone");
    assert_eq!(lines.next(), Some("MAPPED_LIBRARIES:"));
    assert!(lines.any(|line| line.contains("heap_profile")), "the program is mapped");
    for object in kept {
        // SAFETY: the object is live and is not used afterwards.
        unsafe { local.dealloc(object, layout) };
    }
    assert_eq!(sampling.profiler().total().alive, Default::default());
}
