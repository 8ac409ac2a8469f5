//! The runs of CRIU for a dump: some write the changed memory while the processes run, and the last
//! writes everything.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use eigentime_supervisor::Rest;
use eigentime_supervisor::registry::Name;

use crate::criu::{known, outcome, place_for_log};
use crate::directory::OWN;
use crate::log::{stood_for, text};
use crate::script::Calls;
use crate::subject::{Of, Subject};
use crate::{Criu, Error};

/// The maximum number of memory pre-dumps.
const MOST: usize = 3;

/// How a checkpoint is made.
pub struct Dumping<'a> {
    /// The processes to dump.
    pub of: &'a Of,
    /// The final directory.
    pub directory: &'a Path,
    /// Whether the processes resume afterwards.
    pub leave_running: bool,
    /// Whether their memory is written before they are stopped, as far as possible.
    pub pre_dump: bool,
    /// The CRIU command.
    pub criu: &'a Criu,
    /// More arguments for it.
    pub arguments: &'a [OsString],
    /// The command lines with which this command calls itself.
    pub calls: &'a Calls,
}

/// CRIU's log, also if a container's runtime starts CRIU.
pub const LOG: &str = "dump.log";
/// The script's reason for a failure.
pub const REFUSAL: &str = "refusal";

/// The runs that have been made.
pub struct Passes<'a> {
    dumping: &'a Dumping<'a>,
    subject: &'a Subject,
    /// The directory that becomes the checkpoint.
    partial: &'a Path,
    /// Options of all runs.
    options: Vec<&'static OsStr>,
    /// The directories of the runs before the last.
    pub earlier: Vec<PathBuf>,
    /// How long the processes were stopped in each run after which they resumed.
    pub stopped: Vec<Duration>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

impl<'a> Passes<'a> {
    pub fn new(
        dumping: &'a Dumping<'a>,
        subject: &'a Subject,
        partial: &'a Path,
        shell_job: bool,
    ) -> Self {
        let options = ["--file-locks"].into_iter().chain(shell_job.then_some("--shell-job"));
        let options = options.map(OsStr::new).collect();
        let (earlier, stopped, notes) = Default::default();
        Self { dumping, subject, partial, options, earlier, stopped, notes }
    }

    /// Writes the memory while the processes run, until the amount that changes meanwhile no longer
    /// decreases.
    pub fn pre_dump(&mut self) -> Result<(), Error> {
        let tracks = self.dumping.criu.tracks_memory();
        let why_not = match tracks.map_err(Error::file("run", Path::new("criu")))? {
            Ok(true) => None,
            Ok(false) => {
                Some("the kernel does not track memory changes (CONFIG_MEM_SOFT_DIRTY)".to_owned())
            }
            Err(reason) => Some(format!(
                "criu cannot find out whether the kernel tracks memory changes: {reason}"
            )),
        };
        if let Some(why_not) = why_not {
            self.notes
                .push(format!("{why_not}; no memory was written before the programs were stopped"));
            return Ok(());
        }
        let mut last = u64::MAX;
        while self.earlier.len() < MOST {
            let place = PathBuf::from(format!("{}-{}", OWN.images, self.earlier.len() + 1));
            let rest = rest_of(self.subject.timeline.as_ref())?;
            self.run("pre-dump", &place, &[])?;
            drop(rest);
            let written = pages_in(&self.partial.join(&place));
            self.earlier.push(place);
            // Another run that has to write most of that again is useless.
            if written > last / 2 {
                break;
            }
            last = written;
        }
        Ok(())
    }

    /// Writes everything.
    pub fn dump(&mut self, script: &Path) -> Result<(), Error> {
        let mut more = vec![OsStr::new("--action-script"), script.as_os_str()];
        more.extend(self.dumping.leave_running.then_some(OsStr::new("--leave-running")));
        self.run("dump", Path::new(OWN.images), &more)
    }

