//! The workloads on meshheap in private memory, which is never meshed.

#[global_allocator]
static GLOBAL: meshheap_linux::MeshHeap = meshheap_linux::MeshHeap::with_meshing(meshheap_linux::Meshing::Off);

fn main() -> std::process::ExitCode {
    workloads::main()
}
