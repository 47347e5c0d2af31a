//! A memory cgroup for each run, which knows the most that the run held, page tables and all. Version 1 and version 2.

use core::cell::Cell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, ensure};

/// What counts the peak: version 1, version 2.
const PEAKS: [&str; 2] = ["memory.max_usage_in_bytes", "memory.peak"];

/// What groups of this program are called, before its process's number.
const PREFIX: &str = "meshheap-bench-";

/// A group of this program's own, in which those of the runs are made.
pub(crate) struct Cgroups {
    folder: PathBuf,
    made: Cell<usize>,
}

impl Cgroups {
    /// Makes a group below that of this process.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let groups = fs::read_to_string("/proc/self/cgroup")?;
        let own = own_folder(&mounts, &groups).context("no memory controller is mounted")?;
        remove_stale(&own);
        let folder = own.join(format!("{PREFIX}{}", process::id()));
        fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let cgroups = Self { folder, made: Cell::new(0) };
        // In version 2 a group counts memory if its parent says so, which a parent with processes may not; then there is no
        // peak to read. Version 1 has no such file.
        let _ = fs::write(own.join("cgroup.subtree_control"), "+memory");
        let _ = fs::write(cgroups.folder.join("cgroup.subtree_control"), "+memory");
        let counts = cgroups.group()?.peak().is_some();
        ensure!(counts, "groups below {} count no memory", own.display());
        Ok(cgroups)
    }

    /// A fresh group for one run.
    pub(crate) fn group(&self) -> anyhow::Result<Group> {
        let number = self.made.replace(self.made.get() + 1);
        let folder = self.folder.join(number.to_string());
        fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Group { folder })
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        // Nothing can be done about a group that stays, and it holds nothing.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// One run's group.
pub(crate) struct Group {
    folder: PathBuf,
}

impl Group {
    /// The file that takes a process into the group: it writes `0` there.
    pub(crate) fn door(&self) -> anyhow::Result<File> {
        let door = self.folder.join("cgroup.procs");
        File::options().write(true).open(&door).with_context(|| format!("cannot open {}", door.display()))
    }

    /// The most bytes that the group has held.
    pub(crate) fn peak(&self) -> Option<usize> {
        let text = PEAKS.into_iter().find_map(|peak| fs::read_to_string(self.folder.join(peak)).ok())?;
        text.trim().parse().ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Removes what was left by a process that was interrupted. Groups that anything runs in cannot be removed.
fn remove_stale(own: &Path) {
    let subfolders = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_stale = |folder: &PathBuf| {
        let process = folder.file_name().and_then(|name| name.to_str()?.strip_prefix(PREFIX));
        process.is_some_and(|process| !Path::new("/proc").join(process).exists())
    };
    for stale in subfolders(own).filter(is_stale) {
        subfolders(&stale).chain([stale.clone()]).for_each(|folder| drop(fs::remove_dir(folder)));
    }
}

/// The folder of the memory group that this process is in.
fn own_folder(mounts: &str, groups: &str) -> Option<PathBuf> {
    version_1(mounts, groups).or_else(|| version_2(mounts, groups))
}

fn version_1(mounts: &str, groups: &str) -> Option<PathBuf> {
    let has_memory = |list: &str| list.split(',').any(|name| name == "memory");
    let mount = mount_point(mounts, |kind, options| kind == "cgroup" && has_memory(options))?;
    let (_, path) = groups
        .lines()
        .filter_map(|line| line.split_once(':')?.1.split_once(':'))
        .find(|(controllers, _)| has_memory(controllers))?;
    Some(mount.join(path.trim_start_matches('/')))
}

fn version_2(mounts: &str, groups: &str) -> Option<PathBuf> {
    let mount = mount_point(mounts, |kind, _| kind == "cgroup2")?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(mount.join(path.trim_start_matches('/')))
}

/// Where the first file system that fits, by its kind and its options, is mounted.
fn mount_point(mounts: &str, fits: impl Fn(&str, &str) -> bool) -> Option<&Path> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (point, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        fits(kind, options).then(|| Path::new(point))
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::own_folder;

    const BOTH: &str = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                        cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n\
                        cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";

    #[test]
    fn the_memory_controller_of_version_1_comes_first() {
        let groups = "5:cpu:/\n4:memory:/a/b\n0::/c\n";
        assert_eq!(own_folder(BOTH, groups).as_deref(), Some(Path::new("/sys/fs/cgroup/memory/a/b")));
    }

    #[test]
    fn version_2_serves_where_there_is_no_other() {
        let mounts = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n";
        assert_eq!(own_folder(mounts, "0::/user.slice\n").as_deref(), Some(Path::new("/sys/fs/cgroup/user.slice")));
        assert_eq!(own_folder("", "0::/\n"), None);
    }
}
