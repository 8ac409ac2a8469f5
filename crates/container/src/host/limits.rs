//! Limits of memory and processor time: their syntax, and whether they can be set.

use std::path::{Path, PathBuf};
use std::{fs, io};

use nix::fcntl::AtFlags;
use nix::unistd::{AccessFlags, faccessat};

use crate::error::Error;

/// A size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory(pub i64);

/// Processor time, in the units of the kernel's scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// Microseconds that may be used in each [`PERIOD_US`].
    pub quota_us: i64,
}

/// The period of a quota, in microseconds, as in docker.
pub const PERIOD_US: u64 = 100_000;

/// The kernel accepts no quota below a millisecond.
const LEAST_QUOTA_US: f64 = 1_000.0;

/// More than any machine has.
const MOST_CPUS: f64 = 1_000_000.0;

/// Units of sizes, as in docker.
const UNITS: [(char, u32); 5] = [('b', 0), ('k', 10), ('m', 20), ('g', 30), ('t', 40)];

/// Parses a size: `512m`, `2g`, or bytes.
///
/// # Errors
///
/// Returns what is wrong with the text.
pub fn parse_memory(text: &str) -> Result<Memory, String> {
    let help = "write a whole number with a unit, such as 512m or 2g";
    let lower = text.to_ascii_lowercase();
    let (number, shift) = UNITS
        .iter()
        .find_map(|(unit, shift)| Some((lower.strip_suffix(*unit)?, *shift)))
        .unwrap_or((&lower, 0));
    let number: i64 = number.parse().map_err(|_| format!("it is not a size\nhelp: {help}"))?;
    match number.checked_mul(1 << shift) {
        Some(bytes) if bytes > 0 => Ok(Memory(bytes)),
        _ => Err(format!("it is out of range\nhelp: {help}")),
    }
}

/// Parses a number of processors: `1`, `0.5`, `2.25`.
///
/// # Errors
///
/// Returns what is wrong with the text.
pub fn parse_cpus(text: &str) -> Result<Cpus, String> {
    let help = "write how many processors may be busy, such as 2 or 0.5";
    let number: f64 = text.parse().map_err(|_| format!("it is not a number\nhelp: {help}"))?;
    let quota = number * PERIOD_US as f64;
    if !(LEAST_QUOTA_US..=MOST_CPUS * PERIOD_US as f64).contains(&quota) {
        return Err(format!("it is not between 0.01 and {MOST_CPUS}\nhelp: {help}"));
    }
    Ok(Cpus { quota_us: quota as i64 })
}

/// The options, and the controllers that implement them.
const CONTROLLERS: [(&str, &str); 2] = [("--memory", "memory"), ("--cpus", "cpu")];

/// Checks that this process can set the requested limits.
///
/// # Errors
///
/// Returns the first that it cannot set.
pub fn check(memory: Option<Memory>, cpus: Option<Cpus>) -> Result<(), Error> {
    let asked = [memory.is_some(), cpus.is_some()];
    let wanted = CONTROLLERS.into_iter().zip(asked).filter(|(_, asked)| *asked);
    for ((option, controller), _) in wanted {
        let failed = |reason| Error::NoLimit { option, reason };
        let groups = read("/proc/self/cgroup").map_err(failed)?;
        let mounts = read("/proc/self/mountinfo").map_err(failed)?;
        let folder = folder(controller, &groups, &mounts)
            .ok_or_else(|| failed(format!("there is no control group with '{controller}'")))?;
        let access =
            faccessat(nix::fcntl::AT_FDCWD, &folder, AccessFlags::W_OK, AtFlags::AT_EACCESS);
        access.map_err(|cause| {
            failed(format!(
                "control groups cannot be made in {} ({})",
                folder.display(),
                cause.desc()
            ))
        })?;
        let has = |controllers: &str| controllers.split_whitespace().any(|one| one == controller);
        match fs::read_to_string(folder.join("cgroup.controllers")) {
            Ok(controllers) if !has(&controllers) => {
                let folder = folder.display();
                return Err(failed(format!("'{controller}' is not handed on to {folder}")));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed(error.to_string()));
            }
            _ => {}
        }
    }
    Ok(())
}

fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
}

/// The directory in which a runtime creates the control group of a container, in the hierarchy that
/// has the controller: below the caller's own in version 1, beside it in version 2, where groups
/// with processes have no child groups. `groups` is /proc/self/cgroup, `mounts` is
/// /proc/self/mountinfo (`cgroups(7)`, `proc(5)`).
fn folder(controller: &str, groups: &str, mounts: &str) -> Option<PathBuf> {
    let own = |wanted: &str| {
        groups.lines().find_map(|line| {
            let mut words = line.splitn(3, ':').skip(1);
            let (controllers, path) = (words.next()?, words.next()?);
            controllers.split(',').any(|one| one == wanted).then_some(path)
        })
    };
    // (type, file system options, root, mount point)
    let mounted = |kind: &str, option: Option<&str>| {
        mounts.lines().find_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let mut left = left.split(' ').skip(3);
            let (root, place) = (left.next()?, left.next()?);
            let mut right = right.split(' ');
            let fits = right.next()? == kind
                && option.is_none_or(|option| {
                    right.nth(1).is_some_and(|all| all.split(',').any(|one| one == option))
                });
            fits.then_some((root, place))
        })
    };
    let below = |(root, place): (&str, &str), path: &str| {
        Path::new(place).join(Path::new(path).strip_prefix(root).unwrap_or(Path::new("")))
    };
    if let (Some(path), Some(mount)) = (own(controller), mounted("cgroup", Some(controller))) {
        return Some(below(mount, path));
    }
    let mount = mounted("cgroup2", None)?;
    let parent = Path::new(own("")?).parent().and_then(Path::to_str).unwrap_or("/");
    Some(below(mount, parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [("4096", 4096), ("64k", 65_536), ("512M", 1 << 29), ("2g", 1 << 31)] {
            assert_eq!(parse_memory(text), Ok(Memory(bytes)));
        }
        for text in ["", "m", "0", "-1m", "1.5g", "9000000000g", "1mb", "12345678t"] {
            assert!(parse_memory(text).is_err(), "{text}");
        }
    }

    #[test]
    fn processors_may_be_parts() {
        for (text, quota_us) in [("1", 100_000), ("0.5", 50_000), ("2.25", 225_000)] {
            assert_eq!(parse_cpus(text), Ok(Cpus { quota_us }));
        }
        for text in ["", "0", "-1", "x", "inf", "nan", "0.001"] {
            assert!(parse_cpus(text).is_err(), "{text}");
        }
    }

    #[test]
    fn finds_the_hierarchy_of_a_controller() {
        let hybrid = "33 25 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      42 25 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let groups = "4:memory:/a/b\n1:cpu,cpuacct:/\n0::/\n";
        assert_eq!(
            folder("memory", groups, hybrid),
            Some(PathBuf::from("/sys/fs/cgroup/memory/a/b"))
        );
        let unified =
            "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let groups = "0::/user.slice/user-1000.slice/session-1.scope\n";
        assert_eq!(
            folder("cpu", groups, unified),
            Some(PathBuf::from("/sys/fs/cgroup/user.slice/user-1000.slice"))
        );
        assert_eq!(folder("cpu", "0::/\n", unified), Some(PathBuf::from("/sys/fs/cgroup/")));
        assert_eq!(folder("cpu", "0::/\n", ""), None);
    }
}
