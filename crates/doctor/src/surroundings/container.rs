//! Whether this process is in a container, and what created it.

use crate::machine::{Machine, Unknown};
use crate::{Finding, Options};

/// Files that engines leave in their containers, and the engines.
const FILES: [(&str, &str); 4] = [
    ("/.dockerenv", "Docker"),
    ("/run/.containerenv", "podman"),
    ("/run/systemd/container", "systemd's interface for containers"),
    ("/var/run/secrets/kubernetes.io", "Kubernetes"),
];

/// Words in the paths of control groups, and the software that creates them.
const GROUPS: [(&str, &str); 6] = [
    ("kubepods", "Kubernetes"),
    ("/docker", "Docker"),
    ("libpod", "podman"),
    ("/lxc", "LXC"),
    ("/ecs/", "Amazon ECS"),
    ("machine.slice", "systemd-nspawn or libvirt"),
];

/// The kernel's inode numbers of its first namespaces (<linux/proc_ns.h>).
const FIRST: [(&str, u64); 4] =
    [("pid", 0xEFFF_FFFC), ("uts", 0xEFFF_FFFE), ("ipc", 0xEFFF_FFFF), ("user", 0xEFFF_FFFD)];

/// Checks whether this is a container.
pub fn container(machine: &Machine, _: &Options) -> Finding {
    let environment = if machine.is_real() { std::env::var("container").ok() } else { None };
    judge(machine, environment.as_deref())
}

fn judge(machine: &Machine, environment: Option<&str>) -> Finding {
    // Images that became machines still have the files of the engine that built them.
    let mut hints = Vec::new();
    for (path, whose) in FILES {
        if machine.has(path) {
            hints.push((whose.to_owned(), format!("{path} is there")));
        }
    }
    if let Some(value) = environment.filter(|value| !value.is_empty()) {
        hints.push((value.to_owned(), format!("the variable 'container' is '{value}'")));
    }
    // Inside, a group's path may be relative to its own namespace, so none of this shows.
    let mut groups = Vec::new();
    for path in ["/proc/self/cgroup", "/proc/1/cgroup"] {
        let text = machine.text(path).unwrap_or_default();
        if let Some((word, whose)) = GROUPS.iter().find(|(word, _)| text.contains(word)) {
            groups.push(((*whose).to_owned(), format!("{path} has '{word}' in it")));
        }
    }
    let seen: Vec<_> = FIRST
        .iter()
        .filter_map(|(name, first)| Some((*name, is_other(machine, name, *first)?)))
        .collect();
    let own: Vec<_> =
        seen.iter().filter(|(_, is_other)| *is_other).map(|(name, _)| *name).collect();
    // A container has at least its own PID namespace; hints count if there is any other namespace
    // of its own, or if that cannot be determined.
    let has_processes = own.contains(&"pid");
    let hints_count = !own.is_empty() || seen.is_empty();
    let whose = (hints.iter().filter(|_| hints_count).chain(&groups)).next();
    let whose = whose.map(|(whose, _)| whose.clone());
    let is_in = whose.is_some() || has_processes;
    let mut finding = match &whose {
        Some(whose) => Finding::note(format!(
            "this process is in a container ({whose}): its clocks are the host's, which \
             disciplines them"
        )),
        None if has_processes => {
            Finding::note("this process is in a PID namespace of its own, as in a container")
        }
        None if seen.is_empty() => {
            let why = Unknown::because("its namespaces cannot be seen");
            return Finding::unknown("whether this process is in a container", &why)
                .fact("container", why);
        }
        None => Finding::ok("this process is in no container"),
    };
    for (_, sign) in hints {
        finding = finding.line(match hints_count {
            true => sign,
            false => format!("{sign}, but the namespaces are the machine's own"),
        });
    }
    for (_, sign) in groups {
        finding = finding.line(sign);
    }
    if !own.is_empty() {
        finding = finding.line(format!("namespaces of its own: {}", own.join(", ")));
    }
    finding
        .fact("container", is_in)
        .fact("container_engine", whose.unwrap_or_else(|| "none".into()))
}

/// Whether this process is in another namespace than the machine's first one. None if that cannot
/// be determined.
fn is_other(machine: &Machine, name: &str, first: u64) -> Option<bool> {
    let link = machine.link(&format!("/proc/self/ns/{name}")).ok()?;
    let number = link.to_str()?.strip_prefix(name)?.strip_prefix(":[")?.strip_suffix(']')?;
    Some(number.parse() != Ok(first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use crate::testing::Tree;

    #[test]
    fn signs_are_put_together() {
        let tree = Tree::new("container");
        tree.link("proc/self/ns/pid", "pid:[4026531836]");
        tree.file("proc/self/cgroup", "0::/user.slice/user-1000.slice\n");
        assert_eq!(judge(&tree.machine(), None).verdict, Verdict::Ok);
        tree.file(
            "proc/self/cgroup",
            "0::/kubepods.slice/kubepods-burstable.slice/cri-containerd-7.scope\n",
        );
        assert!(judge(&tree.machine(), None).found.contains("(Kubernetes)"));
        // As with `docker run --pid=host`.
        tree.link("proc/self/ns/uts", "uts:[4026532501]");
        tree.file(".dockerenv", "");
        let docker = judge(&tree.machine(), Some("oci"));
        assert!(docker.found.contains("(Docker)"), "{}", docker.found);
        assert_eq!(docker.lines.len(), 4, "{:?}", docker.lines);
    }

    #[test]
    fn what_an_image_has_left_on_a_machine_is_no_container() {
        let tree = Tree::new("container-left");
        tree.file(".dockerenv", "");
        assert_eq!(
            judge(&tree.machine(), None).verdict,
            Verdict::Note,
            "nothing speaks against it"
        );
        tree.link("proc/self/ns/pid", "pid:[4026531836]");
        tree.link("proc/self/ns/uts", "uts:[4026531838]");
        let finding = judge(&tree.machine(), None);
        assert_eq!(finding.verdict, Verdict::Ok);
        assert!(finding.lines[0].ends_with("the namespaces are the machine's own"));
    }

    #[test]
    fn a_namespace_of_processes_is_enough() {
        let tree = Tree::new("container-ns");
        tree.link("proc/self/ns/pid", "pid:[4026532500]");
        let finding = judge(&tree.machine(), None);
        assert_eq!(finding.verdict, Verdict::Note);
        assert_eq!(finding.lines, ["namespaces of its own: pid"]);
    }
}
