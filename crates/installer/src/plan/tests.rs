//! Tests on configuration trees of each distribution: what is written, and that everything is
//! undone byte for byte.

use std::path::Path;

use super::*;
use crate::record::Record;
use crate::scratch::Scratch;

const RUNTIME: &str = "/opt/eigentime/current/eigentime-oci";
const K3S: &str = "/var/lib/rancher/k3s/agent/etc/containerd";
const RKE2: &str = "/var/lib/rancher/rke2/agent/etc/containerd";

const V3_ENTRY: &str = r#"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.eigentime]
runtime_type = "io.containerd.runc.v2"
pod_annotations = ["io.eigentime.*"]
container_annotations = ["io.eigentime.*"]

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.eigentime.options]
BinaryName = "/opt/eigentime/current/eigentime-oci"
"#;

/// A node, its files, and which of them change.
struct Case {
    name: &'static str,
    kubelet: &'static str,
    engine: &'static str,
    files: Vec<(String, &'static str)>,
    changed: Vec<(String, &'static [&'static str])>,
}

fn case(name: &'static str, kubelet: &'static str, engine: &'static str) -> Case {
    Case { name, kubelet, engine, files: Vec::new(), changed: Vec::new() }
}

impl Case {
    fn with(mut self, file: impl Into<String>, text: &'static str) -> Self {
        self.files.push((file.into(), text));
        self
    }

    fn changes(mut self, file: impl Into<String>, parts: &'static [&'static str]) -> Self {
        self.changed.push((file.into(), parts));
        self
    }
}

const MAIN: &str = "/etc/containerd/config.toml";
const DROP_IN_2: &str = "/etc/containerd/conf.d/eigentime.toml";

const V2_MAIN: &str = r#"version = 2
# kept
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.k8s.io/pause:3.8"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = true
"#;

const V3_RUNC: &str = r#"version = 3
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  SystemdCgroup = true
"#;