    fn run(&mut self, verb: &str, place: &Path, more: &[&OsStr]) -> Result<(), Error> {
        let Dumping { criu, arguments, leave_running, .. } = *self.dumping;
        let images = self.partial.join(place);
        fs::create_dir_all(&images).map_err(Error::file("make", &images))?;
        let root = self.subject.root.to_string();
        // The directory will be renamed.
        let former = self.earlier.last().map(|place| Path::new("..").join(place));
        let mut all = [verb, "-t", &root, "-D"].map(OsStr::new).to_vec();
        all.push(images.as_os_str());
        all.extend(&self.options);
        all.extend(more);
        if let Some(former) = &former {
            all.extend([OsStr::new("--prev-images-dir"), former.as_os_str()]);
        }
        if verb == "pre-dump" || former.is_some() {
            all.push(OsStr::new("--track-mem"));
        }
        let log = images.join(LOG);
        let run = criu.start(&all, arguments, &log).and_then(|child| outcome(child, &log));
        match run.map_err(Error::file("run", Path::new("criu")))? {
            Err(reason) => {
                let what = format!("process {root}");
                Err(not_dumped(what, self.subject.named(), reason, self.partial, &log))
            }
            // Otherwise it has been moved by now.
            Ok(()) if verb == "pre-dump" || leave_running => {
                let log = text(&log).map_err(Error::file("read", &log))?;
                self.stopped.extend(stood_for(&log));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}

/// Brings a timeline to rest, if there is one.
pub fn rest_of(timeline: Option<&Name>) -> Result<Option<Rest>, Error> {
    Ok(timeline.map(Rest::of).transpose()?)
}

/// How much memory a run has written.
fn pages_in(images: &Path) -> u64 {
    let entries = fs::read_dir(images).into_iter().flatten().flatten();
    let pages = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("pages-"));
    pages.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// Why it could not be completed.
pub fn refusal(directory: &Path) -> Option<String> {
    fs::read_to_string(directory.join(REFUSAL)).ok()
}

/// The error for what CRIU could not dump, which is on this timeline if that has a name of its own;
/// with its log where the user can find it.
pub fn not_dumped(
    what: String,
    timeline: Option<&Name>,
    reason: String,
    partial: &Path,
    log: &Path,
) -> Error {
    let reason = refusal(partial).unwrap_or(reason);
    let kept = match place_for_log() {
        Ok(place) => place.join(LOG),
        Err(error) => return error,
    };
    // If it cannot be copied, it is lost.
    let _ = fs::copy(log, &kept);
    let timeline = timeline.cloned();
    Error::NotDumped { what, help: help_with(&reason), reason, log: kept, timeline }
}

/// What to do about the most frequent reasons.
fn help_with(reason: &str) -> &'static str {
    const PEER: &str = "the peer of its socket must be in the checkpoint, too";
    const HELP: [(&str, &str); 8] = [
        (
            "Can't get 1:16 opt",
            "on Linux 6.16 and later, criu needs version 4.2 to dump TCP and UDP sockets",
        ),
        (
            "Connected TCP socket",
            "to keep its TCP connections, add --criu-arg=--tcp-established to this command and to `eigentime \
             restore`; for a container, --tcp-established to those of its engine",
        ),
        (
            "Unable to detach from",
            "another process traces it, such as strace, a debugger or another criu: let that end first",
        ),
        (
            "Can't get rlimit",
            "criu needs CAP_SYS_RESOURCE to read the limits of another user's processes: a container needs the option \
             `--cap-add SYS_RESOURCE`, a unit of systemd that capability in its CapabilityBoundingSet=",
        ),
        (
            "doesn't live in IPC ns",
            "a program with System V shared memory, such as PostgreSQL, needs an IPC namespace of \
             its own: start it with `unshare --ipc`",
        ),
        ("External socket is used", PEER),
        ("Can't dump half of stream unix connection", PEER),
        (
            "Can't lookup mount",
            "a process with mounts of its own, such as a container's, can only be checkpointed by \
             its engine or runtime",
        ),
    ];
    known(reason, &HELP).unwrap_or_default()
}
