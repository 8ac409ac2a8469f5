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
    /// Completing a checkpoint.
    Complete(Undo<'a>),
    /// Holding restored processes.
    Hold,
}

/// What has to be undone of a complete checkpoint.
pub enum Undo<'a> {
    Nothing,
    /// The script's directory has been renamed.
    Rename {
        to: &'a Path,
    },
    /// These files have been written.
    Write([PathBuf; 2]),
}

impl Task<'_> {
    /// What the shell does, whatever kills the command.
    fn otherwise(&self, directory: &Path) -> Vec<u8> {
        /// Ends stopped processes, children first.
        const END: &[u8] =
            b"end() { for child in $(cat /proc/$1/task/*/children); do end $child; done; \
            kill -KILL $1; }; end $CRTOOLS_INIT_PID";
        match self {
            // The processes, which CRIU then resumes, are not in a checkpoint as well.
            Self::Complete(Undo::Nothing) => b":".to_vec(),
            Self::Complete(Undo::Rename { to }) => {
                let (own, name) = (quoted(directory.as_os_str()), quoted(to.as_os_str()));
                [b"[ -e ", &own[..], b" ] || mv ", &name, b" ", &own].concat()
            }
            Self::Complete(Undo::Write(files)) => {
                let files = files.each_ref().map(|file| quoted(file.as_os_str()));
                [b"rm -f ", &files.join(&b" "[..])[..]].concat()
            }
            // Those that it holds never run.
            Self::Hold => END.to_vec(),
        }
    }
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
        let head = format!("#!/bin/sh\n[ \"$CRTOOLS_SCRIPT_ACTION\" = {moment} ] || exit 0\n");
        let otherwise = task.otherwise(directory);
        let text = [head.as_bytes(), &call, b" || { ", &otherwise, b"; exit 1; }\n"].concat();
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
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::directory::Scratch;

    /// The command is this test, which ends at an unknown option, as if it had been killed.
    const CALLS: Calls = Calls { complete: &["--unknown-option"], hold: &["--unknown-option"] };

    fn place() -> Scratch {
        Scratch(nix::unistd::mkdtemp("/tmp/eigentime-script-XXXXXX").unwrap())
    }

    /// The exit status of a script at a moment.
    fn run(script: &Path, moment: &str, root: u32) -> Option<i32> {
        let mut script = Command::new(script);
        script.env("CRTOOLS_SCRIPT_ACTION", moment).env("CRTOOLS_INIT_PID", root.to_string());
        script.output().unwrap().status.code()
    }

    #[test]
    fn a_name_is_taken_back() {
        let place = place();
        let (name, partial) = (place.0.join("it's"), place.0.join("it's.partial"));
        std::fs::create_dir(&partial).unwrap();
        CALLS.write(&Task::Complete(Undo::Rename { to: &name }), &partial).unwrap();
        std::fs::rename(&partial, &name).unwrap();
        assert_eq!(run(&name.join("script"), "pre-dump", 1), Some(0));
        assert!(name.exists());
        assert_eq!(run(&name.join("script"), "post-dump", 1), Some(1));
        assert!(partial.exists() && !name.exists());
    }

    #[test]
    fn files_are_removed() {
        let place = place();
        let files = ["it's one", "other"].map(|name| place.0.join(name));
        let script = CALLS.write(&Task::Complete(Undo::Write(files.clone())), &place.0).unwrap();
        File::create(&files[0]).unwrap();
        assert_eq!(run(&script, "post-dump", 1), Some(1));
        assert!(!files[0].exists());
    }

    #[test]
    fn children_are_ended() {
        let place = place();
        let script = CALLS.write(&Task::Hold, &place.0).unwrap();
        let mut tree = Command::new("sh");
        // The output is at its end once none of them is left.
        tree.args(["-c", "sleep 1000 & sh -c 'sleep 1000 & echo; wait' & echo; wait"]);
        let mut tree = tree.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = tree.stdout.take().unwrap();
        std::io::Read::read_exact(&mut output, &mut [0; 2]).unwrap();
        assert_eq!(run(&script, "post-resume", tree.id()), Some(1));
        assert_eq!(tree.wait().unwrap().signal(), Some(9));
        std::io::copy(&mut output, &mut std::io::sink()).unwrap();
    }
}
