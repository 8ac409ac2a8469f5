//! Levels of this host: itself, a time namespace, a container.
//!
//! Namespaces are entered by `eigentime bench enter`, which needs a single-threaded process. It
//! becomes the probe, or the runtime that starts it: nothing traces the probe, and no filter
//! inspects its system calls, as they would in a timeline.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use super::process::{self, Group};
use super::rootfs::Rootfs;
use super::{Channel, Level, Tools, Unavailable};
use crate::stop::Stop;

/// The offset of the monotonic clocks in a namespace: one day, in `eigentime`'s notation. It is not
/// zero so that the kernel has to add it to every reading.
const OFFSET: &str = "+1d";

/// The folder for loads inside a container.
const FOLDER: &str = "/load";

/// The probe inside a container.
const PROBE: &str = "/eigentime-probe";

/// The kind of level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The host itself.
    Baseline,
    /// A time namespace, and a user namespace if the user is not root.
    Namespace,
    /// All eight namespaces, with a file system that contains only the probe.
    Container,
}

/// A level of this host.
#[derive(Debug)]
pub struct Local {
    place: Place,
    tools: Tools,
}

impl Local {
    /// A level of this kind.
    #[must_use]
    pub fn new(place: Place, tools: &Tools) -> Self {
        Self { place, tools: tools.clone() }
    }

    fn command(&self, rootfs: Option<&Path>) -> Command {
        let probe = self.tools.probe.as_os_str();
        if self.place == Place::Baseline {
            let mut command = Command::new(probe);
            command.arg("serve");
            return command;
        }
        let mut command = Command::new(&self.tools.eigentime);
        command.args(["bench", "enter", "--monotonic", OFFSET, "--boottime", OFFSET]);
        if let Some(rootfs) = rootfs {
            let mut volume = OsString::from(&self.tools.folder);
            volume.push(":");
            volume.push(FOLDER);
            command.arg("--rootfs").arg(rootfs).arg("--volume").arg(volume);
        }
        command.arg("--").arg(if rootfs.is_some() { PROBE.as_ref() } else { probe }).arg("serve");
        command
    }
}

impl Level for Local {
    fn name(&self) -> &str {
        match self.place {
            Place::Baseline => "baseline",
            Place::Namespace => "namespace",
            Place::Container => "container",
        }
    }

    fn folder(&self) -> &Path {
        match self.place {
            Place::Container => FOLDER.as_ref(),
            Place::Baseline | Place::Namespace => &self.tools.folder,
        }
    }

    fn open(&self, _: &Stop) -> Result<Channel, Unavailable> {
        let rootfs = match self.place {
            Place::Container => Some(Rootfs::with(&self.tools.probe, PROBE)?),
            Place::Baseline | Place::Namespace => None,
        };
        let command = self.command(rootfs.as_ref().map(Rootfs::path));
        let mut channel = process::start(command, Group::Own)?;
        let isolated = match self.place {
            Place::Baseline => None,
            Place::Namespace if is_root() => Some("time"),
            Place::Namespace => Some("time, user"),
            Place::Container => Some("cgroup, ipc, mount, network, pid, time, user, uts"),
        };
        if let Some(namespaces) = isolated {
            channel.notes.insert("namespaces".into(), namespaces.into());
            channel.notes.insert("clock_offsets".into(), OFFSET.into());
        }
        // Dropped in this order: the process, then its file system.
        channel.held = Box::new((channel.held, rootfs));
        Ok(channel)
    }
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}
