//! The workloads on meshheap.

#[global_allocator]
static GLOBAL: meshheap_linux::MeshHeap = meshheap_linux::MeshHeap::new();

fn main() -> std::process::ExitCode {
    workloads::main()
}
