//! Installed programs, their versions, and how they are started.

use std::env;
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::prctl;
use nix::sys::signal::Signal;

/// The default search path for programs: engines start runtimes with almost no environment. The
/// last entries are those of CRI-O's packages, k0s and k3s.
pub(crate) const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:\
     /usr/libexec/crio:/var/lib/k0s/bin:/var/lib/rancher/k3s/data/current/bin";

/// Finds the program of this name on PATH, or in the usual directories of system programs, which an
/// ordinary user's PATH often lacks.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(env::split_paths(USUAL_PATH))
        .map(|folder| folder.join(name))
        .find(|file| is_program(file))
}

/// Whether this file can be executed.
pub fn is_program(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Makes the kernel kill the command when the thread that starts it ends.
pub fn ends_with_caller(command: &mut Command) {
    let end = || prctl::set_pdeathsig(Signal::SIGKILL).map_err(io::Error::from);
    // SAFETY: it only makes a system call.
    unsafe { command.pre_exec(end) };
}

/// Makes the command inherit a descriptor.
pub(crate) fn inherits(command: &mut Command, descriptor: RawFd) {
    let keep = move || {
        // SAFETY: the caller's descriptor is open in the new process as well.
        let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
        fcntl(descriptor, FcntlArg::F_SETFD(FdFlag::empty())).map(drop).map_err(io::Error::from)
    };
    // SAFETY: it only makes a system call.
    unsafe { command.pre_exec(keep) };
}

/// A version: its text, and its numbers for comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    text: String,
    numbers: [u32; 3],
}

impl Version {
    /// Asks a program for its version.
    pub fn of(program: &Path) -> Option<Self> {
        let mut command = Command::new(program);
        let output = command.arg("--version").stdin(Stdio::null()).output().ok()?;
        Self::in_text(&String::from_utf8_lossy(&output.stdout))
    }

    /// The first version in a text: a word of numbers and dots, with any suffix.
    pub fn in_text(text: &str) -> Option<Self> {
        text.split_whitespace().find_map(|word| {
            let word = word.trim_start_matches('v').trim_end_matches(',');
            let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
            let parts = word[..end].split('.').map(|part| part.parse::<u32>().ok());
            let parts = parts.collect::<Option<Vec<_>>>().filter(|parts| parts.len() > 1)?;
            let mut numbers = [0; 3];
            numbers.iter_mut().zip(parts).for_each(|(number, part)| *number = part);
            Some(Self { text: word.to_owned(), numbers })
        })
    }

    /// Whether it is this version or a later one.
    pub fn is_at_least(&self, numbers: [u32; 3]) -> bool {
        self.numbers >= numbers
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_print() {
        let cases = [
            ("runc version 1.1.5+ds1\ncommit: 1.1.5+ds1-1+deb12u1", "1.1.5+ds1", [1, 1, 5]),
            ("crun version 1.21\ncommit: 10269840", "1.21", [1, 21, 0]),
            ("podman version 4.3.1", "4.3.1", [4, 3, 1]),
            ("Docker version 20.10.24+dfsg1, build 5d6db84", "20.10.24+dfsg1", [20, 10, 24]),
            ("containerd github.com/containerd/containerd/v2 v2.4.2 1a2b", "2.4.2", [2, 4, 2]),
            ("containerd github.com/containerd/containerd 1.6.20~ds1", "1.6.20~ds1", [1, 6, 20]),
            ("6.18.0-rc1+", "6.18.0-rc1+", [6, 18, 0]),
        ];
        for (text, shown, numbers) in cases {
            let version = Version::in_text(text).unwrap();
            assert_eq!((version.to_string().as_str(), version.numbers), (shown, numbers));
        }
        assert_eq!(Version::in_text("youki"), None);
    }

    #[test]
    fn versions_compare_by_their_numbers() {
        let version = Version::in_text("crun version 1.8.4").unwrap();
        assert!(version.is_at_least([1, 8, 4]) && version.is_at_least([1, 8, 0]));
        assert!(!version.is_at_least([1, 21, 0]) && !version.is_at_least([2, 0, 0]));
    }
}
