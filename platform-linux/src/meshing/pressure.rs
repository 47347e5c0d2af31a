//! Whether memory is short: the limit of the process's own memory group is near, or the system says that tasks wait for memory.

use core::ffi::CStr;

use crate::proc_file::{ProcFile, number_at_start};

/// Memory is short once a group uses so many of 100 parts of its limit.
const USED_PERCENT: usize = 90;

/// Or once so many of 100 parts of the last ten seconds were spent waiting for memory.
const WAITED_PERCENT: usize = 5;

/// The files of one version of memory groups.
struct Version {
    /// Which line of `/proc/self/cgroup` names the group.
    controllers: &'static [u8],
    mount: &'static [u8],
    usage: &'static [u8],
    limit: &'static [u8],
    /// Where of the usage the part is told that the system drops before it runs short: files that were read and not since.
    details: &'static [u8],
    cache: &'static [u8],
}

const VERSIONS: [Version; 2] = [
    Version {
        controllers: b"",
        mount: b"/sys/fs/cgroup",
        usage: b"memory.current",
        limit: b"memory.max",
        details: b"memory.stat",
        cache: b"inactive_file",
    },
    Version {
        controllers: b"memory",
        mount: b"/sys/fs/cgroup/memory",
        usage: b"memory.usage_in_bytes",
        limit: b"memory.limit_in_bytes",
        details: b"memory.stat",
        cache: b"total_inactive_file",
    },
];

/// Whether memory is short. Some 50 microseconds; nothing is kept open.
pub(super) fn is_memory_short() -> bool {
    VERSIONS.iter().any(is_group_full) || is_system_waiting() == Some(true)
}

fn is_group_full(version: &Version) -> bool {
    let mut buffer = [0; 1024];
    let Some(groups) = ProcFile::open(c"/proc/self/cgroup").and_then(|file| file.read_up_to(&mut buffer)) else {
        return false;
    };
    let group = groups.split(|&byte| byte == b'\n').find_map(|line| path_of(line, version.controllers));
    // In a container the group's path may not be there, since its own group is mounted as the root.
    group.and_then(|group| is_full(version, group)).or_else(|| is_full(version, b"/")) == Some(true)
}

/// The path in a line `ID:CONTROLLERS:PATH` for this controller.
fn path_of<'a>(line: &'a [u8], controller: &[u8]) -> Option<&'a [u8]> {
    let mut parts = line.splitn(3, |&byte| byte == b':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    controllers.split(|&byte| byte == b',').any(|name| name == controller).then_some(path)
}

fn is_full(version: &Version, group: &[u8]) -> Option<bool> {
    let usage = number_in(version, group, version.usage)?;
    // "max" is no number: there is no limit.
    let limit = number_in(version, group, version.limit)?;
    let most = limit / 100 * USED_PERCENT;
    // Usage counts the page cache: who reads large files is always near the limit.
    Some(usage >= most && usage.saturating_sub(cache_in(version, group).unwrap_or(0)) >= most)
}

fn number_in(version: &Version, group: &[u8], file: &[u8]) -> Option<usize> {
    let mut buffer = [0; 32];
    number_at_start(open_in(version, group, file)?.read_up_to(&mut buffer)?)
}

fn cache_in(version: &Version, group: &[u8]) -> Option<usize> {
    let mut buffer = [0; 4096];
    number_behind(open_in(version, group, version.details)?.read_up_to(&mut buffer)?, version.cache)
}

/// The number in the line that begins with this name and a blank.
fn number_behind(text: &[u8], name: &[u8]) -> Option<usize> {
    let number = |line: &[u8]| number_at_start(line.strip_prefix(name)?.strip_prefix(b" ")?);
    text.split(|&byte| byte == b'\n').find_map(number)
}

fn open_in(version: &Version, group: &[u8], file: &[u8]) -> Option<ProcFile> {
    let mut path = [0; 512];
    ProcFile::open(join(&mut path, [version.mount, group, b"/", file, b"\0"])?)
}

/// The parts one after another, as a path, if they fit.
fn join<'a>(buffer: &'a mut [u8], parts: [&[u8]; 5]) -> Option<&'a CStr> {
    let mut length = 0;
    for part in parts {
        buffer.get_mut(length..length + part.len())?.copy_from_slice(part);
        length += part.len();
    }
    CStr::from_bytes_with_nul(&buffer[..length]).ok()
}

/// Whether tasks wait for memory: `some avg10=1.23 ..` in `/proc/pressure/memory`; none where the kernel does not tell.
fn is_system_waiting() -> Option<bool> {
    let mut buffer = [0; 256];
    let text = ProcFile::open(c"/proc/pressure/memory")?.read_up_to(&mut buffer)?;
    let average = text.strip_prefix(b"some avg10=")?;
    Some(number_at_start(average)? >= WAITED_PERCENT)
}

#[cfg(test)]
mod tests {
    use super::{VERSIONS, Version, is_full, join, path_of};
    use std::vec::Vec;

    #[test]
    fn groups_are_found_in_both_versions() {
        assert_eq!(path_of(b"0::/user.slice/a", b""), Some(&b"/user.slice/a"[..]));
        assert_eq!(path_of(b"4:cpu,memory:/docker/b:c", b"memory"), Some(&b"/docker/b:c"[..]));
        assert_eq!(path_of(b"4:cpu:/x", b"memory"), None);
        assert_eq!(path_of(b"", b""), None);
    }

    /// Whether a group is full by the files of this version, with such figures.
    fn is_full_with(version: &Version, usage: &str, limit: &str, details: &str) -> Option<bool> {
        let name = |file: &[u8]| std::string::String::from_utf8(file.to_vec()).expect("text");
        let folder = std::env::temp_dir().join(std::format!("meshheap-group-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("group")).expect("a folder for such files");
        for (file, text) in [(version.usage, usage), (version.limit, limit), (version.details, details)] {
            std::fs::write(folder.join("group").join(name(file)), text).expect("room");
        }
        let mount: &'static [u8] = Vec::leak(folder.as_os_str().as_encoded_bytes().to_vec());
        let full = is_full(&Version { mount, ..*version }, b"/group");
        std::fs::remove_dir_all(&folder).expect("it was made above");
        full
    }

    #[test]
    fn a_group_is_full_by_what_the_system_cannot_drop() {
        for version in &VERSIONS {
            let name = core::str::from_utf8(version.cache).expect("text");
            let details = |cache: usize| {
                // Lines of similar names, as the system has them, around a text longer than usual.
                let before: std::string::String = (0..80).map(|n| std::format!("thing_{n} 12345678\n")).collect();
                std::format!("anon 99\nactive_file 7\nx{name} 1\n{before}{name} {cache}\n{name}_x 2\n")
            };
            assert_eq!(is_full_with(version, "95000\n", "100000\n", &details(1000)), Some(true));
            assert_eq!(is_full_with(version, "95000\n", "100000\n", &details(60_000)), Some(false), "cache");
            assert_eq!(is_full_with(version, "50000\n", "100000\n", &details(0)), Some(false));
            assert_eq!(is_full_with(version, "95000\n", "100000\n", ""), Some(true), "nothing is told of the cache");
            assert_eq!(is_full_with(version, "95000\n", "max\n", &details(0)), None);
        }
    }

    #[test]
    fn a_path_that_is_too_long_is_none() {
        assert_eq!(join(&mut [0; 4], [b"a", b"b", b"/", b"c", b"\0"]), None);
        assert_eq!(join(&mut [0; 5], [b"a", b"b", b"/", b"c", b"\0"]), Some(c"ab/c"));
    }
}
