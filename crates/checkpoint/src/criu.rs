//! The command `criu`.
//!
//! It is started as a command, not through its RPC, for two reasons. Once CRIU has restored processes
//! and left them stopped, its RPC does not say which they are, and it ignores the answer; a script
//! learns their root, and ends them if whoever started CRIU has been killed. And the options that
//! users pass on are those of the command.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use eigentime_supervisor::registry::Name;
use eigentime_supervisor::time_namespace_of;
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::unistd::mkdtemp;

use crate::Error;
use crate::log::{reason, text};

/// The first version that knows the vDSO of today's kernels.
const FIRST: u32 = 4;

/// Names the command if no option does.
const VARIABLE: &str = "EIGENTIME_CRIU";

/// Its message if the kernel does not track memory changes.
const NO_TRACKING: &str = "Dirty tracking is OFF";

/// The command, of a version that is known to work.
#[derive(Clone, Debug)]
pub struct Criu {
    path: PathBuf,
    /// Its version.
    pub version: String,
}

impl Criu {
    /// Finds the command at `path`, or else the one that the environment names.
    ///
    /// # Errors
    ///
    /// If it does not exist, or is too old.
    pub fn find(path: Option<&Path>) -> Result<Self, Error> {
        let named = path.map(Path::to_owned).or_else(|| std::env::var_os(VARIABLE).map(Into::into));
        let (path, looked) = match named {
            Some(path) => (path.clone(), path.display().to_string()),
            None => (PathBuf::from("criu"), format!("--criu, {VARIABLE} and PATH name none")),
        };
        let told = Command::new(&path).arg("--version").stdin(Stdio::null()).output();
        let told = told.map_err(|error| Error::NoCriu { looked: format!("{looked}: {error}") })?;
        let text = String::from_utf8_lossy(&told.stdout).into_owned();
        let version = text.lines().find_map(|line| line.strip_prefix("Version: "));
        let Some(version) = version.map(|version| version.trim().to_owned()) else {
            return Err(Error::NoCriu { looked: format!("{looked} tells no version") });
        };
        let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        match major.is_some_and(|major| major >= FIRST) {
            true => Ok(Self { path, version }),
            false => Err(Error::OldCriu { path, found: version }),
        }
    }

    /// Whether the kernel tells it which memory has changed since the last dump. The inner error
    /// says why it cannot find that out.
    pub fn tracks_memory(&self) -> io::Result<Result<bool, String>> {
        let told = Command::new(&self.path)
            .args(["check", "--feature", "mem_dirty_track"])
            .stdin(Stdio::null())
            .output()?;
        let said = String::from_utf8_lossy(&told.stderr);
        Ok(match told.status.success() {
            true => Ok(true),
            false if said.contains(NO_TRACKING) => Ok(false),
            false => Err(reason(&said).unwrap_or_else(|| unknown(said.trim(), told.status))),
        })
    }

    /// Starts it with these arguments, and with its log in a file.
    pub fn start(&self, arguments: &[&OsStr], more: &[OsString], log: &Path) -> io::Result<Child> {
        let said = File::create(log.with_extension("stderr"))?;
        let mut command = Command::new(&self.path);
        // SAFETY: only makes system calls.
        unsafe { command.pre_exec(survive_terminal) };
        command
            .args(arguments)
            .args([OsStr::new("-o"), log.as_os_str(), OsStr::new("-v4")])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said)
            .spawn()
    }

    /// Makes it the one that another program starts: programs call `criu`, and ours the one that
    /// the environment names.
    ///
    /// # Errors
    ///
    /// If it has another name.
    pub fn name_to<'a>(&self, program: &'a mut Command) -> Result<&'a mut Command, Error> {
        if self.path.file_name() != Some("criu".as_ref()) {
            let path = self.path.display();
            return Err(Error::Subject(format!(
                "{path}: for a container, its runtime starts the command `criu`\n\
                 help: name one that is called so, such as a symbolic link to {path}"
            )));
        }
        if self.path.components().count() == 1 {
            return Ok(program.env(VARIABLE, &self.path));
        }
        let path = std::path::absolute(&self.path).map_err(Error::file("find", &self.path))?;
        let others = std::env::var_os("PATH").unwrap_or_default();
        let own = path.parent().map(Path::to_owned);
        let all = own.into_iter().chain(std::env::split_paths(&others));
        let first = std::env::join_paths(all).unwrap_or(others);
        Ok(program.env("PATH", first).env(VARIABLE, path))
    }
}

/// Makes a process ignore the signals of its terminal. What the user interrupts is the command: CRIU
/// and its script bring to an end what they have begun. CRIU cannot be in a process group of its own,
/// since processes of a shell's job get the group in which it runs.
fn survive_terminal() -> io::Result<()> {
    for number in [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGHUP] {
        // SAFETY: no handler is set.
        unsafe { signal(number, SigHandler::SigIgn) }?;
    }
    Ok(())
}

/// Its option to restore processes in an existing namespace, without the leading dashes.
pub const JOIN: &str = "join-ns";

/// The value of that option for processes that join a timeline.
pub fn join_option(timeline: &Name) -> Result<String, Error> {
    Ok(format!("time:{}", time_namespace_of(timeline)?.display()))
}

/// Waits for its end; the inner error is the reason if it has failed.
pub fn outcome(mut child: Child, log: &Path) -> io::Result<Result<(), String>> {
    let status = child.wait()?;
    let path = log.with_extension("stderr");
    let said = fs::read(&path).unwrap_or_default();
    // It is not needed any more.
    let _ = fs::remove_file(&path);
    if status.success() {
        return Ok(Ok(()));
    }
    let log = text(log).unwrap_or_default();
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    Ok(Err(reason(&log).unwrap_or_else(|| unknown(&said, status))))
}

/// The message if it gives no reason.
fn unknown(said: &str, status: ExitStatus) -> String {
    format!("it says '{said}' ({status})")
}

/// What to do about features that the kernel lacks.
const LACKING: [(&str, &str); 3] = [
    ("Effective capability", "checkpoints are made and restored by root"),
    ("nftables", "the kernel needs the module nf_tables (modprobe nf_tables)"),
    ("tcp_repair", "the loopback device has to be up (ip link set lo up)"),
];

/// The meaning of the first of these parts, or of `LACKING`, in a reason of CRIU's.
pub fn known<'a>(reason: &str, parts: &[(&str, &'a str)]) -> Option<&'a str> {
    let mut all = parts.iter().chain(&LACKING);
    all.find(|(part, _)| reason.contains(part)).map(|(_, meaning)| *meaning)
}

/// Makes a directory for a log that outlasts a failure.
pub fn place_for_log() -> Result<PathBuf, Error> {
    let template = std::env::temp_dir().join("eigentime-criu-XXXXXX");
    let made = mkdtemp(&template);
    made.map_err(|error| Error::file("make", &template)(error.into()))
}
