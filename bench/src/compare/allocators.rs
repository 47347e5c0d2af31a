//! The allocators: those that are linked in, and libraries that are preloaded.

use std::fs;
use std::path::PathBuf;

use anyhow::bail;

use crate::compare::failure::Failure;

/// Ours once, and all peers. On machines where one cannot be built it is named, and the rest runs.
pub(crate) const DEFAULT: &str = "meshheap,system,mimalloc,mimalloc3,jemalloc,snmalloc,rpmalloc";

/// What the ratios refer to where nobody says otherwise.
const BASELINE: &str = "mimalloc";

/// A program that has the allocator linked in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Linked {
    pub(crate) name: &'static str,
    /// The binary target.
    pub(crate) binary: &'static str,
    /// The feature of this package that it needs.
    pub(crate) feature: Option<&'static str>,
    /// Whether it can be built together with the others.
    pub(crate) alone: bool,
}

const LINKED: [Linked; 9] = [
    linked("meshheap", "workload_meshheap", None),
    linked("meshheap-auto", "workload_meshheap_auto", None),
    linked("meshheap-off", "workload_meshheap_off", None),
    linked("system", "workload_system", None),
    linked("mimalloc", "workload_mimalloc", Some("mimalloc2")),
    // The same crate as `mimalloc`, with the other version of the library.
    Linked { alone: true, ..linked("mimalloc3", "workload_mimalloc3", Some("mimalloc3")) },
    linked("jemalloc", "workload_jemalloc", Some("jemalloc")),
    linked("snmalloc", "workload_snmalloc", Some("snmalloc")),
    linked("rpmalloc", "workload_rpmalloc", Some("rpmalloc")),
];

const fn linked(name: &'static str, binary: &'static str, feature: Option<&'static str>) -> Linked {
    Linked { name, binary, feature, alone: false }
}

/// The names of those that are linked in.
pub(crate) fn names() -> Vec<&'static str> {
    LINKED.iter().map(|linked| linked.name).collect()
}

/// How to run a workload on an allocator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Program {
    pub(crate) linked: Linked,
    pub(crate) preload: Option<PathBuf>,
    /// Where the program is. Empty until it has been found or built.
    pub(crate) path: PathBuf,
}

/// A column of the tables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Allocator {
    pub(crate) name: String,
    pub(crate) program: Result<Program, Failure>,
}

impl Allocator {
    /// Whether it is meshheap, meshed in whatever way.
    pub(crate) fn is_ours(&self) -> bool {
        self.program.as_ref().is_ok_and(|program| program.linked.name.starts_with("meshheap"))
    }

    /// The allocators that the command line names, each once.
    pub(crate) fn parse_list(names: &[String]) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        for name in names.iter().map(|name| Self::parse(name.trim())) {
            if found.iter().all(|other| other.name != name.name) {
                found.push(name);
            }
        }
        found
    }

    /// A known name, or `NAME=/path/to/lib.so`.
    fn parse(text: &str) -> Self {
        let known = |name: &str| LINKED.into_iter().find(|linked| linked.name == name);
        let program = |linked, preload| Program { linked, preload, path: PathBuf::new() };
        if let Some((name, library)) = text.split_once('=') {
            let system = known("system").expect("the system's malloc is known");
            let library = fs::canonicalize(library).map_err(|error| Failure::NotLoaded(format!("{library}: {error}")));
            return Self { name: name.to_owned(), program: library.map(|library| program(system, Some(library))) };
        }
        let linked = known(text).ok_or(Failure::UnknownAllocator);
        Self { name: text.to_owned(), program: linked.map(|linked| program(linked, None)) }
    }
}

/// The place of the baseline among the allocators. One that is asked for and not among them is added.
pub(crate) fn baseline(allocators: &mut Vec<Allocator>, wanted: Option<&str>) -> anyhow::Result<usize> {
    let place = |allocators: &[Allocator], name: &str| allocators.iter().position(|other| other.name == name);
    let Some(wanted) = wanted else {
        return Ok(place(allocators, BASELINE).unwrap_or(0));
    };
    if let Some(place) = place(allocators, wanted) {
        return Ok(place);
    }
    let added = Allocator::parse(wanted);
    if added.program.is_err() {
        bail!("the baseline {wanted} is no allocator that is known or in the list; known: {}", names().join(", "));
    }
    allocators.push(added);
    Ok(allocators.len() - 1)
}

/// What is wrong with allocators that cannot be run, one after the other.
pub(crate) fn problems(allocators: &[Allocator]) -> String {
    let problem = |allocator: &Allocator| Some(format!("{}: {}", allocator.name, allocator.program.as_ref().err()?));
    allocators.iter().filter_map(problem).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::{Allocator, DEFAULT, LINKED, baseline, problems};
    use crate::compare::failure::Failure;

    fn parse(list: &[&str]) -> Vec<Allocator> {
        Allocator::parse_list(&list.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn the_default_list_is_known() {
        let found = parse(&DEFAULT.split(',').collect::<Vec<_>>());
        assert_eq!(problems(&found), "");
        let missing = LINKED.iter().filter(|linked| found.iter().all(|other| other.name != linked.name));
        assert_eq!(missing.map(|linked| linked.name).collect::<Vec<_>>(), ["meshheap-auto", "meshheap-off"]);
    }

    #[test]
    fn a_path_is_preloaded_into_the_program_of_the_system() {
        let found = parse(&["mine=/proc/self/exe", "system", "system"]);
        assert_eq!(found.len(), 2);
        let program = found[0].program.as_ref().expect("the file is there");
        assert_eq!(program.linked.name, "system");
        assert!(program.preload.as_ref().is_some_and(|path| path.is_absolute()));
    }

    #[test]
    fn unknown_names_and_missing_libraries_are_failures() {
        let found = parse(&["fastalloc", "mine=/nowhere/lib.so"]);
        assert_eq!(found[0].program, Err(Failure::UnknownAllocator));
        assert!(matches!(found[1].program, Err(Failure::NotLoaded(_))));
    }

    #[test]
    fn the_baseline_is_mimalloc_or_the_first_or_the_one_that_is_asked_for() {
        let at = |list: &[&str], wanted| baseline(&mut parse(list), wanted).ok();
        assert_eq!(at(&["system", "mimalloc"], None), Some(1));
        assert_eq!(at(&["system", "meshheap"], None), Some(0));
        assert_eq!(at(&["system", "meshheap"], Some("meshheap")), Some(1));
        assert_eq!(at(&["system"], Some("rpmalloc")), Some(1));
        assert_eq!(at(&["system"], Some("nothing")), None);
    }
}
