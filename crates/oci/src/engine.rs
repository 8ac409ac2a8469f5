//! The names that engines give to their containers, and the sandboxes of their pods.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::bundle::Document;

/// Annotations in which engines store a container's name.
const ANNOTATIONS: [&str; 4] = [
    "io.kubernetes.cri.container-name",
    "io.kubernetes.container.name",
    "io.kubernetes.cri-o.ContainerName",
    "nerdctl/name",
];

/// Annotations in which engines store the Kubernetes container type and the id of the pod's
/// sandbox: containerd's and CRI-O's.
const PODS: [[&str; 2]; 2] = [
    ["io.kubernetes.cri.container-type", "io.kubernetes.cri.sandbox-id"],
    ["io.kubernetes.cri-o.ContainerType", "io.kubernetes.cri-o.SandboxID"],
];

/// The id of the sandbox of a container's pod; `None` for the sandbox itself.
pub fn sandbox_of(bundle: &Document) -> Option<&str> {
    let of = |[kind, sandbox]: &[&str; 2]| match bundle.annotation(kind) {
        Some("container") => bundle.annotation(sandbox),
        _ => None,
    };
    PODS.iter().find_map(of)
}

/// The name of a container, if its engine gave it one.
pub fn name_of(bundle: &Document) -> Option<String> {
    ANNOTATIONS
        .iter()
        .find_map(|name| bundle.annotation(name))
        .map(str::to_owned)
        .or_else(named_by_conmon)
        .or_else(|| named_by_docker(bundle.source_of("/etc/hostname")?))
}

/// The name that Podman and CRI-O pass to their monitor, which called us: `conmon … -n NAME`.
fn named_by_conmon() -> Option<String> {
    let parent = nix::unistd::getppid();
    let words = fs::read(format!("/proc/{parent}/cmdline")).ok()?;
    let words: Vec<_> = words.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    let program = Path::new(words.first()?.as_ref()).file_name()?.to_owned();
    if program != "conmon" {
        return None;
    }
    let at = words.iter().position(|word| word == "-n" || word == "--name")?;
    words.get(at + 1).map(|name| name.clone().into_owned())
}

/// The name that Docker stores beside the file that it mounts as /etc/hostname.
fn named_by_docker(hostname: &Path) -> Option<String> {
    let text = fs::read(hostname.with_file_name("config.v2.json")).ok()?;
    let state: Value = serde_json::from_slice(&text).ok()?;
    state["Name"].as_str().map(|name| name.trim_start_matches('/').to_owned())
}