fn cases() -> Vec<Case> {
    let v2 = "BinaryName = \"/opt/eigentime/current/eigentime-oci\"\nSystemdCgroup = true";
    let v2: &'static [&'static str] = Box::leak(Box::new([&*v2.to_owned().leak()]));
    vec![
        case("containerd 2 imports the folder", "v1.36.3", "containerd://2.4.2")
            .with(MAIN, "version = 3\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n")
            .changes(DROP_IN_2, &["version = 3\n", V3_ENTRY]),
        case("containerd 2 imports another folder", "v1.33.0", "containerd://2.0.0")
            .with(MAIN, "version = 3\nimports = [\"more/*.toml\"]\n")
            .changes("/etc/containerd/more/eigentime.toml", &[V3_ENTRY]),
        case("containerd 2 imports nothing", "v1.33.0", "containerd://2.1.4")
            .with(MAIN, "# first\nversion = 3 # second\n\n[debug]\n  level = \"info\"\n")
            .changes(DROP_IN_2, &[V3_ENTRY])
            .changes(MAIN, &[
                "# first\nversion = 3 # second\n",
                "imports = [\"/etc/containerd/conf.d/eigentime.toml\"]\n",
                "\n[debug]\n  level = \"info\"\n",
            ]),
        case("containerd 2 imports a file", "v1.33.0", "containerd://2.1.4")
            .with(MAIN, "version = 2\nimports = [\n  \"/etc/other.toml\", # why\n]\n")
            .with("/etc/other.toml", "version = 2\n")
            .changes(DROP_IN_2, &[V3_ENTRY])
            .changes(MAIN, &["\"/etc/other.toml\"", "/etc/containerd/conf.d/eigentime.toml", "# why"]),
        case("containerd 2 and systemd in a drop-in", "v1.33.0", "containerd://2.1.4")
            .with(MAIN, "version = 3\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n")
            .with("/etc/containerd/conf.d/10-runc.toml", V3_RUNC)
            .changes(DROP_IN_2, &["SystemdCgroup = true"]),
        case("containerd 2.4 without a file", "v1.36.3", "containerd://2.4.2")
            .changes(DROP_IN_2, &[V3_ENTRY]),
        case("containerd 2.0 without a file", "v1.33.0", "containerd://2.0.5")
            .changes(DROP_IN_2, &[V3_ENTRY])
            .changes(MAIN, &["version = 3\n", "conf.d/eigentime.toml"]),
        case("containerd 1.7", "v1.28.1", "containerd://1.7.27")
            .with(MAIN, V2_MAIN)
            .changes(MAIN, v2),
        case("containerd 1.7 with a drop-in that hides", "v1.28.1", "containerd://1.7.27")
            .with(MAIN, "version = 2\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n")
            .with("/etc/containerd/conf.d/99-nvidia.toml", V2_MAIN)
            .changes("/etc/containerd/conf.d/99-nvidia.toml", v2),
        case("containerd 1.7 without a file", "v1.28.1", "containerd://1.7.27")
            .changes(MAIN, &["version = 2\n", "runtimes.runc]", "runtimes.eigentime]"]),
        case("k3s, containerd 2", "v1.33.1+k3s1", "containerd://2.0.5-k3s1")
            .with(format!("{K3S}/config.toml"), "version = 3\n")
            .changes(format!("{K3S}/config-v3.toml.tmpl"), &[
                "{{ template \"base\" . }}\n# BEGIN eigentime-installer\n[plugins.\"io.containerd.cri.v1.runtime\"",
                "SystemdCgroup = {{ .SystemdCgroup }}\n# END eigentime-installer\n",
            ]),
        case("k3s, containerd 2, with drop-ins", "v1.34.1+k3s1", "containerd://2.1.4-k3s1")
            .with(
                format!("{K3S}/config.toml"),
                "version = 3\nimports = [\"/var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.d/*.toml\"]\n",
            )
            .changes(format!("{K3S}/config-v3.toml.d/eigentime.toml"), &["version = 3\n", V3_ENTRY]),
        case("k3s, containerd 1.7, with a template", "v1.30.1+k3s1", "containerd://1.7.15-k3s1")
            .with(format!("{K3S}/config.toml"), "version = 2\n")
            .with(format!("{K3S}/config.toml.tmpl"), "{{ template \"base\" . }}\n# mine")
            .changes(format!("{K3S}/config.toml.tmpl"), &[
                "{{ template \"base\" . }}\n# mine\n# BEGIN",
                "[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.eigentime]",
            ]),
        case("RKE2", "v1.33.1+rke2r1", "containerd://2.0.5-k3s1")
            .changes(format!("{RKE2}/config-v3.toml.tmpl"), &["{{ template \"base\" . }}"]),
        case("k0s, containerd 1.7", "v1.31.2+k0s", "containerd://1.7.22")
            .with("/etc/k0s/containerd.toml", "# k0s_managed=true\nversion = 2\n")
            .changes("/etc/k0s/containerd.d/eigentime.toml", &["version = 2\n", "grpc.v1.cri"]),
        case("k0s, containerd 2", "v1.34.1+k0s", "containerd://2.1.4")
            .changes("/etc/k0s/containerd.d/eigentime.toml", &["version = 3\n", V3_ENTRY]),
        case("CRI-O", "v1.32.1", "cri-o://1.32.1")
            .with("/etc/crio/crio.conf.d/10-crio.conf", "[crio.runtime]\n")
            .changes("/etc/crio/crio.conf.d/50-eigentime.conf", &[
                "drop_infra_ctr = false",
                "[crio.runtime.runtimes.eigentime]\nruntime_path = \"/opt/eigentime/current/eigentime-oci\"",
            ]),
    ]
}

