//! The processes of a container: those of its control group. The kubelet names a pod's group by its
//! UID, and the container engine those in it by the containers' ids.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The depth of pods below the root: kubepods, quality of service, pod; below the kubelet's own
/// root, if it has one.
const DEEPEST: usize = 8;

/// The root of the node's control groups.
#[must_use]
pub fn root(on_node: bool) -> PathBuf {
    let seen_from = if on_node { "/proc/1/root" } else { "/" };
    Path::new(seen_from).join("sys/fs/cgroup")
}

/// The control group of a container, in any hierarchy.
#[must_use]
pub fn find(root: &Path, pod_uid: &str, container: &str) -> Option<PathBuf> {
    // systemd interprets a dash as a slash.
    let names = [format!("pod{pod_uid}"), format!("pod{}", pod_uid.replace('-', "_"))];
    let is_pod =
        |name: &str| names.iter().any(|pod| name.trim_end_matches(".slice").ends_with(pod));
    let pods = below(root, DEEPEST, &is_pod);
    let is_container = |name: &str| {
        let name = name.trim_end_matches(".scope");
        name.ends_with(container) && !name.contains("conmon")
    };
    pods.iter().find_map(|pod| below(pod, 1, &is_container).pop())
}

/// The folders with that name, but not those in them.
fn below(folder: &Path, depth: usize, is_it: &dyn Fn(&str) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (path, name) in folders(folder) {
        if is_it(&name) {
            found.push(path);
        } else if depth > 1 {
            found.extend(below(&path, depth - 1, is_it));
        }
    }
    found
}

/// The folders in a folder, which may be gone meanwhile.
fn folders(folder: &Path) -> impl Iterator<Item = (PathBuf, String)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let entries = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    entries.map(|entry| (entry.path(), entry.file_name().to_string_lossy().into_owned()))
}

/// The processes of a control group and of those in it.
///
/// # Errors
///
/// If it is gone.
pub fn processes(group: &Path) -> io::Result<Vec<i32>> {
    let text = fs::read_to_string(group.join("cgroup.procs"))?;
    let mut all: Vec<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    for (path, _) in folders(group) {
        // A group that is gone has no processes.
        all.extend(processes(&path).into_iter().flatten());
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_found_as_each_engine_names_them() {
        const POD: &str = "0a1b-2c";
        for (path, id) in [
            ("pids/kubepods/burstable/pod0a1b-2c/f00", "f00"),
            (
                "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b_2c.slice/cri-containerd-f00.scope",
                "f00",
            ),
            ("kubepods.slice/kubepods-pod0a1b_2c.slice/crio-f00.scope", "f00"),
            ("memory/node1/kubepods/besteffort/pod0a1b-2c/f00", "f00"),
        ] {
            let root = tempfile::tempdir().unwrap();
            let group = root.path().join(path);
            fs::create_dir_all(group.join("inner")).unwrap();
            fs::create_dir_all(group.with_file_name("crio-conmon-f00.scope")).unwrap();
            fs::write(group.join("cgroup.procs"), "7\n8\n").unwrap();
            fs::write(group.join("inner/cgroup.procs"), "9\n").unwrap();
            let found = find(root.path(), POD, id);
            assert_eq!(found.as_ref(), Some(&group));
            assert_eq!(processes(&group).unwrap(), [7, 8, 9]);
            assert_eq!(find(root.path(), POD, "f01"), None);
            assert_eq!(find(root.path(), "0a1b-2", id), None);
        }
    }
}
