//! The control groups that limit this process's processor time: its own and those above it, as far
//! as visible (cgroups(7)).

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::{Machine, Unknown};

/// The version of the hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `cpu.cfs_quota_us`, `cpu.cfs_period_us`.
    One,
    /// `cpu.max`.
    Two,
}

/// A group and its throttling.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its folder.
    pub folder: String,
    /// The version of its hierarchy.
    pub version: Version,
    /// The number of processors' time it may use; None if it has no limit.
    pub processors: Option<f64>,
    /// The period of the limit, in microseconds.
    pub period_us: Option<u64>,
    /// Periods in which it ran.
    pub periods: u64,
    /// Periods in which it was throttled.
    pub throttled: u64,
    /// How long its threads were throttled, in microseconds.
    pub throttled_us: u64,
}

/// The mount of the hierarchy that limits processor time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    version: Version,
    /// The group at the mount point.
    root: String,
    point: String,
}

impl Group {
    /// All groups that limit this process, its own first.
    ///
    /// # Errors
    /// If control groups are not mounted or cannot be read.
    pub fn all(machine: &Machine) -> Result<Vec<Self>, Unknown> {
        let mounts = mounts(&machine.text("/proc/self/mountinfo")?);
        let paths = paths(&machine.text("/proc/self/cgroup")?);
        // If both are mounted, the controller belongs to one of them: version 1, if it is there,
        // and the other one has no files for it.
        let folders = mounts.iter().filter_map(|mount| {
            let path = paths.iter().find(|(version, _)| *version == mount.version)?;
            Some((mount, folders(mount, &path.1)))
        });
        let folders: Vec<_> = folders.collect();
        // Another mount may cover this one.
        let is_seen = |version| {
            let of = folders.iter().filter(|(mount, _)| mount.version == version);
            of.flat_map(|(_, folders)| folders).any(|it| machine.has(&format!("{it}/cgroup.procs")))
        };
        if let Some(hidden) = mounts.iter().find(|mount| !is_seen(mount.version)) {
            let point = &hidden.point;
            return Err(Unknown::because(format!("{point}: this process's group cannot be seen")));
        }
        let groups: Vec<_> = folders
            .into_iter()
            .flat_map(|(mount, folders)| {
                folders.into_iter().filter_map(|folder| match mount.version {
                    Version::One => Self::of_one(machine, folder),
                    Version::Two => Self::of_two(machine, folder),
                })
            })
            .collect();
        match mounts.is_empty() {
            true => Err(Unknown::because("no control groups for processor time are mounted here")),
            false => Ok(groups),
        }
    }

    fn of_two(machine: &Machine, folder: String) -> Option<Self> {
        // The root has no limit, and so no such file.
        let max = machine.line(&format!("{folder}/cpu.max")).ok()?;
        let (quota, period) = max.split_once(' ')?;
        let period: u64 = period.parse().ok()?;
        let quota: Option<u64> = quota.parse().ok();
        let stat = stat(machine, &folder);
        let number = |name| stat.get(name).copied().unwrap_or(0);
        Some(Self {
            version: Version::Two,
            processors: quota.map(|quota| quota as f64 / period.max(1) as f64),
            period_us: Some(period),
            periods: number("nr_periods"),
            throttled: number("nr_throttled"),
            throttled_us: number("throttled_usec"),
            folder,
        })
    }

    fn of_one(machine: &Machine, folder: String) -> Option<Self> {
        let quota: i64 = machine.number(&format!("{folder}/cpu.cfs_quota_us")).ok()?;
        let period: u64 = machine.number(&format!("{folder}/cpu.cfs_period_us")).ok()?;
        let stat = stat(machine, &folder);
        let number = |name| stat.get(name).copied().unwrap_or(0);
        Some(Self {
            version: Version::One,
            processors: (quota >= 0).then(|| quota as f64 / period.max(1) as f64),
            period_us: Some(period),
            periods: number("nr_periods"),
            throttled: number("nr_throttled"),
            throttled_us: number("throttled_time") / 1000,
            folder,
        })
    }
}

