//! Checkpoints of containers: their OCI runtime starts CRIU itself, and this module does what CRIU
//! leaves out around that.
//!
//! CRIU reads further options from the file named in CRIU_CONFIG_FILE, whatever starts it: our
//! script, and the option to leave restored processes stopped.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::SystemTime;

use eigentime_supervisor::container::{self, Container as Identity};
use eigentime_supervisor::registry::Name;
use eigentime_supervisor::{Onto, enter_time_of, match_version};
use nix::unistd::mkdtemp;

use crate::criu::{JOIN, join_option, place_for_log};
use crate::directory::{Made, Manifest, RUNTIME, Scratch, link_images};
use crate::dump::{Becomes, Draft, check_name, kernel};
use crate::hold::Hold;
use crate::log::{reason, text};
use crate::passes::{LOG, not_dumped, refusal, rest_of};
use crate::requested::{Destination, Requested};
use crate::restore::{RESTORE_LOG, not_restored};
use crate::script::Calls;
use crate::{Criu, Error, processor};

/// Names the file with further options for CRIU.
const OPTIONS: &str = "CRIU_CONFIG_FILE";

/// The image from which CRIU creates a time namespace for processes that had none of their own.
const CLOCKS: &str = "timens-0.img";

/// A container and its CRIU images.
#[derive(Clone, Copy)]
pub struct Container<'a> {
    /// The container.
    pub identity: &'a Identity,
    /// The directory for images that is passed to the runtime.
    pub images: &'a Path,
    /// The directory of CRIU's log, if it is another.
    pub work: Option<&'a Path>,
    /// The command lines with which this command calls itself.
    pub calls: &'a Calls,
}

impl Container<'_> {
    /// Whether it was dumped by us, or with us around its runtime.
    #[must_use]
    pub fn has_clocks(&self) -> bool {
        RUNTIME.are_in(self.images)
    }
}

/// Passes further options to the CRIU that this command starts.
fn configure(
    command: &mut Command,
    criu: &Criu,
    place: &Path,
    options: &[(&str, Option<&OsStr>)],
) -> Result<(), Error> {
    let path = place.join("criu.conf");
    let mut text = Vec::new();
    if let Some(others) = std::env::var_os(OPTIONS) {
        let others = PathBuf::from(others);
        text = fs::read(&others).map_err(Error::file("read", &others))?;
        text.push(b'\n');
    }
    for (option, value) in options {
        text.extend(option.as_bytes());
        if let Some(value) = value {
            text.push(b' ');
            text.extend(value.as_encoded_bytes());
        }
        text.push(b'\n');
    }
    fs::write(&path, text).map_err(Error::file("write", &path))?;
    criu.name_to(command)?.env(OPTIONS, &path);
    Ok(())
}

fn run(command: &mut Command) -> Result<ExitStatus, Error> {
    command.status().map_err(Error::file("run", Path::new(command.get_program())))
}

/// Makes the runtime create a checkpoint, with its clocks beside CRIU's images.
///
/// # Errors
///
/// If that cannot be started, or CRIU cannot dump it or be given the clocks. The container then
/// continues.
pub fn dump(subject: &Container<'_>, runtime: &mut Command) -> Result<ExitStatus, Error> {
    let Container { identity, images, work, calls } = *subject;
    let criu = Criu::find(None)?;
    let log = work.unwrap_or(images).join(LOG);
    let images = std::path::absolute(images).map_err(Error::file("find", images))?;
    check_name(&images)?;
    let timeline = container::timeline_of(identity)?;
    let rest = rest_of(timeline.as_ref())?;
    let place = Scratch(place_for_log()?);
    let made = Made {
        criu: criu.version.clone(),
        kernel: kernel(),
        timeline: timeline.as_ref().map(ToString::to_string),
        container: Some(identity.clone()),
        root: 0,
        shell_job: false,
    };
    let resting = rest.as_ref().map(|rest| rest.resting.clone());
    RUNTIME.forget(&images)?;
    let script =
        Draft { made, resting, becomes: Becomes::Images(images) }.write(&place.0, calls)?;
    configure(runtime, &criu, &place.0, &[("action-script", Some(script.as_os_str()))])?;
    let begun = SystemTime::now();
    let status = run(runtime)?;
    drop(rest);
    match refusal(&place.0) {
        Some(reason) => Err(Error::Subject(reason)),
        None if status.success() => Ok(status),
        None => {
            let failed = failure(&identity.id, timeline.as_ref(), &place.0, &log, begun);
            failed.map_or(Ok(status), Err)
        }
    }
}

