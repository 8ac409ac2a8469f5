//! Checkpoints of programs, with their clocks: CRIU dumps and restores the processes, the
//! supervisor crate handles their time and brings them back into a timeline, and this crate
//! combines both.
//!
//! A checkpoint is a directory (`directory`). It is complete or does not exist: if CRIU ends the
//! processes, the directory gets its name while they are still stopped.
//!
//! - `arch`: what differs between architectures.
//! - `criu`: the command.
//! - `directory`: the parts of a checkpoint.
//! - `engines`: who can dump a container; `contained`: a checkpoint that an engine has written.
//! - `image`: the structure of CRIU's images; `filters`, `masks`, `seals`: what is changed in one
//!   before it is restored.
//! - `subject`: the processes of a checkpoint.
//! - `requested`: the clocks with which it resumes.
//! - `dump`, `restore`: there and back.
//! - `trust`: who can have written a checkpoint.
//! - `passes`: the runs of CRIU for a dump.
//! - `processor`: features that programs may have detected and another processor lacks.
//! - `script`: what CRIU calls while the processes are stopped.
//! - `hold`: restored processes, until they have their clocks.
//! - `container`: what is done around a container's runtime, which starts CRIU itself.

mod arch;
mod contained;
mod container;
mod criu;
mod directory;
mod dump;
mod engines;
mod filters;
mod hold;
mod image;
mod log;
mod masks;
mod partial;
mod passes;
mod processor;
mod requested;
mod restore;
mod script;
mod seals;
mod subject;
mod timers;
mod trust;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use eigentime_supervisor::registry::Name;

pub use container::{
    Container, Onward, Restarted, dump as dump_container, pre_dump as pre_dump_container,
    restore as restore_container,
};
pub use criu::Criu;
pub use dump::{Dumped, checkpoint, complete};
pub use hold::hold;
pub use passes::Dumping;
pub use requested::{Requested, parse_slew_rate};
pub use restore::{Restored, Restoring, Resumed, restore};
pub use script::Calls;
pub use subject::Of;

/// Why there is no checkpoint, or nothing was restored.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what it is")]
pub enum Error {
    #[error(
        "checkpoints require criu 4.0 or later, which was not found ({looked})\n\
         help: install it, or name it with --criu; without it, `eigentime ctl save` saves the \
         clocks of a timeline, and `eigentime run --continue` starts programs on them"
    )]
    NoCriu { looked: String },
    #[error(
        "{path} is criu {found}, and checkpoints require 4.0 or later: earlier versions do not \
         support Linux 6.13 and later\n\
         help: install a later version, or name it with --criu; without it, `eigentime ctl save` \
         saves the clocks of a timeline, and `eigentime run --continue` starts programs on them"
    )]
    OldCriu { path: PathBuf, found: String },
    #[error(
        "criu cannot dump {what}: {reason}\n\
         help: it continues as before; {}details are in {log}. {}",
        before_more(help),
        without_criu(timeline.as_ref())
    )]
    NotDumped {
        what: String,
        reason: String,
        help: &'static str,
        log: PathBuf,
        /// Of the subject, if it has a name of its own.
        timeline: Option<Name>,
    },
    #[error("criu cannot restore {what}: {reason}\nhelp: {help}; details are in {log}")]
    NotRestored { what: String, reason: String, help: &'static str, log: PathBuf },
    #[error(
        "{container} is a container of {engine}, and only {engine} can write its mounts and its network, to a \
         place of its own\n\
         help: {command}"
    )]
    Container { container: String, engine: &'static str, command: String },
    #[error("container {container}: this failed ({status}): {command}{}", in_help(written.as_deref()))]
    Engine {
        container: String,
        command: String,
        status: ExitStatus,
        /// Where it may have written a whole checkpoint.
        written: Option<PathBuf>,
    },
    #[error("{0} exists already\nhelp: name another directory")]
    Exists(PathBuf),
    #[error("{path} is not a complete checkpoint: {reason}\nhelp: create it again")]
    Damaged { path: PathBuf, reason: String },
    #[error(
        "users other than this one may have written {path}, and a checkpoint decides what is executed as root\n\
         help: if you trust all who may have written it, copy it to a directory of root's, or: \
         chown --recursive --no-dereference root '{directory}'; chmod --recursive go-w '{directory}'"
    )]
    Untrusted { directory: PathBuf, path: PathBuf },
    #[error(
        "{path} is a checkpoint of format version {found}, and eigentime {} supports version \
         {known}\n\
         help: restore it with the version of eigentime that created it, {by}",
        env!("CARGO_PKG_VERSION")
    )]
    OtherVersion { path: PathBuf, found: u64, known: u64, by: String },
    #[error("{0}")]
    Subject(String),
    #[error(transparent)]
    Supervisor(#[from] eigentime_supervisor::Error),
    #[error("cannot {action} {path}: {cause}")]
    File { action: &'static str, path: PathBuf, cause: io::Error },
}

impl Error {
    /// Wraps an I/O error on a file, for `map_err`.
    fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |cause| Self::File { action, path, cause }
    }
}

/// A duration in nanoseconds.
fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// The help for a command of an engine that was killed.
fn in_help(written: Option<&Path>) -> String {
    written.map_or_else(String::new, |path| {
        let path = path.display();
        format!("\nhelp: it may have ended the container; what it has written is in {path}")
    })
}

/// The help as a prefix of further text, or nothing if it is empty.
fn before_more(help: &str) -> String {
    if help.is_empty() { String::new() } else { format!("{help}; ") }
}

/// What can be saved without CRIU.
fn without_criu(timeline: Option<&Name>) -> String {
    match timeline {
        Some(name) => format!(
            "`eigentime ctl save {name}` saves the clocks of its timeline, and `eigentime run \
             --continue` starts programs on them"
        ),
        None => "Without criu, only the clocks of a timeline that has a name can be saved, which \
                 `eigentime run --timeline NAME` makes"
            .to_owned(),
    }
}
