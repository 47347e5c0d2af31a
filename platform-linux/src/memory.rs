//! What this process costs, as the kernel counts it. For examples, tests and benchmarks; nothing here allocates.

use crate::proc_file::{ProcFile, number_at_start};

/// The process's proportional set size: each physical page once, or its part where processes share it. The figure to judge
/// meshing by, since RSS counts a page once for each address that shows it. None where `/proc/self/smaps_rollup` cannot be
/// read. The kernel walks all page tables for it, which takes milliseconds a GiB.
#[must_use]
pub fn pss_bytes() -> Option<usize> {
    let mut buffer = [0; 4096];
    let text = ProcFile::open(c"/proc/self/smaps_rollup")?.read_up_to(&mut buffer)?;
    let kib = text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"Pss:"))?;
    number_at_start(kib).map(|kib| kib * 1024)
}

/// How many mappings the process has, the kernel's own page for old system calls included. None where `/proc/self/maps`
/// cannot be read.
#[must_use]
pub fn mapping_count() -> Option<usize> {
    let file = ProcFile::open(c"/proc/self/maps")?;
    let mut buffer = [0; 4096];
    let mut lines = 0;
    loop {
        let piece = file.read(&mut buffer)?;
        if piece.is_empty() {
            return Some(lines);
        }
        lines += piece.iter().filter(|&&byte| byte == b'\n').count();
    }
}
