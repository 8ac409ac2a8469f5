//! Checkpoints of containers that their engine writes to a directory and restores from there. A
//! file beside them names the engine.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::engines::{Known, Words};
use crate::passes::Dumping;
use crate::requested::Requested;
use crate::{Criu, Error};

const MANIFEST: &str = "container.json";

/// The version of its layout.
const VERSION: u64 = 1;

/// Lets a container run on; all engines have this option.
const LEAVE_RUNNING: &str = "--leave-running";

/// The file that names the engine.
#[derive(Serialize, Deserialize)]
struct Manifest {
    version: u64,
    eigentime: String,
    #[serde(flatten)]
    known: Known,
}

/// Makes its engine write a container to a new directory; returns notes for the user.
pub fn dump(known: &Known, dumping: &Dumping<'_>, directory: &Path) -> Result<Vec<String>, Error> {
    let mut more = dumping.arguments.to_vec();
    more.extend(dumping.leave_running.then(|| OsString::from(LEAVE_RUNNING)));
    let words = Words { directory, clocks: &[], more: &more };
    let mut command = known.dump(&words);
    if known.restore(&words).is_none() {
        let engine = known.engine.name();
        let command = in_words(&command);
        let container = known.container.clone();
        return Err(Error::Container { container, engine, command });
    }
    let parent = directory.parent().unwrap_or(directory);
    fs::create_dir_all(parent).map_err(Error::file("make", parent))?;
    DirBuilder::new().mode(0o700).create(directory).map_err(Error::file("make", directory))?;
    let dumped = write(known, directory)
        .and_then(|()| run(known, dumping.criu, &mut command, Some(directory)));
    dumped.inspect_err(|error| {
        if !matches!(error, Error::Engine { written: Some(_), .. }) {
            // Nothing can be restored from what is left.
            let _ = fs::remove_dir_all(directory);
        }
    })?;
    let note = "its memory was written while it was stopped: its engine decides that";
    Ok(dumping.pre_dump.then(|| note.to_owned()).into_iter().collect())
}

fn write(known: &Known, directory: &Path) -> Result<(), Error> {
    let path = directory.join(MANIFEST);
    let eigentime = env!("CARGO_PKG_VERSION").to_owned();
    let manifest = Manifest { version: VERSION, eigentime, known: known.clone() };
    let text = serde_json::to_vec_pretty(&manifest).expect("it is plain data");
    fs::write(&path, text).map_err(Error::file("write", &path))
}

/// The container of a checkpoint, if it is one of a container.
pub fn read(directory: &Path) -> Result<Option<Known>, Error> {
    let path = directory.join(MANIFEST);
    let text = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(Error::file("read", &path))?,
    };
    match serde_json::from_slice(&text) {
        Ok(Manifest { version: VERSION, known, .. }) => Ok(Some(known)),
        Ok(Manifest { version: found, eigentime: by, .. }) => {
            Err(Error::OtherVersion { path, found, known: VERSION, by })
        }
        Err(error) => Err(Error::Damaged { path, reason: error.to_string() }),
    }
}

/// Makes its engine restore a container, with more arguments for it.
pub fn restore(
    known: &Known,
    requested: &Requested,
    criu: &Criu,
    more: &[OsString],
    directory: &Path,
) -> Result<(), Error> {
    requested.destination()?;
    let mut clocks = requested.clone();
    if clocks.join.is_none() {
        // With a policy, one that was on no timeline gets one, as processes do.
        clocks.policy.get_or_insert_default();
    }
    let words = Words { directory, clocks: &clocks.texts(), more };
    let damaged = || Error::Damaged {
        path: directory.join(MANIFEST),
        reason: format!("{} restores nothing from a directory", known.engine.name()),
    };
    let mut command = known.restore(&words).ok_or_else(damaged)?;
    let existed = known.is_there();
    let restored = run(known, criu, &mut command, None);
    if restored.is_err()
        && !existed
        && let Some(mut remove) = known.remove()
    {
        // It may have failed before there was any.
        let _ = remove.stdin(Stdio::null()).output();
    }
    restored
}

/// Runs a command of an engine, which reports its own failures, and may write to a directory.
fn run(
    known: &Known,
    criu: &Criu,
    command: &mut Command,
    writes: Option<&Path>,
) -> Result<(), Error> {
    let stderr = io::stderr().as_fd().try_clone_to_owned();
    let said = stderr.map_err(Error::file("duplicate", Path::new("stderr")))?;
    criu.name_to(command)?.stdin(Stdio::null()).stdout(said);
    let program = Path::new(command.get_program()).to_owned();
    let status = command.status().map_err(Error::file("run", &program))?;
    match status.success() {
        true => Ok(()),
        false => Err(Error::Engine {
            container: known.container.clone(),
            command: in_words(command),
            status,
            // It may have done all before it was killed, and have ended the container.
            written: writes.filter(|_| status.code().is_none()).map(Path::to_owned),
        }),
    }
}

fn in_words(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
