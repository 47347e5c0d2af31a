//! Models of the heap's races. Each is one race on the real source: an ordinary test in a plain build, every interleaving
//! (up to the bound) under loom. Run all with `.ci/loom`.

mod model_budget;
mod model_cell;
mod model_depot;
mod model_drop_local;
mod model_emptying;
mod model_hollow;
mod model_lookup;
mod model_pin;
mod model_release_mesh;
mod model_row;
mod model_unalias;
mod world;
