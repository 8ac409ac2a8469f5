//! What differs from engine to engine.

use std::env;
use std::path::{Path, PathBuf};

use super::{containerd, docker, podman};

/// An engine that starts containers by calling an OCI runtime.
pub struct Engine {
    /// What it is called.
    pub name: &'static str,
    /// Its programs, the one that tells the version first.
    pub programs: &'static [&'static str],
    /// The file that the entry is put into.
    pub file: fn(&Caller) -> Option<PathBuf>,
    /// What a file is made of that is not there yet, if that can be known.
    pub(super) fresh: fn() -> Option<String>,
    /// Lets the entry name a runtime.
    pub(super) add: fn(&str, &str) -> Result<String, Unusable>,
    /// Takes the entry out.
    pub(super) remove: fn(&str) -> Result<String, Unusable>,
    /// The runtime that the entry names.
    pub(super) entry: fn(&str) -> Result<Option<String>, Unusable>,
    /// Does this text make the entry's runtime the default one?
    pub(super) is_default: fn(&str) -> Result<bool, Unusable>,
    /// What has to be done for an added entry to take effect.
    pub once_added: &'static str,
    /// What has to be done for the engine to forget an entry.
    pub once_removed: &'static str,
    /// How the entry is used.
    pub usage: &'static str,
    /// What else a caller should know if the entry is in this file, with this text.
    pub caution: fn(&Caller, &Path, &str) -> Option<String>,
}

/// Every engine there is an entry for.
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
        once_removed: "To take effect: systemctl restart docker (a reload forgets no runtime)",
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

/// Who sets up an engine: what decides where its file is.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// Root, for whom engines have other files.
    pub is_root: bool,
    /// The user's home.
    pub home: Option<PathBuf>,
    /// Where the user keeps settings, if elsewhere than in `.config`.
    pub config_home: Option<PathBuf>,
    /// The only file that podman reads, if there is to be only one.
    pub containers_conf: Option<PathBuf>,
}

impl Caller {
    /// Whoever runs this process.
    pub fn this() -> Self {
        let path = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Self {
            is_root: nix::unistd::geteuid().is_root(),
            home: path("HOME"),
            config_home: path("XDG_CONFIG_HOME"),
            containers_conf: path("CONTAINERS_CONF"),
        }
    }

    /// A file of an ordinary user's settings.
    pub(super) fn own(&self, file: impl AsRef<Path>) -> Option<PathBuf> {
        let folder = self.config_home.clone();
        let folder = folder.or_else(|| self.home.as_ref().map(|home| home.join(".config")));
        folder.map(|folder| folder.join(file))
    }
}

/// Why a text can have no entry.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// It is not in the form that it should be in.
    #[error(", line {line}, column {column}: {what}\nhelp: mend that first; nothing was written")]
    Malformed {
        /// The line, from 1.
        line: usize,
        /// The character in it, from 1.
        column: usize,
        /// What is expected, or wrong.
        what: String,
    },
    /// There is something else where the entries are to be.
    #[error(": `{0}` is no table of settings\nhelp: mend that first; nothing was written")]
    NoTable(String),
    /// The entry is to be taken out, and the engine would look for it.
    #[error(
        ": eigentime is the default runtime there, and {0} would not find it\n\
         help: name another default first; nothing was written"
    )]
    Default(&'static str),
    /// A form of the file that is newer than this command, or none at all.
    #[error(
        " says version = {0}, and {known} is the newest that is known here\n\
         help: add the entry by hand; nothing was written",
        known = containerd::NEWEST
    )]
    Version(String),
}
