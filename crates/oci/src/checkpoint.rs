//! Checkpoints of containers, which the real runtime creates with CRIU. This module handles what
//! CRIU leaves out.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

use eigentime_checkpoint::{self as checkpoints, Calls, Criu, Requested};
use eigentime_supervisor::container::{self, Container};

use crate::arguments::{Arguments, Images};
use crate::bundle::Document;
use crate::engine;
use crate::failure::{self, Level};

const COMPLETE: &str = "--eigentime-complete";
const HOLD: &str = "--eigentime-hold";

/// The options with which CRIU's script calls this program.
const CALLS: Calls = Calls { complete: &[COMPLETE], hold: &[HOLD] };

/// Performs the request of CRIU's script, if that is the caller; returns the exit status.
pub fn called_by_criu(arguments: &[OsString]) -> Option<i32> {
    let [_, option, directory] = arguments else { return None };
    let done = match option.to_str()? {
        COMPLETE => checkpoints::complete(Path::new(directory)),
        HOLD => checkpoints::hold(Path::new(directory)),
        _ => return None,
    };
    if let Err(error) = &done {
        eprintln!("eigentime-oci: {error}");
    }
    Some(i32::from(done.is_err()))
}

/// Makes the runtime checkpoint a container, with its clocks. Returns if there are no clocks to
/// save.
pub fn dump(images: &Images, container: &Container, command: &[CString]) -> Result<(), String> {
    let timeline = container::timeline_of(container).map_err(|error| error.to_string())?;
    if timeline.is_none() && Criu::find(None).is_err() {
        // The runtime reports what it needs.
        return Ok(());
    }
    if images.lazy {
        return Err("a checkpoint whose pages are read later (--lazy-pages) cannot carry clocks\n\
                    help: omit --lazy-pages"
            .to_owned());
    }
    let work = images.work.as_deref();
    let subject = checkpoints::Container { work, ..subject(&images.directory, container) };
    let mut runtime = runtime(command);
    let status = match images.pre_dump {
        true => checkpoints::pre_dump_container(&subject, &mut runtime),
        false => checkpoints::dump_container(&subject, &mut runtime),
    };
    end(status.map_err(|error| error.to_string())?)
}

/// Makes the runtime restore a container, with its clocks. Returns if it must run on the host's
/// clocks.
pub fn restore(
    arguments: &Arguments,
    bundle: &Path,
    images: &Images,
    container: Container,
    command: &[CString],
) -> Result<(), String> {
    let document =
        Document::read(&bundle.join("config.json")).map_err(|error| error.to_string())?;
    let settings =
        document.settings(arguments.trusts_environment).map_err(|wrong| wrong.to_string())?;
    let container = Container { name: engine::name_of(&document), ..container };
    // Runtimes resolve a relative directory from the bundle's.
    let in_bundle = bundle.join(&images.directory);
    let here = subject(&images.directory, &container);
    let found = if here.has_clocks() { here } else { subject(&in_bundle, &container) };
    let subject = checkpoints::Container { work: images.work.as_deref(), ..found };
    let mut requested = Requested::default();
    for (option, value) in &arguments.clocks {
        let set = requested.set(option, value);
        set.map_err(|reason| format!("--eigentime-{option} {value}: {reason}"))?;
    }
    if !subject.has_clocks() {
        return match settings.is_empty() && !requested.any() {
            true => Ok(()),
            false => Err(format!(
                "{} was written without eigentime, and has no clocks\n\
                 help: write it with the runtime eigentime, or restore it with another runtime",
                images.directory.display()
            )),
        };
    }
    let onward = checkpoints::Onward { subject, requested: &requested };
    let restored = checkpoints::restore_container(&onward, |directory| {
        let mut command = runtime(&command[..1]);
        command.args(arguments.with_images(directory));
        command
    });
    let Some(checkpoints::Restarted { status, notes }) =
        restored.map_err(|error| error.to_string())?
    else {
        return Ok(());
    };
    for note in notes {
        failure::tell(arguments, Level::Warning, &note);
    }
    end(status)
}

fn subject<'a>(images: &'a Path, identity: &'a Container) -> checkpoints::Container<'a> {
    checkpoints::Container { identity, images, work: None, calls: &CALLS }
}

fn runtime(command: &[CString]) -> Command {
    let mut words = command.iter().map(|word| OsStr::from_bytes(word.as_bytes()));
    let mut runtime = Command::new(words.next().unwrap_or_default());
    runtime.args(words);
    runtime
}

/// Exits with the status of the runtime.
fn end(status: ExitStatus) -> ! {
    const KILLED: i32 = 128;
    let killed = || status.signal().map_or(crate::FAILED, |signal| KILLED + signal);
    std::process::exit(status.code().unwrap_or_else(killed))
}
