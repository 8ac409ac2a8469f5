//! The network of a container.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::unistd::{Pid, pipe};

use crate::error::Error;
use crate::program::{ends_with_caller, inherits};

/// The network of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// The host's.
    Host,
    /// A new one without a connection.
    None,
    /// A new one with a connection to the outside.
    Private,
}

const TOOL: &str = "slirp4netns";

/// The device with which slirp4netns creates its interface.
const DEVICE: &str = "/dev/net/tun";

/// The address at which slirp4netns forwards to the host's name servers.
pub(crate) const RESOLVER: &str = "nameserver 10.0.2.3\n";

/// Checks that a connected network can be created.
///
/// # Errors
///
/// Returns what is missing.
pub fn check() -> Result<(), Error> {
    let device = OpenOptions::new().read(true).write(true).open(Path::new(DEVICE));
    device.map_err(Error::NoTun)?;
    match Command::new(TOOL).arg("--version").output() {
        Err(error) if error.kind() == ErrorKind::NotFound => Err(Error::NoSlirp),
        Err(error) => Err(Error::NotConnected(error.to_string())),
        Ok(_) => Ok(()),
    }
}

/// Connects the network of a process, and returns once it is connected. It stays connected while
/// both the connection and the calling process live.
///
/// # Errors
///
/// If the connection fails.
pub fn connect(process: Pid) -> Result<Connection, Error> {
    let failed = |error: std::io::Error| Error::NotConnected(error.to_string());
    let (ready, says) = pipe().map_err(|error| failed(error.into()))?;
    let mut command = Command::new(TOOL);
    command
        .args(["--configure", "--mtu=65520", "--disable-host-loopback", "--netns-type=path"])
        .arg(format!("--ready-fd={}", says.as_raw_fd()))
        .arg(format!("/proc/{process}/ns/net"))
        .arg("tap0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    ends_with_caller(&mut command);
    inherits(&mut command, says.as_raw_fd());
    let mut child = command.spawn().map_err(failed)?;
    drop(says);
    if is_ready(ready) {
        return Ok(Connection(child));
    }
    let mut said = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut said).map_err(failed)?;
    }
    let status = child.wait().map_err(failed)?;
    Err(Error::NotConnected(format!("{} ({status})", said.trim())))
}

fn is_ready(ready: OwnedFd) -> bool {
    let mut word = [0];
    std::fs::File::from(ready).read_exact(&mut word).is_ok()
}

/// Keeps a network connected.
pub struct Connection(Child);

impl Drop for Connection {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
