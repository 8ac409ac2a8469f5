//! Makes a checkpoint.
//!
//! While the supervisor of the timeline rests, CRIU stops the processes and writes them down. Before it
//! ends them, or lets them go on, it runs a script, which is this command once more: it looks at the
//! stopped processes, writes the manifest and gives the directory its name. If that fails, or is killed,
//! CRIU lets the processes go on, and there is no checkpoint.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use eigentime_supervisor::control::client;
use eigentime_supervisor::control::protocol::{Method, Span, Wait};
use eigentime_supervisor::registry::Registry;
use eigentime_supervisor::{Rest, Resting, look_at};
use eigentime_timeline::Nanos;
use nix::unistd::{Pid, getsid};
use serde::{Deserialize, Serialize};

use crate::criu::{outcome, place_for_log, stopped_for};
use crate::directory::{Made, Manifest, OWN, RUNTIME};
use crate::hold::root_of_script;
use crate::script::{Calls, Task};
use crate::subject::{Of, Subject};
use crate::{Criu, Error};

/// What the script finds in the directory.
const DRAFT: &str = "draft.json";
const SCRIPT: &str = "script";
/// Why it has failed.
const REFUSAL: &str = "refusal";
/// CRIU's log, also where a container's runtime starts CRIU.
const LOG: &str = "dump.log";

/// How a checkpoint is made.
pub struct Dumping<'a> {
    /// Of what.
    pub of: &'a Of,
    /// The directory that it becomes.
    pub directory: &'a Path,
    /// Do the processes go on afterwards?
    pub leave_running: bool,
    /// By which command.
    pub criu: &'a Criu,
    /// More arguments for it.
    pub arguments: &'a [OsString],
    /// How this command calls itself.
    pub calls: &'a Calls,
}

/// A checkpoint that was made.
#[derive(Clone, Debug, Serialize)]
pub struct Dumped {
    /// The first process.
    pub pid: i32,
    /// The timeline.
    pub timeline: Option<String>,
    /// Where it is.
    pub directory: PathBuf,
    /// How long it took.
    pub took_ns: u64,
}

/// What the script has to know.
#[derive(Serialize, Deserialize)]
pub struct Draft {
    pub made: Made,
    pub resting: Option<Resting>,
    pub becomes: Becomes,
}

/// What becomes of what CRIU has written.
#[derive(Serialize, Deserialize)]
pub enum Becomes {
    /// The directory of the draft gets this name.
    Directory(PathBuf),
    /// A container's runtime has written to this directory, and the manifest is put beside it.
    Images(PathBuf),
}

/// Makes a checkpoint.
///
/// # Errors
///
/// If it cannot be made; the processes go on then.
pub fn checkpoint(dumping: &Dumping<'_>) -> Result<Dumped, Error> {
    let Dumping { of, directory, leave_running, criu, arguments, calls } = *dumping;
    let directory = std::path::absolute(directory).map_err(Error::file("find", directory))?;
    if directory.exists() {
        return Err(Error::Exists(directory));
    }
    let Subject { root, timeline } = Subject::find(of)?;
    let rest = timeline.as_ref().map(Rest::of).transpose()?;
    let partial = partial_of(&directory);
    // Of one that was killed.
    let _ = fs::remove_dir_all(&partial);
    let images = partial.join(OWN.images);
    fs::create_dir_all(&images).map_err(Error::file("make", &images))?;
    fs::set_permissions(&partial, Permissions::from_mode(0o700))
        .map_err(Error::file("protect", &partial))?;
    let session = getsid(Some(Pid::from_raw(root))).map_or(root, Pid::as_raw);
    let made = Made {
        criu: criu.version.clone(),
        kernel: kernel(),
        timeline: timeline.as_ref().map(ToString::to_string),
        container: None,
        root,
        shell_job: session != root,
    };
    let resting = rest.as_ref().map(|rest| rest.resting.clone());
    let shell_job = made.shell_job;
    let becomes = Becomes::Directory(directory.clone());
    let script = Draft { made, resting, becomes }.write(&partial, calls)?;
    let begin = Instant::now();
    let pid = root.to_string();
    let mut all = ["dump", "--file-locks", "-t", &pid, "-D"].map(OsStr::new).to_vec();
    all.extend([images.as_os_str(), OsStr::new("--action-script"), script.as_os_str()]);
    all.extend(leave_running.then_some(OsStr::new("--leave-running")));
    all.extend(shell_job.then_some(OsStr::new("--shell-job")));
    let log = images.join(LOG);
    let run = criu.start(&all, arguments, &log).and_then(|child| outcome(child, &log));
    let took = begin.elapsed();
    let run = run.map_err(Error::file("run", Path::new("criu")))?;
    drop(rest);
    if let Err(reason) = run {
        return Err(not_dumped(root, reason, &partial));
    }
    if !directory.exists() {
        return Err(not_dumped(root, "it has not run the script".to_owned(), &partial));
    }
    if let (Of::Timeline(name), false) = (of, leave_running) {
        remove_timeline(name);
    }
    Ok(Dumped {
        pid: root,
        timeline: timeline.map(|name| name.to_string()),
        directory,
        took_ns: u64::try_from(took.as_nanos()).unwrap_or(u64::MAX),
    })
}

