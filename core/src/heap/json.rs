//! Statistics for machines: one line of JSON, written by `core::fmt`, without allocation.

use core::fmt;

use crate::heap::statistics::Statistics;

/// A heap's [`Statistics`] as JSON, once it is displayed: `{"version":1,"taken_bytes":64,...}`.
///
/// A member for each field of [`Statistics`], by its name, in no particular order; all are whole numbers, which may exceed
/// what readers that know only floating point hold exactly (2^53). `version` is [`Statistics::VERSION`].
#[derive(Clone, Copy, Debug)]
pub struct StatisticsJson<'s>(&'s Statistics);

impl Statistics {
    /// The same as JSON, for logs and metrics: `write!(out, "{}", statistics.json())`.
    #[must_use]
    pub const fn json(&self) -> StatisticsJson<'_> {
        StatisticsJson(self)
    }
}

/// Names and values of all fields: one that is missing here does not compile.
macro_rules! fields {
    ($statistics:expr, $($name:ident),* $(,)?) => {{
        let Statistics { $($name),* } = $statistics;
        [$((stringify!($name), $name as u64)),*]
    }};
}

impl fmt::Display for StatisticsJson<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = fields!(
            *self.0,
            version,
            taken_bytes,
            held_bytes,
            metadata_bytes,
            dirty_bytes,
            span_bytes,
            span_bytes_peak,
            aliased_bytes,
            clean_bytes,
            parted_bytes,
            arena_bytes,
            mappings,
            mapping_budget,
            mesh_steps,
            mesh_passes,
            pages_meshed,
            longest_step_ns,
            pinned_objects,
            misuses,
        );
        for (index, (name, value)) in fields.into_iter().enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            write!(f, "{before}\"{name}\":{value}")?;
        }
        f.write_str("}")
    }
}
