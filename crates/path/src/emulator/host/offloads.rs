//! What an interface does on its own to what it receives, switched off while the path is up.
//!
//! What is put together from several packets (GRO, LRO) would come as one, late. That the *senders*
//! leave it to their cards to cut packets up is not switched off: they are not ours, and
//! [`segments`](super::segments()) does it for them.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use serde::Serialize;

use super::End;
use super::calls::ethtool;
use super::error::{Error, What};

/// Something that an interface does on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Offload {
    /// Generic receive offload.
    Gro,
    /// Large receive offload.
    Lro,
}

/// How it is asked for and set, of linux/ethtool.h: the two commands, and its bit.
const SWITCHES: [(Offload, u32, u32, u32); 2] = [
    // ETHTOOL_GGRO, ETHTOOL_SGRO.
    (Offload::Gro, 0x2b, 0x2c, 1),
    // ETHTOOL_GFLAGS, ETHTOOL_SFLAGS, ETH_FLAG_LRO.
    (Offload::Lro, 0x25, 0x26, 1 << 15),
];

impl Offload {
    /// Its name, as `ethtool -K` has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gro => "gro",
            Self::Lro => "lro",
        }
    }
}

/// Offloads that have been switched off, and are on again when this is dropped.
#[derive(Debug)]
pub struct Offloads {
    socket: OwnedFd,
    end: End,
    switched: Vec<Offload>,
}

impl Offloads {
    /// Switches all off that are on.
    ///
    /// # Errors
    /// If one cannot be: those before it are on again.
    pub(super) fn switch_off(socket: impl AsFd, end: &End) -> Result<Self, Error> {
        let fail = |error| What::Offloads.error(end, error);
        let socket = socket.as_fd().try_clone_to_owned().map_err(fail)?;
        let mut it = Self { socket, end: end.clone(), switched: Vec::new() };
        for (offload, get, set, bit) in SWITCHES {
            let name = &end.interface;
            let now = match ethtool(&it.socket, name, get, 0) {
                Ok(now) => now,
                // It has none.
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

    /// Those that were on.
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
                // With the interface it has gone.
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
