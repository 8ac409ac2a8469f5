//! The user who sets up an engine.

use std::env;
use std::path::{Path, PathBuf};

/// The properties of the user who sets up an engine that determine the location of its file.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// Whether it is root, for whom engines have other files.
    pub is_root: bool,
    /// The user's home directory.
    pub home: Option<PathBuf>,
    /// The user's directory of settings, if not `.config`.
    pub config_home: Option<PathBuf>,
    /// The only file that podman reads, if so configured.
    pub containers_conf: Option<PathBuf>,
}

impl Caller {
    /// The user of this process.
    pub fn this() -> Self {
        let path = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Self {
            is_root: nix::unistd::geteuid().is_root(),
            home: path("HOME"),
            config_home: path("XDG_CONFIG_HOME"),
            containers_conf: path("CONTAINERS_CONF"),
        }
    }

    /// A file among an ordinary user's settings.
    pub(super) fn own(&self, file: impl AsRef<Path>) -> Option<PathBuf> {
        let folder = self.config_home.clone();
        let folder = folder.or_else(|| self.home.as_ref().map(|home| home.join(".config")));
        folder.map(|folder| folder.join(file))
    }
}
