//! The errors of an end.

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
        /// The namespace as given.
        namespace: String,
        /// The places searched.
        tried: String,
        /// The system's error.
        error: io::Error,
    },
    /// There is no such interface.
    #[error("there is no interface {end}; there are: {others}")]
    NoInterface {
        /// The end as given.
        end: End,
        /// The interfaces that exist.
        others: String,
    },
    /// It is down.
    #[error("the interface {end} is down: `ip link set dev {} up`, and its peer too", end.interface)]
    Down {
        /// The interface.
        end: End,
    },
    /// It does not carry Ethernet frames.
    #[error("the interface {end} carries no Ethernet frames: take a veth, or a network card's")]
    NotEthernet {
        /// The interface.
        end: End,
    },
    /// The operation is not permitted.
    #[error("{what} of {end} is not allowed: it needs {needs}; run it as root")]
    NotAllowed {
        /// The operation.
        what: What,
        /// The end.
        end: End,
        /// The required privilege.
        needs: &'static str,
    },
    /// Another operation failed.
    #[error("{what} of {end} failed: {error}")]
    Failed {
        /// The operation.
        what: What,
        /// The end.
        end: End,
        /// The system's error.
        error: io::Error,
    },
    /// It disappeared while in use.
    #[error("the interface {end} has gone or was put down while the path was up: {error}")]
    Gone {
        /// The interface.
        end: End,
        /// The kernel's error.
        error: io::Error,
    },
}

/// An operation on an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Entering its namespace.
    Namespace,
    /// Opening a packet socket.
    Socket,
    /// Querying the interface.
    Interface,
    /// Mapping the packet ring.
    Ring,
    /// Enlarging the buffers for packets under way.
    Buffers,
    /// Switching its offloads.
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

    /// The error for this failed operation.
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
