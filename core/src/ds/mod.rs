//! Data structures that know nothing of heaps: size classes, tables by page, shuffle vectors, the metadata pool.

pub(crate) mod metadata;
pub(crate) mod shuffle_vector;
pub(crate) mod size_class;
pub(crate) mod table;
