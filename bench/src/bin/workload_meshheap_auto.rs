//! The workloads on meshheap, meshed without being asked.

#[global_allocator]
static GLOBAL: meshheap_linux::MeshHeap = meshheap_linux::MeshHeap::with_meshing(meshheap_linux::Meshing::Auto);

fn main() -> std::process::ExitCode {
    workloads::main()
}
