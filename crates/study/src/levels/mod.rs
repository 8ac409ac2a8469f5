//! Where probes run.
//!
//! Each level starts `eigentime-probe serve` in its own way; all use the same protocol
//! ([`eigentime_probe::protocol`]).
//!
//! - `local`: this host, a time namespace, a container.
//! - `command`: anything reached through a command: `ssh`, `kubectl exec`, another hypervisor's
//!   guest.
//! - `vm`: a virtual machine of our own.
//! - `rootfs`: a container's temporary file system.
//! - `process`: probes behind the pipes of a process.
//! - `facts`: what is known of a level.

pub mod command;
mod facts;
pub mod local;
pub mod process;
pub mod rootfs;
pub mod vm;

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

pub use facts::LevelFacts;
pub use process::{Complaints, Outcome};

use crate::stop::Stop;

/// A serving probe, until this is dropped.
pub struct Channel {
    /// Requests, a line each.
    pub to: Box<dyn Write + Send>,
    /// The greeting and answers, a line each.
    pub from: Box<dyn BufRead + Send>,
    /// Ends the started processes and removes temporary files when dropped. `to` is dropped before
    /// it, which tells the probe to end.
    pub held: Box<dyn Send>,
    /// Properties of this level that are not among the doctor's facts: `accelerator` → `kvm`.
    pub notes: BTreeMap<String, String>,
    /// The standard error of the started process.
    pub complaints: Complaints,
    /// Its exit status.
    pub outcome: Outcome,
}

/// A level, ready to be opened.
pub trait Level {
    /// Its name in the results: `baseline`, `namespace`, `container`, `vm`, or a custom one.
    fn name(&self) -> &str;

    /// Starts a probe there. Its first output is the greeting. A long start ends when the study is
    /// asked to stop.
    ///
    /// # Errors
    /// [`Unavailable`], with what it needs.
    fn open(&self, stop: &Stop) -> Result<Channel, Unavailable>;

    /// A remedy if a started probe does not send its greeting.
    fn help(&self) -> &str {
        "see whether the probe can be run there: eigentime-probe facts --quick"
    }

    /// A folder there for the files of loads; it should be on a disk.
    fn folder(&self) -> &Path {
        Path::new("/var/tmp")
    }
}

/// Why a level is unavailable here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}\nhelp: {help}")]
pub struct Unavailable {
    /// The reason.
    pub why: String,
    /// The remedy.
    pub help: String,
}

impl Unavailable {
    /// With this reason and this help.
    pub fn new(why: impl Into<String>, help: impl Into<String>) -> Self {
        Self { why: why.into(), help: help.into() }
    }
}

/// The requested level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// This host.
    Baseline,
    /// A time namespace only.
    Namespace,
    /// A container: all eight namespaces.
    Container,
    /// A virtual machine.
    Vm,
    /// One reached through a command.
    Command {
        /// Its name in the results.
        name: String,
        /// The words before the command that runs there.
        prefix: Vec<String>,
    },
}

/// The built-in levels.
const NAMED: [(&str, Asked); 4] = [
    ("baseline", Asked::Baseline),
    ("namespace", Asked::Namespace),
    ("container", Asked::Container),
    ("vm", Asked::Vm),
];

/// The separator between the name of a level and its command, or the prefix of a command.
const COMMAND: &str = "command:";

