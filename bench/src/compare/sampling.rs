//! A process's proportional set size, looked at while it runs: for machines without a memory cgroup.

use std::fs;

/// The Pss of a process now; none once it has ended.
pub(crate) fn pss_of(process: u32) -> Option<usize> {
    pss_in(&fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?)
}

fn pss_in(rollup: &str) -> Option<usize> {
    let kib: usize =
        rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::{pss_in, pss_of};

    #[test]
    fn the_line_of_all_pss_is_read() {
        assert_eq!(pss_in("Rss:  12 kB\nPss:    7 kB\nPss_Anon: 3 kB\n"), Some(7 * 1024));
        assert_eq!(pss_in(""), None);
    }

    #[test]
    fn a_running_process_has_some() {
        assert!(pss_of(std::process::id()).is_none_or(|pss| pss > 0));
        assert_eq!(pss_of(u32::MAX), None);
    }
}
