//! Receive offloads of an interface, disabled while the path is up.
//!
//! Packets merged by GRO or LRO would arrive as one, late. Segmentation offload of the *senders* is
//! not disabled: they are not ours, and [`segments`](super::segments()) does the segmentation for
//! them.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use serde::Serialize;

use super::End;
use super::calls::ethtool;
use super::error::{Error, What};

/// An offload of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Offload {
    /// Generic receive offload.
    Gro,
    /// Large receive offload.
    Lro,
}

/// How each is queried and set, from linux/ethtool.h: the two commands, and its bit.
const SWITCHES: [(Offload, u32, u32, u32); 2] = [
    // ETHTOOL_GGRO, ETHTOOL_SGRO.
    (Offload::Gro, 0x2b, 0x2c, 1),
    // ETHTOOL_GFLAGS, ETHTOOL_SFLAGS, ETH_FLAG_LRO.
    (Offload::Lro, 0x25, 0x26, 1 << 15),
];

impl Offload {
    /// Its name in `ethtool -K`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gro => "gro",
            Self::Lro => "lro",
        }
    }
}

/// Disabled offloads, which are enabled again when this is dropped.
#[derive(Debug)]
pub struct Offloads {
    socket: OwnedFd,
    end: End,
    switched: Vec<Offload>,
}

impl Offloads {
    /// Disables all that are on.
    ///
    /// # Errors
    /// If one cannot be disabled: those before it are on again.
    pub(super) fn switch_off(socket: impl AsFd, end: &End) -> Result<Self, Error> {
        let fail = |error| What::Offloads.error(end, error);
        let socket = socket.as_fd().try_clone_to_owned().map_err(fail)?;
        let mut it = Self { socket, end: end.clone(), switched: Vec::new() };
        for (offload, get, set, bit) in SWITCHES {
            let name = &end.interface;
            let now = match ethtool(&it.socket, name, get, 0) {
                Ok(now) => now,
                // The interface does not have it.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::OPNOTSUPP) => continue,
                Err(error) => return Err(fail(error)),
            };
            if now & bit != 0 {
                ethtool(&it.socket, name, set, now & !bit).map_err(fail)?;
                it.switched.push(offload);
            }
        }
        Ok(it)
    }

    /// The offloads that were on.
    #[must_use]
    pub fn switched(&self) -> &[Offload] {
        &self.switched
    }
}

impl Drop for Offloads {
    fn drop(&mut self) {
        for (offload, get, set, bit) in SWITCHES {
            if !self.switched.contains(&offload) {
                continue;
            }
            let name = &self.end.interface;
            let restored = ethtool(&self.socket, name, get, 0)
                .and_then(|now| ethtool(&self.socket, name, set, now | bit));
            match restored {
                Ok(_) => {}
                // The interface is gone, and its setting with it.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::NODEV) => {}
                Err(error) => eprintln!(
                    "eigentime-path: {} of {} could not be switched on again ({error}): \
                     `ethtool -K {name} {} on`",
                    offload.name(),
                    self.end,
                    offload.name()
                ),
            }
        }
    }
}
