//! What can stand in the way of an end.

use std::fmt;
use std::io;

use rustix::io::Errno;

use super::End;

/// Why an end cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such namespace.
    #[error(
        "there is no network namespace '{namespace}' ({tried}: {error}): `ip netns` lists them; a \
         path or the id of a process will do, too"
    )]
    NoNamespace {
        /// As it was asked for.
        namespace: String,
        /// Where it was looked for.
        tried: String,
        /// Why it is not there.
        error: io::Error,
    },
    /// There is no such interface.
    #[error("there is no interface {end}; there are: {others}")]
    NoInterface {
        /// As it was asked for.
        end: End,
        /// What there is instead.
        others: String,
    },
    /// It is down.
    #[error("the interface {end} is down: `ip link set dev {} up`, and its peer too", end.interface)]
    Down {
        /// The interface.
        end: End,
    },
    /// It is not one that carries Ethernet frames.
    #[error("the interface {end} carries no Ethernet frames: take a veth, or a network card's")]
    NotEthernet {
        /// The interface.
        end: End,
    },
    /// It is not allowed.
    #[error("{what} of {end} is not allowed: it needs {needs}; run it as root")]
    NotAllowed {
        /// What was to be done.
        what: What,
        /// To what.
        end: End,
        /// What would help.
        needs: &'static str,
    },
    /// Something else failed.
    #[error("{what} of {end} failed: {error}")]
    Failed {
        /// What was to be done.
        what: What,
        /// To what.
        end: End,
        /// Why not.
        error: io::Error,
    },
    /// It has gone while it was used.
    #[error("the interface {end} has gone or was put down while the path was up: {error}")]
    Gone {
        /// The interface.
        end: End,
        /// What the kernel says.
        error: io::Error,
    },
}

/// What is done with an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Going into its namespace.
    Namespace,
    /// A packet socket.
    Socket,
    /// What the interface is.
    Interface,
    /// The ring that packets come in.
    Ring,
    /// Room for much that is under way.
    Buffers,
    /// The switches of its offloads.
    Offloads,
}

impl What {
    /// The capability that it needs.
    fn needs(self) -> &'static str {
        match self {
            Self::Namespace => "CAP_SYS_ADMIN",
            Self::Socket | Self::Interface | Self::Ring => "CAP_NET_RAW",
            Self::Buffers | Self::Offloads => "CAP_NET_ADMIN",
        }
    }

    /// What has stood in its way.
    pub(super) fn error(self, end: &End, error: impl Into<io::Error>) -> Error {
        let (what, end, error) = (self, end.clone(), error.into());
        match Errno::from_io_error(&error) {
            Some(Errno::PERM | Errno::ACCESS) => {
                Error::NotAllowed { what, end, needs: self.needs() }
            }
            _ => Error::Failed { what, end, error },
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Namespace => "entering the namespace",
            Self::Socket => "a packet socket",
            Self::Interface => "a look at the interface",
            Self::Ring => "a ring for packets",
            Self::Buffers => "a large buffer for the socket",
            Self::Offloads => "switching offloads",
        })
    }
}
