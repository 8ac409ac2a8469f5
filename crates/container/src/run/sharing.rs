//! Timelines that containers share.
//!
//! A supervisor can follow the programs of its own user namespace and of those below it. A
//! container that shares the timeline of another therefore enters the other's user namespace
//! instead of creating one.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use eigentime_supervisor::control::protocol::Method;
use eigentime_supervisor::control::{Shown, client};
use eigentime_supervisor::registry::{Name, Registry};
use nix::fcntl::Flock;
use nix::unistd::Pid;

use crate::error::Error;
use crate::host::state::{Hold, lock};

/// Permission to start a container in a timeline: a container that creates it has done so before
/// the next one looks for it.
pub struct Lock {
    path: PathBuf,
    _lock: Flock<File>,
}

impl Lock {
    /// Waits for the permission.
    ///
    /// # Errors
    ///
    /// If the lock fails.
    pub fn take(state: &Path, timeline: &Name) -> Result<Self, Error> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(state);
        made.map_err(Error::file("make", state))?;
        let path = state.join(format!(".timeline-{timeline}"));
        Ok(Self { _lock: lock(&path, Hold::Alone)?, path })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A leftover file does no harm.
        let _ = fs::remove_file(&self.path);
    }
}

/// The supervisor of a timeline, if there is one.
#[must_use]
pub fn supervisor(timeline: &Name) -> Option<Pid> {
    // Errors are reported when the container joins it.
    let registry = Registry::existing().ok()??;
    let shown: Shown = client::call(&registry, timeline, Method::Show {}).ok()?;
    Some(Pid::from_raw(shown.timeline.supervisor))
}