/// The name of a checkpoint that is not whole yet.
fn partial_of(directory: &Path) -> PathBuf {
    let mut name = directory.as_os_str().to_owned();
    name.push(".partial");
    name.into()
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
    // If it has members still, it is not removed; if it has ended, it need not be.
    let _ = client::wait(registry, &name, &empty);
    let _ = client::call::<serde_json::Value>(registry, &name, Method::Remove { force: false });
}

impl Draft {
    /// Puts what the script needs into the directory; the script.
    pub fn write(&self, directory: &Path, calls: &Calls) -> Result<PathBuf, Error> {
        let text = serde_json::to_vec(self).expect("a draft is plain data");
        let path = directory.join(DRAFT);
        fs::write(&path, text).map_err(Error::file("write", &path))?;
        calls.write(&Task::Complete, directory)
    }
}

/// Why it could not be completed.
pub fn refusal(directory: &Path) -> Option<String> {
    fs::read_to_string(directory.join(REFUSAL)).ok()
}

/// What CRIU could not dump, with its log where it can be found.
fn not_dumped(pid: i32, reason: String, partial: &Path) -> Error {
    let reason = refusal(partial).unwrap_or(reason);
    let log = match place_for_log() {
        Ok(place) => place.join(LOG),
        Err(error) => return error,
    };
    // What cannot be copied is lost.
    let _ = fs::copy(partial.join(OWN.images).join(LOG), &log);
    let _ = fs::remove_dir_all(partial);
    Error::NotDumped { pid, reason, log }
}

/// Makes a checkpoint of a directory to which CRIU has written all, and which is called by it while the
/// processes are stopped.
///
/// # Errors
///
/// If it cannot be made; CRIU lets the processes go on then.
pub fn complete(partial: &Path) -> Result<(), Error> {
    let completed = complete_draft(partial);
    if let Err(error) = &completed {
        // Whoever has started CRIU tells it.
        let _ = fs::write(partial.join(REFUSAL), error.to_string());
    }
    completed
}

fn complete_draft(partial: &Path) -> Result<(), Error> {
    let path = partial.join(DRAFT);
    let text = fs::read(&path).map_err(Error::file("read", &path))?;
    let malformed = |error: serde_json::Error| Error::Subject(error.to_string());
    let Draft { made, resting, becomes } = serde_json::from_slice(&text).map_err(malformed)?;
    let log = match &becomes {
        Becomes::Directory(_) => partial.join(OWN.images).join(LOG),
        // Where CRIU works, and its script.
        Becomes::Images(_) => PathBuf::from(LOG),
    };
    let begin = Instant::now();
    let text = fs::read(&log).map_err(Error::file("read", &log))?;
    let stopped = stopped_for(&String::from_utf8_lossy(&text)).and_then(|it| begin.checked_sub(it));
    let Some(stopped) = stopped else {
        return Err(Error::Subject("criu does not tell when the processes stopped".to_owned()));
    };
    let root = root_of_script()?;
    let moved = look_at(root, stopped, resting)?;
    let made = Made { root, ..made };
    let becomes = match becomes {
        Becomes::Images(images) => return Manifest::write(&images, RUNTIME, made, moved),
        Becomes::Directory(directory) => directory,
    };
    Manifest::write(partial, OWN, made, moved)?;
    for file in [DRAFT, SCRIPT] {
        let path = partial.join(file);
        fs::remove_file(&path).map_err(Error::file("remove", &path))?;
    }
    match becomes.exists() {
        true => Err(Error::Exists(becomes)),
        false => fs::rename(partial, &becomes).map_err(Error::file("make", &becomes)),
    }
}
