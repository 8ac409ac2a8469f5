//! Makes a checkpoint.
//!
//! While the supervisor of the timeline rests, CRIU stops the processes and dumps them. Before it
//! ends them, it runs a script, which is this command again: it examines the stopped processes,
//! writes the manifest and gives the directory its name. If that fails, or is killed, the script's
//! shell undoes it, CRIU resumes the processes, and there is no checkpoint. If they resume in any
//! case, the script only examines them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use eigentime_supervisor::control::client;
use eigentime_supervisor::control::protocol::{Method, Span, Wait};
use eigentime_supervisor::registry::Registry;
use eigentime_supervisor::{Moved, Resting, look_at};
use eigentime_timeline::Nanos;
use nix::unistd::{Pid, getsid};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::directory::{Made, Manifest, OWN, RUNTIME};
use crate::hold::root_of_script;
use crate::image::clock;
use crate::log::{moments, text};
use crate::partial::{DRAFT, Partial};
use crate::passes::{Dumping, LOG, Passes, REFUSAL, not_dumped, rest_of};
use crate::script::{Calls, Task, Undo};
use crate::subject::{Found, Subject};
use crate::timers;
use crate::{Error, contained, nanos};

const SCRIPT: &str = "script";
/// The file that the script writes there if the processes resume.
const STOOD: &str = "stood.json";

