//! Restores a checkpoint.
//!
//! CRIU leaves the processes stopped: they execute no instruction before they have their clocks.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use eigentime_supervisor::control::Attached;
use eigentime_supervisor::{Onto, match_version};
use serde::Serialize;

use crate::criu::{JOIN, join_option, known, outcome, place_for_log};
use crate::directory::{Manifest, OWN, Scratch, link_images};
use crate::hold::Hold;
use crate::requested::{Destination, Requested};
use crate::script::Calls;
use crate::{Criu, Error, contained, nanos, processor, trust};

/// The log of a restore.
pub const RESTORE_LOG: &str = "restore.log";

/// How a checkpoint is restored.
pub struct Restoring<'a> {
    /// Its directory.
    pub directory: &'a Path,
    /// The clocks with which it resumes.
    pub requested: &'a Requested,
    /// The CRIU command.
    pub criu: &'a Criu,
    /// More arguments for it.
    pub arguments: &'a [OsString],
    /// The command lines with which this command calls itself.
    pub calls: &'a Calls,
}

/// What a restored checkpoint has become.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Restored {
    /// Processes.
    Processes(Resumed),
    /// A container.
    Container {
        /// Its name or ID.
        container: String,
    },
}

/// Processes that have been restored.
#[derive(Clone, Debug, Serialize)]
pub struct Resumed {
    /// The first process.
    pub pid: i32,
    /// The timeline.
    pub timeline: String,
    /// How long its clocks are slewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slewed_ns: Option<u64>,
    /// All processes.
    pub processes: Vec<Attached>,
    /// Notes for the user.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Restores a checkpoint.
///
/// # Errors
///
/// If it cannot be restored; then none of its processes exists.
pub fn restore(restoring: &Restoring<'_>) -> Result<Restored, Error> {
    let directory = trust::check(restoring.directory)?;
    match contained::read(&directory)? {
        Some(known) => {
            let Restoring { requested, criu, arguments, .. } = *restoring;
            contained::restore(&known, requested, criu, arguments, &directory)?;
            Ok(Restored::Container { container: known.container })
        }
        None => restore_processes(restoring, &directory).map(Restored::Processes),
    }
}

fn restore_processes(restoring: &Restoring<'_>, directory: &Path) -> Result<Resumed, Error> {
    let Restoring { requested, criu, arguments, calls, .. } = *restoring;
    let Destination { timeline, onto } = requested.destination()?;
    let Manifest { made, moved, instructions, .. } = Manifest::read(directory, OWN)?;
    moved.check()?;
    let pid = made.root;
    let name = match (timeline, &made.timeline) {
        (Some(name), _) => name,
        (None, Some(name)) => name.parse().map_err(Error::Subject)?,
        (None, None) => pid.to_string().parse().map_err(Error::Subject)?,
    };
    if let Onto::Existing = onto {
        match_version(&name)?;
    }
    let images = directory.join(OWN.images);
    let place = Scratch(place_for_log()?);
    let hold = Hold::new(&place.0, calls)?;
    let log = place.0.join(RESTORE_LOG);
    let linked = place.0.join(OWN.images);
    fs::create_dir(&linked).map_err(Error::file("make", &linked))?;
    let withheld = link_images(&images, &images, &linked, &moved, &[])?;
    let mut all =
        ["restore", "--file-locks", "--leave-stopped", "-d", "-D"].map(OsStr::new).to_vec();
    all.extend([linked.as_os_str(), OsStr::new("--action-script"), hold.script.as_os_str()]);
    all.extend(made.shell_job.then_some(OsStr::new("--shell-job")));
    let time = match onto {
        Onto::New(_) => None,
        Onto::Existing => Some(format!("--{JOIN}={}", join_option(&name)?)),
    };
    all.extend(time.as_ref().map(OsStr::new));
    let failed = |error| Error::file("run", Path::new("criu"))(error);
    let child = criu.start(&all, arguments, &log).map_err(failed)?;
    let held = hold.wait(&child)?;
    let Some(held) = held else {
        let reason = outcome(child, &log).map_err(failed)?;
        let reason = reason.err().unwrap_or_else(|| "it has not run the script".to_owned());
        place.keep();
        return Err(not_restored(format!("process {pid}"), reason, log));
    };
    let processes = held.bring_into(&name, onto, &moved, &withheld, None);
    let slewed = match onto {
        Onto::New(clocked) => moved.slews_for(&clocked),
        Onto::Existing => None,
    };
    // The processes exist, or have been ended, whatever CRIU's outcome is.
    outcome(child, &log).map_err(failed)?.ok();
    let processes = processes?;
    let slewed_ns = slewed.map(nanos);
    let notes = processor::notes_on(&instructions);
    Ok(Resumed { pid, timeline: name.to_string(), slewed_ns, processes, notes })
}

/// The error for what CRIU could not restore.
pub fn not_restored(what: String, reason: String, log: PathBuf) -> Error {
    Error::NotRestored { what, help: help_with(&reason), reason, log }
}

/// What to do about the most frequent reasons.
fn help_with(reason: &str) -> &'static str {
    const HELP: [(&str, &str); 5] = [
        ("Connected TCP socket", "it has TCP connections: add --criu-arg=--tcp-established"),
        (
            "Can't fork for",
            "that process ID is in use; restore it in another PID namespace (unshare --pid --fork \
             --mount-proc)",
        ),
        (
            "Unable to restore capabilities",
            "root lacks a capability here that the program has, such as CAP_SYS_RESOURCE in a container",
        ),
        ("has bad size", "the files that it has open must be unchanged"),
        (
            "Cannot apply seals on memfd",
            "the program has memory with a seal that this kernel does not support; restore it on a \
             kernel at least as new as the one on which it was written",
        ),
    ];
    known(reason, &HELP).unwrap_or("the files, sockets and terminals that it had open must exist")
}
