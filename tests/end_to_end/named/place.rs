//! A runtime directory for one test, and the timelines in it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::shown::Shown;
use crate::command::{Finished, NOBODY, User, run};
use crate::needs::is_root;
use crate::processes::{Watch, command_line, send, status_field};
use crate::session::Session;
use crate::suite::{Broken, Outcome};
use crate::workspace::{self, ONLY_VARIABLE, RUNTIME_VARIABLE};

/// `ctl` answers in milliseconds; the product itself gives up after ten seconds.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// How long a condition may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Pause between two polls.
const PAUSE: Duration = Duration::from_millis(5);

/// A user's own runtime directory. When it is dropped, all timelines in it end.
pub struct Place {
    user: User,
    directory: PathBuf,
}

impl Place {
    /// A place for the user who runs the tests.
    pub fn new() -> Result<Self, Broken> {
        Self::of(User::Myself)
    }

    /// A place for this user.
    pub fn of(user: User) -> Result<Self, Broken> {
        let directory = workspace::scratch()?;
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700))?;
        if user == User::Nobody && is_root() {
            chown(&directory, Some(NOBODY), Some(NOBODY))?;
        }
        Ok(Place { user, directory })
    }

    /// The runtime directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The folder with the sockets.
    pub fn sockets(&self) -> PathBuf {
        self.directory.join("eigentime")
    }

    /// A program of this place's user, outside any timeline.
    pub fn outside(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.user.wrap(program.as_ref());
        command.env(RUNTIME_VARIABLE, &self.directory).env(ONLY_VARIABLE, &self.directory);
        command
    }

    /// Returns `eigentime run --timeline NAME OPTIONS --`, to which the program is added.
    pub fn run(&self, name: &str, options: &[&str]) -> Result<Command, Broken> {
        self.run_private(&[&["--timeline", name], options].concat())
    }

    /// Returns `eigentime run OPTIONS --`, to which the program is added.
    pub fn run_private(&self, options: &[&str]) -> Result<Command, Broken> {
        let mut command = self.user.eigentime(options)?;
        command.env(RUNTIME_VARIABLE, &self.directory).env(ONLY_VARIABLE, &self.directory);
        Ok(command)
    }

    /// Makes a timeline without members.
    pub fn make(&self, name: &str, options: &[&str]) -> Outcome {
        run(self.run(name, options)?.arg("true"), ANSWER_LIMIT)?.expect_code(0)?;
        Ok(())
    }

    /// Starts a conversation with a program in a timeline.
    pub fn talk(
        &self,
        name: &str,
        options: &[&str],
        program: impl AsRef<OsStr>,
        arguments: &[&str],
    ) -> Result<Session, Broken> {
        let mut command = self.run(name, options)?;
        command.arg(program.as_ref()).args(arguments);
        Session::start(command)
    }

    /// Runs `eigentime ctl WORDS`, whatever its exit status.
    pub fn ctl(&self, words: &[&str]) -> Result<Finished, Broken> {
        run(self.outside(self.user.binary()?).arg("ctl").args(words), ANSWER_LIMIT)
    }

    /// The same, which must succeed; returns its output.
    pub fn done(&self, words: &[&str]) -> Result<String, Broken> {
        let ended = self.ctl(words)?;
        ended.expect_code(0)?;
        ended.ensure(ended.errors.is_empty(), "it complains")?;
        Ok(ended.output())
    }

    /// The state of a timeline.
    pub fn show(&self, name: &str) -> Result<Shown, Broken> {
        let text = self.done(&["show", name, "--json"])?;
        serde_json::from_str(&text).map_err(|error| Broken(format!("{error} in\n{text}")))
    }

    /// Waits until a timeline that a program makes answers.
    pub fn await_start(&self, name: &str) -> Outcome {
        let end = Instant::now() + PATIENCE;
        while self.ctl(&["show", name])?.status.code() != Some(0) {
            if Instant::now() > end {
                return Err(Broken(format!("timeline {name} is not made")));
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Polls until a timeline is in such a state.
    pub fn wait_until(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&Shown) -> bool,
    ) -> Result<Shown, Broken> {
        let end = Instant::now() + PATIENCE;
        loop {
            let shown = self.show(name)?;
            if holds(&shown) {
                return Ok(shown);
            }
            if Instant::now() > end {
                return Err(Broken(format!("not within {PATIENCE:?}: {what}\n{shown:#?}")));
            }
            thread::sleep(PAUSE);
        }
    }

    /// Removes a timeline with its members, and checks that nothing is left.
    pub fn remove(&self, name: &str) -> Outcome {
        let shown = self.show(name)?;
        let watch = Watch::new(shown.supervisor)?;
        // Its answer has a test of its own.
        self.ctl(&["rm", "--force", name])?;
        if !watch.ends_within(PATIENCE)? {
            return Err(Broken(format!("supervisor {} goes on after rm", shown.supervisor)));
        }
        if self.sockets().join(name).exists() {
            return Err(Broken(format!("the socket of {name} is left")));
        }
        self.expect_nobody()
    }

    /// Waits until every process started here has ended.
    pub fn expect_nobody(&self) -> Outcome {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = self.processes();
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(Broken(format!("left behind: {}", self.tell_processes())));
            }
            thread::sleep(PAUSE);
        }
    }

    /// All live processes started here: even a supervisor has the environment of the command that
    /// made it.
    pub fn processes(&self) -> Vec<u32> {
        let mark =
            [RUNTIME_VARIABLE.as_bytes(), b"=", self.directory.as_os_str().as_bytes()].concat();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(|pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry == mark)
                && status_field(*pid, "State").is_some_and(|state| !state.starts_with(['Z', 'X']))
        })
        .collect()
    }

    /// The activities of all processes started here, for diagnosis.
    pub fn tell_processes(&self) -> String {
        let read = |path: String| fs::read_to_string(path).unwrap_or_default();
        let tell = |pid: u32| {
            let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            let tasks = tasks.map(|task| {
                let task = task.file_name().to_string_lossy().into_owned();
                let wchan = read(format!("/proc/{pid}/task/{task}/wchan"));
                let call = read(format!("/proc/{pid}/task/{task}/syscall"));
                format!("{task} in {wchan} ({})", call.trim())
            });
            let tasks: Vec<_> = tasks.collect();
            format!(
                "{pid} ({}) {} traced by {}: {}",
                command_line(pid),
                status_field(pid, "State").unwrap_or_default(),
                status_field(pid, "TracerPid").unwrap_or_default(),
                tasks.join(", ")
            )
        };
        let told: Vec<_> = self.processes().into_iter().map(tell).collect();
        told.join("\n")
    }

    /// The supervisors that run here, including those that do not answer yet: they are session
    /// leaders.
    pub fn supervisors(&self) -> Vec<u32> {
        let leads = |pid: &u32| {
            status_field(*pid, "NSsid").is_some_and(|sid| sid == pid.to_string())
                && status_field(*pid, "Name").as_deref() == Some("eigentime")
        };
        self.processes().into_iter().filter(leads).collect()
    }

    /// The names of the existing sockets.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.sockets()).into_iter().flatten().flatten();
        let sockets = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()));
        let mut names: Vec<_> =
            sockets.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// Cleans up after a failed test. One that passed has left nothing.
impl Drop for Place {
    fn drop(&mut self) {
        for pid in self.supervisors().into_iter().chain(self.processes()) {
            // It may have ended meanwhile.
            let _ = send(pid, Signal::KILL);
        }
    }
}