/// A new checkpoint.
#[derive(Clone, Debug, Serialize)]
pub struct Dumped {
    /// The first process; `None` for a container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// The timeline.
    pub timeline: Option<String>,
    /// The container, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Its directory.
    pub directory: PathBuf,
    /// How long it took.
    pub took_ns: u64,
    /// How long the processes were stopped each time before they resumed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stopped_ns: Vec<u64>,
    /// Notes for the user.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The data for the script.
#[derive(Serialize, Deserialize)]
pub struct Draft {
    pub made: Made,
    pub resting: Option<Resting>,
    pub becomes: Becomes,
}

/// What happens to CRIU's images.
#[derive(Serialize, Deserialize)]
pub enum Becomes {
    /// The draft's directory is renamed.
    Directory {
        /// The new name.
        path: PathBuf,
        /// Where in it CRIU has written before.
        earlier: Vec<PathBuf>,
    },
    /// The same, but later, since the processes resume.
    Later,
    /// A container's runtime has written to this directory, and the manifest is put there as well.
    Images(PathBuf),
}

/// Makes a checkpoint.
///
/// # Errors
///
/// If it cannot be made; the processes then resume.
pub fn checkpoint(dumping: &Dumping<'_>) -> Result<Dumped, Error> {
    let Dumping { of, directory, leave_running, pre_dump, criu, calls, .. } = *dumping;
    let directory = std::path::absolute(directory).map_err(Error::file("find", directory))?;
    // Without a trailing slash.
    let directory: PathBuf = directory.components().collect();
    check_name(&directory)?;
    if directory.exists() {
        return Err(Error::Exists(directory));
    }
    let begin = Instant::now();
    let subject = match Found::find(of)? {
        Found::Processes(subject) => subject,
        Found::Container(known) => {
            let notes = contained::dump(&known, dumping, &directory)?;
            return Ok(Dumped {
                pid: None,
                timeline: None,
                container: Some(known.container),
                directory,
                took_ns: nanos(begin.elapsed()),
                stopped_ns: Vec::new(),
                notes,
            });
        }
    };
    let Subject { root, timeline, .. } = &subject;
    let partial = Partial::of(&directory)?;
    let partial = &partial.directory.0;
    let session = getsid(Some(Pid::from_raw(*root))).map_or(*root, Pid::as_raw);
    let made = Made {
        criu: criu.version.clone(),
        kernel: kernel(),
        timeline: timeline.as_ref().map(ToString::to_string),
        container: None,
        root: *root,
        shell_job: session != *root,
    };
    let mut passes = Passes::new(dumping, &subject, partial, made.shell_job);
    if pre_dump {
        passes.pre_dump()?;
    }
    let rest = rest_of(timeline.as_ref())?;
    let resting = rest.as_ref().map(|rest| rest.resting.clone());
    let becomes = match leave_running {
        true => Becomes::Later,
        false => Becomes::Directory { path: directory.clone(), earlier: passes.earlier.clone() },
    };
    let script = Draft { made, resting, becomes }.write(partial, calls)?;
    passes.notes.extend(subject.notes.clone());
    passes.dump(&script)?;
    drop(rest);
    if leave_running {
        finish(partial, &directory, &passes.earlier)?;
    } else if partial.exists() {
        let log = partial.join(OWN.images).join(LOG);
        let reason = "it has not run the script".to_owned();
        let what = format!("process {root}");
        return Err(not_dumped(what, subject.named(), reason, partial, &log));
    } else if let Some(name) = timeline.as_ref().filter(|_| subject.is_whole) {
        remove_timeline(name);
    }
    Ok(Dumped {
        pid: Some(*root),
        timeline: timeline.as_ref().map(ToString::to_string),
        container: None,
        directory,
        took_ns: nanos(begin.elapsed()),
        stopped_ns: passes.stopped.into_iter().map(nanos).collect(),
        notes: passes.notes,
    })
}

/// Checks that a directory's name can be in JSON.
pub fn check_name(directory: &Path) -> Result<(), Error> {
    match directory.to_str() {
        Some(_) => Ok(()),
        None => Err(Error::Subject(format!(
            "{}: its name is not in UTF-8\nhelp: name another directory",
            directory.display()
        ))),
    }
}

/// The version of the kernel.
pub fn kernel() -> String {
    let release = nix::sys::utsname::uname().map(|it| it.release().to_string_lossy().into_owned());
    release.unwrap_or_default()
}

/// Removes a timeline whose members are in the checkpoint.
fn remove_timeline(name: &eigentime_supervisor::registry::Name) {
    let Ok(registries) = Registry::all() else { return };
    let Ok((registry, name)) = client::timeline_of(&registries, name) else { return };
    let empty = Wait { empty: true, timeout: Some(Span(Nanos::from_secs(2))), ..Wait::default() };
    // If it still has members, it is not removed; if it has ended, it need not be.
    let _ = client::wait(registry, &name, &empty);
    let _ = client::call::<serde_json::Value>(registry, &name, Method::Remove { force: false });
}

impl Draft {
    /// Writes the script and its data to the directory; returns the script.
    pub fn write(&self, directory: &Path, calls: &Calls) -> Result<PathBuf, Error> {
        write(&directory.join(DRAFT), self)?;
        let undo = match &self.becomes {
            Becomes::Directory { path, .. } => Undo::Rename { to: path },
            Becomes::Later => Undo::Nothing,
            Becomes::Images(images) => Undo::Write(RUNTIME.files_in(images)),
        };
        calls.write(&Task::Complete(undo), directory)
    }
}

/// Writes data for another process of this command.
fn write(path: &Path, data: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_vec(data).expect("it is plain data");
    fs::write(path, text).map_err(Error::file("write", path))
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let text = fs::read(path).map_err(Error::file("read", path))?;
    serde_json::from_slice(&text).map_err(|error| Error::Subject(error.to_string()))
}

/// Makes a checkpoint from a directory to which CRIU has written everything. CRIU calls this while
/// the processes are stopped.
///
/// # Errors
///
/// If it cannot be made; CRIU then resumes the processes.
pub fn complete(partial: &Path) -> Result<(), Error> {
    let completed = complete_draft(partial);
    if let Err(error) = &completed {
        // The process that started CRIU reports it.
        let _ = fs::write(partial.join(REFUSAL), error.to_string());
    }
    completed
}

fn complete_draft(partial: &Path) -> Result<(), Error> {
    let Draft { made, resting, becomes } = read(&partial.join(DRAFT))?;
    let own = partial.join(OWN.images);
    let (images, log) = match &becomes {
        Becomes::Directory { .. } | Becomes::Later => (&own, own.join(LOG)),
        // CRIU's working directory, with its script.
        Becomes::Images(images) => (images, PathBuf::from(LOG)),
    };
    let text = text(&log).map_err(Error::file("read", &log))?;
    let looked = clock(&clocks_in(images)?);
    let moments = looked.and_then(|looked| moments(&text, looked));
    let Some(moments) = moments else {
        return Err(Error::Subject("criu does not tell when the processes stopped".to_owned()));
    };
    let root = root_of_script()?;
    let written = |thread: i32| {
        let image = fs::read(images.join(format!("core-{thread}.img"))).unwrap_or_default();
        // If an image cannot be read, nothing is known to be missing.
        timers::queued(&image).unwrap_or(u64::MAX)
    };
    let moved = look_at(root, &moments, resting, written)?;
    let made = Made { root, ..made };
    match becomes {
        Becomes::Images(images) => Manifest::write(&images, RUNTIME, &[], made, moved),
        Becomes::Directory { path, earlier } => become_whole(partial, &path, &earlier, made, moved),
        Becomes::Later => write(&partial.join(STOOD), &(made, moved)),
    }
}

/// The image with the clocks that CRIU saw.
fn clocks_in(images: &Path) -> Result<Vec<u8>, Error> {
    let entries = fs::read_dir(images).map_err(Error::file("read", images))?;
    let mut names = entries.flatten().map(|entry| entry.file_name());
    let name = names.find(|name| name.to_str().is_some_and(|it| it.starts_with("timens-")));
    let path = images.join(name.unwrap_or_else(|| "timens-0.img".into()));
    fs::read(&path).map_err(Error::file("read", &path))
}

/// Makes a checkpoint of processes that resume.
fn finish(partial: &Path, directory: &Path, earlier: &[PathBuf]) -> Result<(), Error> {
    let path = partial.join(STOOD);
    let (made, moved) = read(&path)?;
    fs::remove_file(&path).map_err(Error::file("remove", &path))?;
    become_whole(partial, directory, earlier, made, moved)
}

fn become_whole(
    partial: &Path,
    directory: &Path,
    earlier: &[PathBuf],
    made: Made,
    moved: Moved,
) -> Result<(), Error> {
    Manifest::write(partial, OWN, earlier, made, moved)?;
    for file in [DRAFT, SCRIPT] {
        let path = partial.join(file);
        fs::remove_file(&path).map_err(Error::file("remove", &path))?;
    }
    match directory.exists() {
        true => Err(Error::Exists(directory.to_owned())),
        false => fs::rename(partial, directory).map_err(Error::file("make", directory)),
    }
}