impl Asked {
    /// Its name in the results.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Command { name, .. } => name,
            named => NAMED.iter().find(|(_, level)| level == named).map_or("", |(name, _)| name),
        }
    }

    /// Parses a list: `baseline,namespace`; or one level that is a command, which may contain
    /// commas: `command:ssh host`, `NAME=command:ssh host`.
    ///
    /// # Errors
    /// The syntax error.
    pub fn parse(text: &str) -> Result<Vec<Self>, String> {
        if let Some(prefix) = text.strip_prefix(COMMAND) {
            return Self::command(text, prefix).map(|level| vec![level]);
        }
        if let Some((name, prefix)) = text.split_once(&format!("={COMMAND}"))
            && !name.contains(',')
        {
            return Self::command(name, prefix).map(|level| vec![level]);
        }
        if text.split(',').any(|one| one.contains(COMMAND)) {
            return Err(format!(
                "a level with a command is a --level of its own, because commands hold commas: \
                 --level baseline --level '{}'",
                text.split_once(',').map_or(text, |(_, rest)| rest)
            ));
        }
        text.split(',').map(Self::named).collect()
    }

    fn named(name: &str) -> Result<Self, String> {
        NAMED.iter().find(|(known, _)| *known == name).map(|(_, level)| level.clone()).ok_or_else(
            || {
                let all = NAMED.map(|(name, _)| name).join(", ");
                format!("there is no level '{name}': there are {all}, and command:'ssh host'")
            },
        )
    }

    fn command(name: &str, prefix: &str) -> Result<Self, String> {
        let is_odd = |letter: char| letter == '=' || letter.is_whitespace();
        if !name.starts_with(COMMAND) && name.contains(is_odd) {
            return Err(format!(
                "'{name}' is no name for a level: one has no commas, no '=' and no white space"
            ));
        }
        let prefix = shell_words::split(prefix).map_err(|error| error.to_string())?;
        match (name.is_empty(), prefix.is_empty(), NAMED.iter().any(|(known, _)| *known == name)) {
            (true, ..) => Err("a level needs a name before '='".into()),
            (_, true, _) => Err("a command is needed after 'command:', such as 'ssh host'".into()),
            (.., true) => Err(format!("'{name}' is a level already: call this one otherwise")),
            _ => Ok(Self::Command { name: name.to_owned(), prefix }),
        }
    }

    /// Creates the level.
    #[must_use]
    pub fn level(&self, tools: &Tools) -> Box<dyn Level> {
        let local = |place| Box::new(local::Local::new(place, tools));
        match self {
            Self::Baseline => local(local::Place::Baseline),
            Self::Namespace => local(local::Place::Namespace),
            Self::Container => local(local::Place::Container),
            Self::Vm => {
                let mut settings = vm::Settings::new(&tools.probe);
                settings.kernel.clone_from(&tools.kernel);
                settings.accelerator = tools.accelerator;
                Box::new(vm::Vm::from(settings))
            }
            Self::Command { name, prefix } => Box::new(command::Remote {
                name: name.clone(),
                prefix: prefix.clone(),
                eigentime: tools.eigentime.clone(),
                probe: tools.probe.clone(),
                folder: tools.folder.clone(),
            }),
        }
    }
}

/// The resources for creating levels.
#[derive(Clone, Debug)]
pub struct Tools {
    /// The probe: a static executable.
    pub probe: PathBuf,
    /// The command `eigentime`, which enters namespaces.
    pub eigentime: PathBuf,
    /// The folder for the files of loads.
    pub folder: PathBuf,
    /// The virtual machine's kernel; by default, the one that is found.
    pub kernel: Option<PathBuf>,
    /// The virtual machine's accelerator; by default, one that works here.
    pub accelerator: Option<vm::Accelerator>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_names_or_commands() {
        let names = Asked::parse("baseline,vm").unwrap();
        assert_eq!(names, [Asked::Baseline, Asked::Vm]);
        assert_eq!(names[1].name(), "vm");
        let command = Asked::parse("pod=command:kubectl exec -i 'a pod' --").unwrap();
        let words = ["kubectl", "exec", "-i", "a pod", "--"].map(str::to_owned);
        assert_eq!(command, [Asked::Command { name: "pod".into(), prefix: words.into() }]);
        let nameless = Asked::parse("command:ssh -o a=1,b host").unwrap();
        assert_eq!(nameless[0].name(), "command:ssh -o a=1,b host");
        for wrong in ["", "base", "baseline,", "command:", "=command:x", "vm=command:x", "a=b"] {
            assert!(Asked::parse(wrong).is_err(), "{wrong}");
        }
        assert!(Asked::parse("x=command:it's").is_err());
        for (wrong, said) in [
            ("baseline,command:podman exec -i x", "--level baseline --level 'command:podman"),
            ("baseline,c=command:ssh a,b", "--level 'c=command:ssh a,b'"),
            ("a b=command:x", "'a b' is no name"),
            ("a=b=command:x", "'a=b' is no name"),
        ] {
            let why = Asked::parse(wrong).unwrap_err();
            assert!(why.contains(said), "{wrong}: {why}");
        }
    }
}
