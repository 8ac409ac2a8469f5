//! The command `criu`.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::unistd::mkdtemp;

use crate::Error;

/// The first version that knows the vDSO of today's kernels.
const FIRST: u32 = 4;

/// What names the command, where no option does.
const VARIABLE: &str = "EIGENTIME_CRIU";

/// What it says where the kernel does not tell which memory changes.
const NO_TRACKING: &str = "Dirty tracking is OFF";

/// The command, of a version that is known to work.
#[derive(Clone, Debug)]
pub struct Criu {
    path: PathBuf,
    /// Its version.
    pub version: String,
}

impl Criu {
    /// The one at `path`, else the one that the environment names.
    ///
    /// # Errors
    ///
    /// If it is not there, or too old.
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

    /// Does the kernel tell it which memory has changed since it looked last? If it cannot find that out: why.
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
        Command::new(&self.path)
            .args(arguments)
            .args([OsStr::new("-o"), log.as_os_str(), OsStr::new("-v4")])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said)
            .spawn()
    }

    /// The directories in which commands are looked for, with that of this one first, for whoever starts
    /// the command `criu`.
    pub fn first_in_path(&self) -> OsString {
        let own = self.path.parent().filter(|own| own.is_absolute()).map(Path::to_owned);
        let others = std::env::var_os("PATH").unwrap_or_default();
        let all: Vec<_> = own.into_iter().chain(std::env::split_paths(&others)).collect();
        std::env::join_paths(all).unwrap_or(others)
    }
}

/// Waits for its end; why it has failed, if it has.
pub fn outcome(mut child: Child, log: &Path) -> io::Result<Result<(), String>> {
    let status = child.wait()?;
    let path = log.with_extension("stderr");
    let said = fs::read(&path).unwrap_or_default();
    // It is of no use any more.
    let _ = fs::remove_file(&path);
    if status.success() {
        return Ok(Ok(()));
    }
    let log = fs::read(log).unwrap_or_default();
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    Ok(Err(reason(&String::from_utf8_lossy(&log)).unwrap_or_else(|| unknown(&said, status))))
}

/// What can be told where it gives no reason.
fn unknown(said: &str, status: ExitStatus) -> String {
    format!("it says '{said}' ({status})")
}

/// What to do about what the kernel lacks.
const LACKING: [(&str, &str); 2] = [
    ("nftables", "the kernel needs the module nf_tables (modprobe nf_tables)"),
    ("tcp_repair", "the loopback device has to be up (ip link set lo up)"),
];

/// What the first part that a reason of CRIU's has stands for, by these or by what the kernel lacks.
pub fn known<'a>(reason: &str, parts: &[(&str, &'a str)]) -> Option<&'a str> {
    let mut all = parts.iter().chain(&LACKING);
    all.find(|(part, _)| reason.contains(part)).map(|(_, meaning)| *meaning)
}

/// A directory for a log that outlasts a failure.
pub fn place_for_log() -> Result<PathBuf, Error> {
    let template = std::env::temp_dir().join("eigentime-criu-XXXXXX");
    let made = mkdtemp(&template);
    made.map_err(|error| Error::file("make", &template)(error.into()))
}

/// For how long the processes have been stopped when CRIU runs its script at the end of a dump, as its log
/// tells.
pub fn stopped_for(log: &str) -> Option<Duration> {
    let last = |text: &str| when(log.lines().rfind(|line| line.contains(text))?);
    last("Running post-dump scripts")?.checked_sub(last(SEIZED)?)
}

/// For how long the first process that CRIU has stopped was stopped, where it has let all go on.
pub fn stood_for(log: &str) -> Option<Duration> {
    let first = log.lines().find(|line| line.contains(SEIZED));
    let last = log.lines().rfind(|line| line.contains("Unfreezing tasks"));
    when(last?)?.checked_sub(when(first?)?)
}

const SEIZED: &str = "Seized task ";

/// The moment that a line of a log tells.
fn when(line: &str) -> Option<Duration> {
    let (seconds, _) = line.strip_prefix('(')?.split_once(')')?;
    seconds.parse().ok().map(Duration::from_secs_f64)
}

/// The error in a log that matters: that the kernel lacks something without which CRIU does nothing, else the first.
fn reason(log: &str) -> Option<String> {
    // It goes on without these.
    const HARMLESS: [&str; 7] = [
        "rlimit: Can't setup",
        "Can't keep kdat cache",
        "sockets: Diag module missing",
        "tun: Unable to create tun",
        "-95 reported by netlink",
        "net: Unable to create a veth pair",
        "Can't wait or bad status",
    ];
    const UNUSABLE: &str = "failed when initializing kerndat";
    let errors = log.lines().filter_map(|line| {
        let (_, error) = line.split_once("Error (")?;
        let (_, text) = error.split_once("): ")?;
        let text = text.strip_prefix("kerndat: ").unwrap_or(text).trim();
        (!HARMLESS.iter().any(|harmless| text.starts_with(harmless))).then_some(text)
    });
    let unusable = errors.clone().find(|text| text.contains(UNUSABLE));
    unusable.or(errors.clone().next()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_tells_for_how_long_the_processes_are_stopped() {
        let log = "(00.090497) Seized task 501, state 1\n(00.090597) Seized task 502, state 1\n\
                   (01.134229) Running post-dump scripts\n(01.140497) Unfreezing tasks into 1\n";
        assert_eq!(stopped_for(log), Some(Duration::from_micros(1_043_632)));
        assert_eq!(stood_for(log), Some(Duration::from_millis(1_050)));
        assert_eq!(stopped_for("(00.090497) Seized task 501, state 1\n"), None);
    }

    #[test]
    fn the_first_error_that_matters_is_the_reason() {
        let log = "(00.04) Error (criu/util.c:1533): rlimit: Can't setup RLIMIT_NOFILE for self: no\n\
                   (00.05)   1941: Error (criu/files-reg.c:2175): File a has bad size 2 (expect 1)\n\
                   (00.06) Error (criu/cr-restore.c:2320): Restoring FAILED.\n";
        assert_eq!(reason(log).as_deref(), Some("File a has bad size 2 (expect 1)"));
        assert_eq!(reason("(00.01) Dumping finished successfully\n"), None);
        let lacking = "Error (criu/tun.c:85): tun: Unable to create tun: No such file or directory\n\
                       Error (criu/kerndat.c:727): Unable to connect a socket: Network is unreachable\n\
                       Error (criu/kerndat.c:1877): kerndat_tcp_repair failed when initializing kerndat.\n\
                       Error (criu/crtools.c:267): Could not initialize kernel features detection.\n";
        let expected = "kerndat_tcp_repair failed when initializing kerndat.";
        assert_eq!(reason(lacking).as_deref(), Some(expected));
    }
}
