//! What a workload's process tells of itself, as one line of JSON on its standard output.

use std::fs;

use serde::{Deserialize, Serialize};

/// What only the process itself can know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The workload's checksum.
    pub checksum: u64,
    /// The proportional set size at the end, while the program still holds its data.
    pub final_pss_bytes: Option<usize>,
    /// Page faults without a disk, up to the end.
    pub minor_faults: Option<u64>,
    /// Page faults that waited for a disk.
    pub major_faults: Option<u64>,
}

/// Minor and major faults of this process.
pub(crate) fn page_faults() -> Option<(u64, u64)> {
    faults_of(&fs::read_to_string("/proc/self/stat").ok()?)
}

fn faults_of(stat: &str) -> Option<(u64, u64)> {
    // The second field is a name in brackets, which may contain anything.
    let fields = stat.rsplit_once(')')?.1;
    let mut numbers = fields.split_ascii_whitespace().skip(7).map(str::parse);
    let minor = numbers.next()?.ok()?;
    let _of_children = numbers.next()?;
    Some((minor, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::{faults_of, page_faults};

    #[test]
    fn faults_are_the_tenth_and_twelfth_field() {
        assert_eq!(faults_of("1 (a) b) S 1 2 3 4 5 6 777 8 99 10 11"), Some((777, 99)));
        assert_eq!(faults_of("1 (a"), None);
    }

    #[test]
    fn this_process_has_had_faults() {
        assert!(page_faults().is_some_and(|(minor, _)| minor > 0));
    }
}