/// The numbers of a group's `cpu.stat`.
fn stat(machine: &Machine, folder: &str) -> BTreeMap<String, u64> {
    let text = machine.text(&format!("{folder}/cpu.stat")).unwrap_or_default();
    let line = |line: &str| {
        let (name, number) = line.split_once(' ')?;
        Some((name.to_owned(), number.trim().parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// The mounts in `/proc/self/mountinfo` that concern processor time (proc_pid_mountinfo(5)).
fn mounts(text: &str) -> Vec<Mount> {
    let mount = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (before.next()?.to_owned(), before.next()?.to_owned());
        let mut after = after.split(' ');
        let version = match after.next()? {
            "cgroup2" => Version::Two,
            // The file system options name the controllers.
            "cgroup" if after.nth(1)?.split(',').any(|it| it == "cpu") => Version::One,
            _ => return None,
        };
        Some(Mount { version, root, point })
    };
    text.lines().filter_map(mount).collect()
}

/// This process's groups for processor time in `/proc/self/cgroup`.
fn paths(text: &str) -> Vec<(Version, String)> {
    let path = |line: &str| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        match controllers {
            "" => Some((Version::Two, path.to_owned())),
            some if some.split(',').any(|it| it == "cpu") => Some((Version::One, path.to_owned())),
            _ => None,
        }
    };
    text.lines().filter_map(path).collect()
}

/// The folders of a group and of all above it, down to the mount point.
fn folders(mount: &Mount, path: &str) -> Vec<String> {
    let path = Path::new(path);
    // A group outside the mount is shown as /.. : then the mount point is the nearest.
    let below = path.strip_prefix(&mount.root).unwrap_or(Path::new(""));
    let below = match below.components().any(|it| matches!(it, Component::ParentDir)) {
        true => PathBuf::new(),
        false => below.to_owned(),
    };
    let folder = |below: &Path| {
        let whole = Path::new(&mount.point).join(below);
        whole.to_string_lossy().trim_end_matches('/').to_owned()
    };
    below.ancestors().map(folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    const TWO: &str = "35 24 0:29 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - \
                       cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n";

    #[test]
    fn a_group_of_version_two_is_limited_by_those_above_it() {
        let tree = Tree::new("cgroup2");
        tree.file("proc/self/mountinfo", TWO);
        tree.file("proc/self/cgroup", "0::/kubepods.slice/pod7.slice/cri-x.scope\n");
        let hidden = Group::all(&tree.machine()).unwrap_err().to_string();
        assert!(hidden.contains("cannot be seen"), "{hidden}");
        tree.file("sys/fs/cgroup/cgroup.procs", "");
        let pod = "sys/fs/cgroup/kubepods.slice/pod7.slice";
        tree.file(&format!("{pod}/cri-x.scope/cpu.max"), "max 100000\n");
        tree.file(&format!("{pod}/cpu.max"), "150000 100000\n");
        tree.file(
            &format!("{pod}/cpu.stat"),
            "usage_usec 99\nnr_periods 400\nnr_throttled 12\nthrottled_usec 60000\n",
        );
        tree.file("sys/fs/cgroup/kubepods.slice/cpu.max", "max 100000\n");
        let groups = Group::all(&tree.machine()).unwrap();
        assert_eq!(groups.len(), 3, "the root has no limit");
        assert_eq!((groups[0].processors, groups[2].processors), (None, None));
        let pod = &groups[1];
        assert_eq!((pod.processors, pod.period_us), (Some(1.5), Some(100_000)));
        assert_eq!((pod.periods, pod.throttled, pod.throttled_us), (400, 12, 60_000));
    }

    #[test]
    fn version_one_is_mounted_by_its_controllers() {
        let tree = Tree::new("cgroup1");
        tree.file(
            "proc/self/mountinfo",
            "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
             32 31 0:29 /docker/ab /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n\
             34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
             41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        );
        tree.file("proc/self/cgroup", "3:cpuset:/x\n2:cpu,cpuacct:/docker/ab\n0::/\n");
        let folder = "sys/fs/cgroup/cpu,cpuacct";
        tree.file(&format!("{folder}/cgroup.procs"), "");
        tree.file("sys/fs/cgroup/unified/cgroup.procs", "");
        tree.file(&format!("{folder}/cpu.cfs_quota_us"), "50000\n");
        tree.file(&format!("{folder}/cpu.cfs_period_us"), "100000\n");
        tree.file(&format!("{folder}/cpu.stat"), "nr_throttled 3\nthrottled_time 5000000\n");
        let groups = Group::all(&tree.machine()).unwrap();
        assert_eq!(groups.len(), 1, "{groups:?}");
        assert_eq!(groups[0].folder, "/sys/fs/cgroup/cpu,cpuacct");
        assert_eq!((groups[0].processors, groups[0].throttled_us), (Some(0.5), 5000));
        tree.file(&format!("{folder}/cpu.cfs_quota_us"), "-1\n");
        assert_eq!(Group::all(&tree.machine()).unwrap()[0].processors, None);
    }

    #[test]
    fn a_group_outside_of_the_mount_ends_at_the_mount_point() {
        let mount = |root: &str| Mount {
            version: Version::Two,
            root: root.into(),
            point: "/sys/fs/cgroup".into(),
        };
        assert_eq!(folders(&mount("/"), "/../../other"), ["/sys/fs/cgroup"]);
        assert_eq!(folders(&mount("/a"), "/b"), ["/sys/fs/cgroup"]);
        assert_eq!(folders(&mount("/a"), "/a/b"), ["/sys/fs/cgroup/b", "/sys/fs/cgroup"]);
        let tree = Tree::new("no-cgroups");
        tree.file("proc/self/mountinfo", "22 27 0:21 / /proc rw - proc proc rw\n");
        tree.file("proc/self/cgroup", "0::/\n");
        assert!(Group::all(&tree.machine()).unwrap_err().to_string().contains("mounted"));
    }
}
