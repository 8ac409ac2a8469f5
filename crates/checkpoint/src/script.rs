//! The script that CRIU runs while the processes are stopped, which is the calling command again.

use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
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
pub enum Task<'a> {
    /// Completing a checkpoint, which gives the directory this name, if any.
    Complete(Option<&'a Path>),
    /// Holding restored processes.
    Hold,
}

impl Calls {
    /// Writes the script to a directory.
    pub fn write(&self, task: &Task<'_>, directory: &Path) -> Result<PathBuf, Error> {
        let command =
            std::env::current_exe().map_err(Error::file("find", Path::new("eigentime")))?;
        let (moment, arguments) = match task {
            Task::Complete(_) => ("post-dump", self.complete),
            Task::Hold => ("post-resume", self.hold),
        };
        let mut call = quoted(command.as_os_str());
        for word in arguments.iter().map(OsStr::new).chain([directory.as_os_str()]) {
            call.extend([b" ", &quoted(word)[..]].concat());
        }
        // Whatever kills the command:
        let otherwise = match task {
            // The processes, which CRIU then resumes, are not in a checkpoint as well.
            Task::Complete(Some(name)) => {
                let (own, name) = (quoted(directory.as_os_str()), quoted(name.as_os_str()));
                [b"[ -e ", &own[..], b" ] || mv ", &name, b" ", &own, b"; exit 1"].concat()
            }
            Task::Complete(None) => b"exit 1".to_vec(),
            // Those that it holds never run.
            Task::Hold => b"kill -KILL \"$CRTOOLS_INIT_PID\"; exit 1".to_vec(),
        };
        let head = format!("#!/bin/sh\n[ \"$CRTOOLS_SCRIPT_ACTION\" = {moment} ] || exit 0\n");
        let text = [head.as_bytes(), &call, b" || { ", &otherwise, b"; }\n"].concat();
        let script = directory.join("script");
        let written = File::create(&script).and_then(|mut file| {
            file.write_all(&text)?;
            file.set_permissions(Permissions::from_mode(0o700))
        });
        written.map_err(Error::file("write", &script))?;
        Ok(script)
    }
}

/// Quotes a word for the shell.
fn quoted(word: &OsStr) -> Vec<u8> {
    let parts: Vec<_> = word.as_bytes().split(|letter| *letter == b'\'').collect();
    [b"'", &parts.join(&br"'\''"[..])[..], b"'"].concat()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::directory::Scratch;

    /// As if the command had been killed after it had given the directory its name.
    #[test]
    fn a_name_is_taken_back() {
        let place = Scratch(nix::unistd::mkdtemp("/tmp/eigentime-script-XXXXXX").unwrap());
        let name = place.0.join(OsStr::from_bytes(b"it's \xff"));
        let partial = place.0.join(OsStr::from_bytes(b"it's \xff.partial"));
        std::fs::create_dir(&partial).unwrap();
        // The command is this test, which ends at an unknown option.
        let calls = Calls { complete: &["--unknown-option"], hold: &[] };
        calls.write(&Task::Complete(Some(&name)), &partial).unwrap();
        std::fs::rename(&partial, &name).unwrap();
        let run = |moment: &str| {
            let mut script = Command::new(name.join("script"));
            script.env("CRTOOLS_SCRIPT_ACTION", moment).output().unwrap().status.code()
        };
        assert_eq!(run("pre-dump"), Some(0));
        assert!(name.exists());
        assert_eq!(run("post-dump"), Some(1));
        assert!(partial.exists() && !name.exists());
    }
}
