//! What runs: small programs of the kinds that real ones are made of.

/// A program that defines `run(scale)`, which gives a checksum.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// What tables call it.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// Programs to measure: the same sums on every allocator.
pub const PROGRAMS: [Program; 4] = [
    Program { name: "richards", text: include_str!("../../scripts/js/richards.js") },
    Program { name: "strings", text: include_str!("../../scripts/js/strings.js") },
    Program { name: "json", text: include_str!("../../scripts/js/json.js") },
    Program { name: "maps", text: include_str!("../../scripts/js/maps.js") },
];

/// A program that keeps a tenth of what it made, scattered, and defines `checksum()`, too.
pub const SERVICE: Program = Program { name: "service", text: include_str!("../../scripts/js/service.js") };

/// Keeps everything that it makes, until there is no memory.
pub const HOARD: Program = Program {
    name: "hoard",
    text: "function run() { const kept = []; for (;;) kept.push({ a: [kept.length], b: `${kept.length}` }); }",
};
