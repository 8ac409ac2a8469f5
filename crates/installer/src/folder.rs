//! Which folders of a node are acceptable. The chart's `values.schema.json` has the same rules.

use std::path::{Path, PathBuf};

/// The contents of these are lost when the node restarts.
const VOLATILE: [&str; 7] = ["/dev", "/proc", "/run", "/sys", "/tmp", "/var/run", "/var/tmp"];

/// These belong to the system or to everyone, but a subfolder is acceptable.
const SHARED: [&str; 33] = [
    "/etc/containerd",
    "/etc/kubernetes",
    "/etc/opt",
    "/etc/systemd",
    "/opt/bin",
    "/opt/cni",
    "/opt/cni/bin",
    "/usr/bin",
    "/usr/include",
    "/usr/lib",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/local",
    "/usr/local/bin",
    "/usr/local/etc",
    "/usr/local/lib",
    "/usr/local/libexec",
    "/usr/local/sbin",
    "/usr/local/share",
    "/usr/sbin",
    "/usr/share",
    "/usr/src",
    "/var/cache",
    "/var/lib",
    "/var/lib/containerd",
    "/var/lib/containers",
    "/var/lib/etcd",
    "/var/lib/kubelet",
    "/var/local",
    "/var/log",
    "/var/mail",
    "/var/opt",
    "/var/spool",
];

/// A check for an unacceptable folder.
type IsWrong = fn(&str) -> bool;

/// The reasons to reject a folder.
const REASONS: [(IsWrong, &str); 5] = [
    (|folder| !folder.starts_with('/'), "it is not absolute"),
    (
        |folder| !names(folder).all(is_plain),
        "its components are not all plain names (letters, digits, '-', '_', and '.' but not first)",
    ),
    (|folder| names(folder).count() < 2, "it is less than two components deep"),
    (
        |folder| VOLATILE.iter().any(|it| Path::new(folder).starts_with(it)),
        "what is there is gone when the node restarts",
    ),
    (|folder| SHARED.contains(&folder), "it is shared with others"),
];

fn names(folder: &str) -> impl Iterator<Item = &str> {
    folder.split('/').skip(1)
}

fn is_plain(name: &str) -> bool {
    let is_known = |one: char| one.is_ascii_alphanumeric() || "-_.".contains(one);
    !name.is_empty() && !name.starts_with('.') && name.chars().all(is_known)
}

/// Parses a folder and checks that it is acceptable.
///
/// # Errors
///
/// Why it is not, and which ones are.
pub fn parse(text: &str) -> Result<PathBuf, String> {
    match REASONS.iter().find(|(is_wrong, _)| is_wrong(text)) {
        None => Ok(text.into()),
        Some((_, reason)) => Err(format!(
            "{reason}\nhelp: set node.folder to a folder for Eigentime alone, such as /opt/eigentime"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_folder_of_its_own_is_taken() {
        for (folder, reason) in [
            ("/opt/eigentime", None),
            ("/var/lib/eigentime", None),
            ("/usr/local/lib/eigentime-1.0_x", None),
            ("/tmpfiles/eigentime", None),
            ("", Some("absolute")),
            ("opt/eigentime", Some("absolute")),
            ("../eigentime", Some("absolute")),
            ("/", Some("plain names")),
            ("/opt/..", Some("plain names")),
            ("/opt/./eigentime", Some("plain names")),
            ("/opt/../etc/kubernetes", Some("plain names")),
            ("/opt//eigentime", Some("plain names")),
            ("/opt/eigentime/", Some("plain names")),
            ("/opt/a b", Some("plain names")),
            ("/opt/a\"b", Some("plain names")),
            ("/opt", Some("two components")),
            ("/usr/local/bin", Some("shared")),
            ("/var/lib", Some("shared")),
            ("/run/eigentime", Some("restarts")),
            ("/var/tmp/eigentime/x", Some("restarts")),
        ] {
            let said = parse(folder);
            match reason {
                None => assert_eq!(said, Ok(folder.into())),
                Some(reason) => {
                    let said = said.unwrap_err();
                    assert!(said.contains(reason) && said.contains("help:"), "{folder}: {said}");
                }
            }
        }
    }

    #[test]
    fn the_chart_refuses_the_same() {
        let schema = include_str!("../../../deploy/kubernetes/chart/values.schema.json");
        let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
        let not = &schema["properties"]["node"]["properties"]["folder"]["not"]["anyOf"];
        assert_eq!(not[0]["pattern"], format!("^({})(/|$)", VOLATILE.join("|")));
        assert_eq!(not[1]["enum"], serde_json::json!(SHARED.as_slice()));
    }
}