/// Why CRIU, if it was started, could not dump a container: the runtime itself only names the log.
fn failure(
    container: &str,
    timeline: Option<&Name>,
    place: &Path,
    log: &Path,
    begun: SystemTime,
) -> Option<Error> {
    let is_new = fs::metadata(log).and_then(|it| it.modified()).is_ok_and(|at| at >= begun);
    let reason = reason(&is_new.then(|| text(log).ok())??)?;
    Some(not_dumped(format!("container {container}"), timeline, reason, place, log))
}

/// Makes the runtime write the memory of a container that will be dumped later.
///
/// # Errors
///
/// If its timeline cannot be brought to rest.
pub fn pre_dump(subject: &Container<'_>, runtime: &mut Command) -> Result<ExitStatus, Error> {
    let timeline = container::timeline_of(subject.identity)?;
    let _rest = rest_of(timeline.as_ref())?;
    run(runtime)
}

/// How a container resumes.
pub struct Onward<'a> {
    /// The container, with its current ID.
    pub subject: Container<'a>,
    /// The clocks with which it resumes. If none are requested, one that had none gets none.
    pub requested: &'a Requested,
}

/// A container whose runtime has been called to restore it.
pub struct Restarted {
    /// The exit status of the runtime.
    pub status: ExitStatus,
    /// Notes for the user.
    pub notes: BTreeSet<String>,
}

/// Makes the runtime restore a container, and brings it into a timeline before it resumes.
/// `runtime` makes the command that reads CRIU's images from a directory. Returns `None` if the
/// container uses the host's clocks.
///
/// # Errors
///
/// If it cannot be restored; then it does not exist.
pub fn restore(
    onward: &Onward<'_>,
    runtime: impl FnOnce(&Path) -> Command,
) -> Result<Option<Restarted>, Error> {
    let Container { identity, images, work, calls } = onward.subject;
    let images = std::path::absolute(images).map_err(Error::file("find", images))?;
    let Manifest { made, moved, instructions, .. } = Manifest::read(&images, RUNTIME)?;
    let Destination { timeline, onto } = onward.requested.destination()?;
    if made.timeline.is_none() && !onward.requested.any() {
        return Ok(None);
    }
    moved.check()?;
    let criu = Criu::find(None)?;
    let former = || {
        let (former, timeline) = (made.container.as_ref(), made.timeline.as_deref());
        container::name_after(identity, former, timeline)
    };
    let name = timeline.map_or_else(former, Ok)?;
    let joins = matches!(onto, Onto::Existing).then_some(&name);
    if let Some(name) = joins {
        match_version(name)?;
    }
    let place = Scratch(place_for_log()?);
    let hold = Hold::new(&place.0, calls)?;
    // CRIU reads them also from inside the container, so the links must use a path that means the
    // same there.
    let template = images.join(".eigentime-XXXXXX");
    let made = mkdtemp(&template);
    let linked = Scratch(made.map_err(|error| Error::file("make", &template)(error.into()))?);
    let withheld = link_images(&images, Path::new(".."), &linked.0, &moved, &[CLOCKS])?;
    let mut command = runtime(&linked.0);
    let script = Some(hold.script.as_os_str());
    let time = joins.map(join_option).transpose()?;
    let mut options = vec![("action-script", script), ("leave-stopped", None)];
    options.extend(time.as_ref().map(|time| (JOIN, Some(OsStr::new(time)))));
    configure(&mut command, &criu, &place.0, &options)?;
    // The runtime, CRIU and what they restore are in the supervisor's time namespace.
    match joins {
        Some(name) => enter_time_of(name)?,
        None => moved.enter_time()?,
    }
    let mut child =
        command.spawn().map_err(Error::file("run", Path::new(command.get_program())))?;
    let wait = |child: &mut std::process::Child| {
        child.wait().map_err(Error::file("wait for", Path::new("the OCI runtime")))
    };
    let Some(held) = hold.wait(&child)? else {
        let status = wait(&mut child)?;
        let log = place.0.join(RESTORE_LOG);
        // Its directory is removed. Without a log, the runtime has failed before, and says why.
        let copied = fs::copy(work.unwrap_or(&linked.0).join(RESTORE_LOG), &log);
        let reason = copied.ok().and_then(|_| reason(&text(&log).ok()?));
        return match reason {
            Some(reason) => {
                place.keep();
                Err(not_restored(format!("container {}", identity.id), reason, log))
            }
            None => Ok(Some(Restarted { status, notes: BTreeSet::new() })),
        };
    };
    let identity = Identity { inherits_time: true, ..identity.clone() };
    let restored = held.bring_into(&name, onto, &moved, &withheld, Some(&identity));
    let status = wait(&mut child)?;
    let notes = restored?.into_iter().flat_map(|process| process.notes);
    let notes = notes.chain(processor::notes_on(&instructions)).collect();
    Ok(Some(Restarted { status, notes }))
}
