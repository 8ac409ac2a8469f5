//! The script that CRIU runs while the processes are stopped, which is the calling command again.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::Error;

/// The arguments with which the calling command calls [`crate::complete`] and [`crate::hold`]; the
/// directory is appended.
#[derive(Clone, Copy, Debug)]
pub struct Calls {
    /// To complete a checkpoint.
    pub complete: &'static [&'static str],
    /// To hold restored processes.
    pub hold: &'static [&'static str],
}

/// The tasks of a script, each at its own moment.
pub enum Task {
    Complete,
    Hold,
}

impl Calls {
    /// Writes the script to a directory.
    pub fn write(&self, task: &Task, directory: &Path) -> Result<PathBuf, Error> {
        let command =
            std::env::current_exe().map_err(Error::file("find", Path::new("eigentime")))?;
        let (moment, arguments) = match task {
            Task::Complete => ("post-dump", self.complete),
            Task::Hold => ("post-resume", self.hold),
        };
        let words = [command.into_os_string()].into_iter();
        let words = words.chain(arguments.iter().map(OsString::from));
        let words = words.chain([directory.as_os_str().to_owned()]);
        let call = words.map(|word| quoted(&word)).collect::<Vec<_>>().join(" ");
        // Whatever kills the command, the processes that it holds never run.
        let otherwise = match task {
            Task::Complete => "exit 1",
            Task::Hold => "{ kill -KILL \"$CRTOOLS_INIT_PID\"; exit 1; }",
        };
        let text = format!(
            "#!/bin/sh\n[ \"$CRTOOLS_SCRIPT_ACTION\" = {moment} ] || exit 0\n{call} || {otherwise}\n"
        );
        let script = directory.join("script");
        let written = File::create(&script).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.set_permissions(Permissions::from_mode(0o700))
        });
        written.map_err(Error::file("write", &script))?;
        Ok(script)
    }
}

/// Quotes a word for the shell.
fn quoted(word: &OsStr) -> String {
    format!("'{}'", word.to_string_lossy().replace('\'', r"'\''"))
}
