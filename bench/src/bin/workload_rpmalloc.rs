//! The workloads on rpmalloc.

#[global_allocator]
static GLOBAL: rpmalloc::RpMalloc = rpmalloc::RpMalloc;

fn main() -> std::process::ExitCode {
    workloads::main()
}
