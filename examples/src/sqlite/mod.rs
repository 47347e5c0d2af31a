//! SQLite, whose memory is one meshing heap, and what a program with a database a tenant does to it.

mod hook;
pub mod workload;

pub use hook::{InstallError, Installed, install};
