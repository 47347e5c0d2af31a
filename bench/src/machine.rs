//! On what the figures were measured.

use std::fs;
use std::thread::available_parallelism;

use serde::Serialize;

/// What of the machine shows in the figures. Nothing where the system does not tell.
#[derive(Serialize)]
pub(crate) struct Machine {
    kernel: Option<String>,
    processor: Option<String>,
    processors: Option<usize>,
    mapping_limit: Option<usize>,
}

impl Machine {
    pub(crate) fn this() -> Self {
        let line = |path| Some(fs::read_to_string(path).ok()?.trim().to_owned());
        let model = |text: String| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(": ")?.1.to_owned())
        };
        Self {
            kernel: line("/proc/sys/kernel/osrelease"),
            processor: line("/proc/cpuinfo").and_then(model),
            processors: available_parallelism().ok().map(usize::from),
            mapping_limit: line("/proc/sys/vm/max_map_count").and_then(|limit| limit.parse().ok()),
        }
    }
}
