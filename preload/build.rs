//! How the shared library is linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Threads that end run a destructor of the library's, and objects outlive whoever opened it: once loaded, it stays.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
