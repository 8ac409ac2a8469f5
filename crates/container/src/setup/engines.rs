//! The differences between engines.

use std::path::{Path, PathBuf};

use super::{Caller, Unusable, containerd, docker, podman};

/// An engine that starts containers by calling an OCI runtime.
pub struct Engine {
    /// Its name.
    pub name: &'static str,
    /// Its programs; the first one reports the version.
    pub programs: &'static [&'static str],
    /// The file of the entry.
    pub file: fn(&Caller) -> Option<PathBuf>,
    /// The initial text of a new file, if known.
    pub(super) fresh: fn() -> Option<String>,
    /// Sets the entry to a runtime.
    pub(super) add: fn(&str, &str) -> Result<String, Unusable>,
    /// Removes the entry.
    pub(super) remove: fn(&str) -> Result<String, Unusable>,
    /// The runtime that the entry names.
    pub(super) entry: fn(&str) -> Result<Option<String>, Unusable>,
    /// Whether this text makes the entry's runtime the default.
    pub(super) is_default: fn(&str) -> Result<bool, Unusable>,
    /// The action needed for an added entry to take effect.
    pub once_added: &'static str,
    /// The action needed for the engine to forget an entry.
    pub once_removed: &'static str,
    /// How the entry is used.
    pub usage: &'static str,
    /// Further advice for a caller if the entry is in this file, with this text.
    pub caution: fn(&Caller, &Path, &str) -> Option<String>,
}

/// Every supported engine.
pub const ENGINES: [Engine; 3] = [
    Engine {
        name: "podman",
        programs: &["podman"],
        file: podman::file,
        fresh: podman::fresh,
        add: podman::add,
        remove: podman::remove,
        entry: podman::entry,
        is_default: podman::is_default,
        once_added: "Takes effect at once: podman reads this file whenever it starts.",
        once_removed: "Containers that were made with the entry can no longer be started.",
        usage: "Use: podman --runtime eigentime run --annotation io.eigentime.date=2038-01-19 IMAGE ...",
        caution: podman::caution,
    },
    Engine {
        name: "docker",
        programs: &["dockerd", "docker"],
        file: |_| Some(PathBuf::from("/etc/docker/daemon.json")),
        fresh: || Some("{}\n".to_owned()),
        add: docker::add,
        remove: docker::remove,
        entry: docker::entry,
        is_default: docker::is_default,
        once_added: "To take effect: systemctl reload docker (or SIGHUP to dockerd)",
        once_removed: "To take effect: systemctl restart docker (a reload does not remove runtimes)",
        usage: "Use: docker run --runtime eigentime --annotation io.eigentime.date=2038-01-19 IMAGE ...",
        caution: |_, _, _| None,
    },
    Engine {
        name: "containerd",
        programs: &["containerd"],
        file: |_| Some(PathBuf::from("/etc/containerd/config.toml")),
        fresh: containerd::fresh,
        add: containerd::add,
        remove: containerd::remove,
        entry: containerd::entry,
        is_default: containerd::is_default,
        once_added: "To take effect: systemctl restart containerd",
        once_removed: "To take effect: systemctl restart containerd",
        usage: "Use: a Kubernetes RuntimeClass with handler: eigentime. ctr needs no entry:\n\
                ctr run --runc-binary PATH --annotation io.eigentime.date=2038-01-19 IMAGE ...",
        caution: containerd::caution,
    },
];
