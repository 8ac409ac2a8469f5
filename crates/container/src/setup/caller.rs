//! The user who sets up an engine.

use std::env;
use std::path::{Path, PathBuf};

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
