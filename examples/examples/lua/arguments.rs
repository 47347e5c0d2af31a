//! The command line.

use core::time::Duration;
use std::fs;
use std::path::PathBuf;

use clap::Parser;
use meshheap_examples::lua::experiment::{Script, Settings};

/// How much `--short` builds, of what is built by default.
const SHORT_SCALE: f64 = 0.02;

/// Runs a Lua script on a meshing heap, meshes, and shows what came back to the system.
#[derive(Parser, Debug)]
#[command(name = "lua")]
pub(crate) struct Arguments {
    /// The script to run; by default one that behaves like a long-running service. If it defines a function `checksum`,
    /// that is called before meshing and after, and must give the same number.
    script: Option<PathBuf>,

    /// The longest that one step of meshing may take, in microseconds.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    time_budget_us: u64,

    /// Memory that Lua may hold; beyond, requests are refused.
    #[arg(long, value_name = "N")]
    pub(crate) limit_mib: Option<usize>,

    /// Mappings that meshing may use [default: what the system allows, less 4096].
    #[arg(long, value_name = "N")]
    mapping_budget: Option<usize>,

    /// Where pictures go.
    #[arg(long, value_name = "DIR", default_value = "target/heap-map")]
    pub(crate) out: PathBuf,

    /// Builds little, for a look within a second.
    #[arg(long)]
    pub(crate) short: bool,

    /// Leaves out the comparison with the system allocator.
    #[arg(long)]
    pub(crate) no_system: bool,

    /// Measures the CPU time of some programs here, on the system's malloc, and on mimalloc, instead.
    #[arg(long)]
    pub(crate) compare: bool,

    /// Measures the programs on one memory, for the process that compares.
    #[arg(long, hide = true)]
    pub(crate) measure: Option<String>,

    /// Runs the script on the system allocator only, for the process that compares.
    #[arg(long, hide = true)]
    pub(crate) on_system: bool,
}

impl Arguments {
    /// The script with its text; a message if it cannot be read.
    pub(crate) fn script(&self) -> Result<Script, String> {
        let scale = if self.short { SHORT_SCALE } else { 1.0 };
        let Some(path) = &self.script else {
            return Ok(Script::service(scale));
        };
        let source = fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Ok(Script { source: source.into(), name: path.display().to_string(), scale })
    }

    /// How to run it.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            limit: self.limit_mib.map_or(usize::MAX, |mib| mib.saturating_mul(1 << 20)),
            step: Duration::from_micros(self.time_budget_us),
            mapping_budget: self.mapping_budget,
        }
    }

    /// What a child process needs to run the same script on the system allocator.
    pub(crate) fn for_child(&self) -> Vec<std::ffi::OsString> {
        let mut words = vec!["--on-system".into()];
        if self.short {
            words.push("--short".into());
        }
        if let Some(limit) = self.limit_mib {
            words.extend(["--limit-mib".into(), limit.to_string().into()]);
        }
        if let Some(script) = &self.script {
            words.extend(["--".into(), script.into()]);
        }
        words
    }
}
