//! The workloads on the system's malloc, or on a library that is preloaded.

#[global_allocator]
static GLOBAL: std::alloc::System = std::alloc::System;

fn main() -> std::process::ExitCode {
    workloads::main()
}