#[test]
fn all_of_it_is_undone_byte_for_byte() {
    for (number, case) in cases().into_iter().enumerate() {
        let scratch = Scratch::new(&format!("plan-{number}"));
        let root = scratch.root();
        for (file, text) in &case.files {
            scratch.write(file, text);
        }
        let before = scratch.tree();
        let node = NodeInfo { kubelet: case.kubelet.into(), engine: case.engine.into() };
        let changes = plan(&root, &node, RUNTIME).unwrap();
        let files: Vec<_> = changes.iter().map(|change| change.file.to_str().unwrap()).collect();
        let expected: Vec<_> = case.changed.iter().map(|(file, _)| &**file).collect();
        assert_eq!(files, expected, "{}", case.name);
        for (change, (_, parts)) in changes.iter().zip(&case.changed) {
            for part in *parts {
                assert!(
                    change.text.contains(part),
                    "{}: {part:?} is not in\n{}",
                    case.name,
                    change.text
                );
            }
        }

        // All relevant folders of the node exist, so only ours is new.
        let tree = Tree::new(&root, Path::new("/opt/eigentime"));
        let lock = tree.claim().unwrap();
        let mut record = Record::default();
        let changed = record.make(&root, &tree, &changes).unwrap();
        assert_eq!(changed.len(), files.len(), "{}", case.name);
        // Nothing more is to be done.
        let again = plan(&root, &node, RUNTIME).unwrap();
        let mut record = Record::read(&tree).unwrap();
        assert_eq!(
            record.make(&root, &tree, &again).unwrap(),
            Vec::<PathBuf>::new(),
            "{}",
            case.name
        );

        // Moving it requires uninstalling.
        assert_eq!(elsewhere(&root, &again, RUNTIME).unwrap(), None, "{}", case.name);
        let other = "/data/eigentime/current/eigentime-oci";
        let moved = plan(&root, &node, other).unwrap();
        let found = elsewhere(&root, &moved, other).unwrap();
        assert_eq!(found.as_deref(), Some(Path::new("/opt/eigentime")), "{}", case.name);

        let undone = Record::read(&tree).unwrap().undo(&root).unwrap();
        assert_eq!(undone.len(), files.len(), "{}", case.name);
        drop(lock);
        assert!(tree.remove().unwrap());
        std::fs::remove_dir(root.at(Path::new("/opt"))).unwrap();
        assert_eq!(scratch.tree(), before, "{}", case.name);
    }
}

#[test]
fn what_somebody_else_has_changed_since_stays() {
    let edits: [(&str, &str, &str); 4] = [
        (MAIN, "version = 3\n[debug]\n", "containerd://2.1.4"),
        (MAIN, V2_MAIN, "containerd://1.7.27"),
        ("/etc/containerd/conf.d/x.toml", "version = 3\n", "containerd://2.4.2"),
        (
            "/var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.tmpl",
            BASE,
            "containerd://2.1.4-k3s1",
        ),
    ];
    for (number, (file, text, engine)) in edits.into_iter().enumerate() {
        let scratch = Scratch::new(&format!("edited-{number}"));
        let root = scratch.root();
        scratch.write(file, text);
        let kubelet = if engine.ends_with("k3s1") { "v1.33.1+k3s1" } else { "v1.33.1" };
        let node = NodeInfo { kubelet: kubelet.into(), engine: engine.into() };
        let tree = Tree::new(&root, Path::new("/opt/eigentime"));
        let _lock = tree.claim().unwrap();
        Record::default().make(&root, &tree, &plan(&root, &node, RUNTIME).unwrap()).unwrap();
        let written = std::fs::read_to_string(root.at(Path::new(file))).unwrap();
        scratch.write(file, &format!("{written}# mine\n"));
        // Another version of ours makes no difference.
        let mut record = Record::read(&tree).unwrap();
        record.make(&root, &tree, &plan(&root, &node, "/other/eigentime-oci").unwrap()).unwrap();
        Record::read(&tree).unwrap().undo(&root).unwrap();
        let left = std::fs::read_to_string(root.at(Path::new(file))).unwrap();
        assert_eq!(left, format!("{text}# mine\n"), "{engine}");
    }
}

#[test]
fn files_that_cannot_be_used_are_named() {
    for (file, text, kubelet, engine, reason) in [
        (
            MAIN,
            "version = 3\nimports = 7\n",
            "v1.33.0",
            "containerd://2.1.4",
            "imports is not a list",
        ),
        (MAIN, "version = [\n", "v1.33.0", "containerd://2.1.4", MAIN),
        (
            "/etc/k0s/containerd.toml",
            "version = 2\n",
            "v1.31.2+k0s",
            "containerd://1.7.22",
            "k0s_managed",
        ),
    ] {
        let scratch = Scratch::new(&format!("unusable-{}", reason.len()));
        scratch.write(file, text);
        let node = NodeInfo { kubelet: kubelet.into(), engine: engine.into() };
        let error = plan(&scratch.root(), &node, RUNTIME).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}
