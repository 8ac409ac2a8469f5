//! Operations that all engines support, each with its own command line.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::Finished;
use crate::containers::bundle::Bundles;
use crate::containers::spec::Spec;
use crate::suite::Broken;

/// Reports that an engine has no option for such a container.
#[derive(Debug)]
pub struct Unable(pub String);

impl From<Unable> for Broken {
    fn from(unable: Unable) -> Self {
        Broken(unable.0)
    }
}

/// How a program enters a running container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exec {
    /// As the container's user, with its output here.
    Plain,
    /// The same with immediate output, and with input.
    Talking,
    /// As another user.
    User(u32, u32),
    /// In the background.
    Detached,
}

impl Exec {
    /// Its option, which is the same for all engines; none for a plain one.
    pub fn option(self) -> Option<String> {
        match self {
            Exec::Plain | Exec::Talking => None,
            Exec::User(user, group) => Some(format!("--user={user}:{group}")),
            Exec::Detached => Some("--detach".to_owned()),
        }
    }
}

/// An engine, or a directly called runtime.
pub trait Engine: Send + Sync {
    /// Runs a container in the foreground, with input, and removes it at the end.
    fn run(&self, name: &str, spec: &Spec) -> Result<Command, Unable>;

    /// Starts a container in the background.
    fn start(&self, name: &str, spec: &Spec) -> Result<Command, Unable>;

    /// Runs a program in a container; its words are added.
    fn exec(&self, name: &str, how: Exec) -> Command;

    /// Sends a signal, called `TERM` or `KILL`, to a container's first process.
    fn signal(&self, name: &str, signal: &str) -> Command;

    /// Pauses or resumes all processes of a container.
    fn pause(&self, name: &str, is_paused: bool) -> Command;

    /// Removes a container, running or not.
    fn remove(&self, name: &str);

    /// Prints the output of a container.
    fn logs(&self, name: &str) -> Command;

    /// Stops a container and starts it again.
    fn restart(&self, name: &str) -> Command;

    /// Returns a container's full ID.
    fn id(&self, name: &str) -> Result<String, Broken>;

    /// Returns the host's process ID of a container's first process.
    fn init(&self, name: &str) -> Result<u32, Broken>;

    /// Returns `eigentime ctl` of the user and the place of its timelines.
    fn ctl(&self) -> Result<Command, Broken>;

    /// Fetches an image from a registry without encryption.
    fn pull(&self, reference: &str) -> Command;

    /// Makes a pod.
    fn make_pod(&self, name: &str) -> Result<(), Broken>;

    /// Removes a pod with all its containers.
    fn remove_pod(&self, name: &str);

    /// Returns the runtime itself, if there is no engine.
    fn bundles(&self) -> Option<&Bundles> {
        None
    }

    /// Removes all containers and ends all daemons.
    fn shut_down(&self);
}

/// The caller of an engine's commands: a user with an environment, behind other commands.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// Precedes each command.
    pub prefix: Vec<OsString>,
    /// Whether it replaces the environment instead of extending this process's.
    pub replaces_environment: bool,
    /// `None` removes a variable.
    pub environment: Vec<(OsString, Option<OsString>)>,
    pub directory: Option<PathBuf>,
}

impl Caller {
    /// Adds a variable.
    pub fn with(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), Some(value.into())));
        self
    }

    /// Returns a command, to which its words are added.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut words: Vec<&OsStr> = self.prefix.iter().map(OsString::as_os_str).collect();
        words.push(program.as_ref());
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        if self.replaces_environment {
            command.env_clear();
        }
        for (name, value) in &self.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command
    }
}

/// Runs a command in a shell: the script finds a file as `$1`, followed by the words.
pub fn by_script(script: &str, file: &Path, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh"]).arg(file);
    shell.arg(command.get_program()).args(command.get_args());
    for (variable, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(variable, value),
            None => shell.env_remove(variable),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        shell.current_dir(directory);
    }
    shell
}

/// The output of a command, which must have succeeded, without surrounding whitespace.
pub fn printed(ended: &Finished) -> Result<String, Broken> {
    ended.expect_code(0)?;
    Ok(ended.output().trim().to_owned())
}
