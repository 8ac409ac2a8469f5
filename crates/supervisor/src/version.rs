//! A timeline is joined by the version of this program that keeps it.
//!
//! A supervisor continues while its version is replaced by one that may prepare programs
//! differently. A process that joins then becomes the same program of the supervisor's version,
//! with the same arguments, environment and descriptors: the supervisor's own executable, or a file
//! beside it.
//!
//! # What is executed
//!
//! The caller may be root. It executes only what a supervisor of the same user runs, in the same
//! mount namespace, so neither another user nor a container chooses the file. A file beside the
//! supervisor's executable must be writable only by that user and root.

use std::convert::Infallible;
use std::ffi::{CString, OsStr};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::unistd::{execv, geteuid};
use serde_json::Value;

use crate::caller::arguments;
use crate::control::client::{Connection, Failure, supervisor_of};
use crate::control::protocol::Method;
use crate::error::Error;
use crate::proc;
use crate::region::interface;
use crate::registry::Name;

/// Returns if the supervisor at the other end prepares programs as this version does, or has ended.
/// Otherwise this process becomes the same program of the supervisor's version, and starts again.
pub fn match_supervisor(stream: &UnixStream, name: &Name) -> Result<(), Error> {
    // Opened before the supervisor answers: from then on the process ID could be that of another
    // process.
    let supervisor = File::open(format!("/proc/{}", supervisor_of(stream)));
    let theirs = match ask_interface(stream, name) {
        Ok(theirs) => theirs,
        Err(Failure::Gone(_)) => return Ok(()),
        Err(failure) => return Err(Error::Timeline(failure.to_string())),
    };
    // An older version reports nothing, and compares the numbers itself when it is joined.
    if theirs.is_none_or(|theirs| theirs == u64::from(interface())) {
        return Ok(());
    }
    let became = supervisor.map_err(|error| error.to_string()).and_then(|supervisor| {
        // The paths of `/proc` are followed from there.
        become_version_of(&format!("self/fd/{}", supervisor.as_raw_fd()))
    });
    match became {
        Ok(never) => match never {},
        Err(reason) => Err(Error::OtherVersion { timeline: name.to_string(), reason }),
    }
}

fn ask_interface(stream: &UnixStream, name: &Name) -> Result<Option<u64>, Failure> {
    let stream = stream.try_clone().map_err(|error| Failure::Refused(error.to_string()))?;
    let info: Value = Connection::new(stream, name)?.call(Method::Info {})?;
    Ok(info["interface"].as_u64())
}

/// Turns this process into the same program of the version that a process runs.
fn become_version_of(process: &str) -> Result<Infallible, String> {
    check_is_equal(process)?;
    let at = |error: io::Error| error.to_string();
    let [own, theirs] = [program_of("self").map_err(at)?, program_of(process).map_err(at)?];
    let (path, program) = match own.file_name() == theirs.file_name() {
        true => (theirs, open(format!("/proc/{process}/exe"), 0)),
        false => {
            let path = theirs.with_file_name(own.file_name().unwrap_or_default());
            let program = open_beside(&path);
            (path, program)
        }
    };
    let at = |error: io::Error| format!("{}: {error}", path.display());
    let program = program.map_err(at)?;
    let is_own = identity(&program.metadata().map_err(at)?)
        == identity(&fs::metadata("/proc/self/exe").map_err(at)?);
    if is_own {
        return Err(format!("{} has been replaced by this version", path.display()));
    }
    let words = arguments().into_iter().map(|word| CString::new(word.into_vec()));
    let words = words.collect::<Result<Vec<_>, _>>().expect("arguments hold no null byte");
    let file = CString::new(format!("/proc/self/fd/{}", program.as_raw_fd())).expect("a number");
    execv(&file, &words).map_err(|error| at(error.into()))
}

/// Checks that a process belongs to this user and is in the same mount namespace.
fn check_is_equal(process: &str) -> Result<(), String> {
    let user = |process: &str| proc::status_field(process, "Uid:");
    let same = user("self").is_some_and(|own| user(process) == Some(own));
    if !same {
        return Err("its supervisor is not of the same user".to_owned());
    }
    let namespace = |process: &str| proc::namespace(process, "mnt").map_err(|it| it.to_string());
    match namespace("self")? == namespace(process)? {
        true => Ok(()),
        false => Err("its supervisor is in another mount namespace".to_owned()),
    }
}

/// The path of a process's program, or its former path if it was replaced.
fn program_of(process: &str) -> io::Result<PathBuf> {
    /// The kernel's mark on a file that no longer has a name (proc_pid_exe(5)).
    const REPLACED: &[u8] = b" (deleted)";
    let path = fs::read_link(format!("/proc/{process}/exe"))?;
    let path = path.as_os_str().as_bytes();
    Ok(PathBuf::from(OsStr::from_bytes(path.strip_suffix(REPLACED).unwrap_or(path))))
}

/// Opens a program for execution only, if only this user and root can have written it.
fn open_beside(path: &Path) -> io::Result<File> {
    let folder = open(path.parent().unwrap_or(Path::new("/")), libc::O_DIRECTORY)?;
    let name = path.file_name().unwrap_or_default();
    let within = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
    let program = open(within, libc::O_NOFOLLOW)?;
    let found = program.metadata()?;
    match found.is_file() && is_trusted(&found) && is_trusted(&folder.metadata()?) {
        true => Ok(program),
        false => Err(io::Error::other("users other than root and this one may have written it")),
    }
}

fn open(path: impl AsRef<Path>, flags: i32) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_PATH | flags).open(path)
}

fn is_trusted(found: &Metadata) -> bool {
    let is_ours = [0, geteuid().as_raw()].contains(&found.uid());
    is_ours && found.mode() & 0o022 == 0
}

fn identity(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn only_what_nobody_else_can_write_is_executed() {
        let folder = std::env::temp_dir().join(format!("eigentime-version-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let program = folder.join("program");
        fs::write(&program, "").unwrap();
        symlink(&program, folder.join("link")).unwrap();
        let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
        let open = |mode, of_folder| {
            set(&program, mode).and_then(|()| set(&folder, of_folder)).unwrap();
            open_beside(&program).is_ok()
        };
        assert!(open(0o755, 0o755) && open(0o700, 0o700));
        for (mode, of_folder) in [(0o775, 0o755), (0o757, 0o755), (0o755, 0o775), (0o755, 0o1777)] {
            assert!(!open(mode, of_folder), "{mode:o} in {of_folder:o}");
        }
        assert!(open(0o755, 0o755) && open_beside(&folder.join("link")).is_err());
        assert!(open_beside(&folder).is_err() && open_beside(&folder.join("missing")).is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}
