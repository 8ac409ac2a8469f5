//! Time and user namespaces.

use std::fmt::Display;
use std::fs::{self, File};
use std::path::PathBuf;

use eigentime_timeline::{Nanos, Timespec};
use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::Pid;

use crate::error::{Error, errno};
use crate::proc;

/// CLONE_NEWTIME, which the `nix` crate does not define.
const CLONE_NEWTIME: CloneFlags = CloneFlags::from_bits_retain(libc::CLONE_NEWTIME);

/// Moves the calling process, which must have a single thread, into a new time namespace with these
/// offsets. If that is not permitted, it enters a new user namespace first, in which it keeps its
/// user and group IDs.
///
/// Returns whether a user namespace was needed.
pub fn enter(monotonic: Nanos, boottime: Nanos) -> Result<bool, Error> {
    let made = make(monotonic, boottime);
    match made {
        Ok(()) => {}
        Err(Errno::EPERM | Errno::EACCES) => {
            enter_user_namespace()?;
            make(monotonic, boottime).map_err(|cause| refused("make a time namespace", cause))?;
        }
        Err(Errno::EINVAL) => return Err(Error::NoTimeNamespaces),
        Err(cause) => return Err(refused("make a time namespace", cause)),
    }
    // unshare() applies only to children; this applies to the caller itself.
    let namespace = File::open(MADE).map_err(|error| refused(MADE, errno(error)))?;
    setns(namespace, CLONE_NEWTIME).map_err(|cause| refused("enter the time namespace", cause))?;
    Ok(made.is_err())
}

/// The same for a process that must stay in its user namespace.
pub fn enter_as_privileged([monotonic, boottime]: [Nanos; 2]) -> nix::Result<()> {
    make(monotonic, boottime)?;
    setns(File::open(MADE).map_err(errno)?, CLONE_NEWTIME)
}

/// The error for a refusal of [`enter_as_privileged`].
pub fn refusal(cause: Errno) -> Error {
    match cause {
        Errno::EINVAL => Error::NoTimeNamespaces,
        cause => refused("make a time namespace", cause),
    }
}

/// Moves the calling process, which must have a single thread, into the time namespace of another
/// process, if it is in a different one.
pub fn join_time(process: Pid) -> nix::Result<()> {
    join(process, "time", CLONE_NEWTIME)
}

/// The same for the user namespace.
pub fn join_user(process: Pid) -> nix::Result<()> {
    join(process, "user", CloneFlags::CLONE_NEWUSER)
}

fn join(process: Pid, kind: &str, flag: CloneFlags) -> nix::Result<()> {
    let name = |process: &dyn Display| proc::namespace(process, kind).map_err(errno);
    if name(&"self")? == name(&process)? {
        return Ok(());
    }
    let other = File::open(format!("/proc/{process}/ns/{kind}"));
    setns(other.map_err(errno)?, flag)
}

/// The time namespace of a process, if the calling process is in another one.
pub fn other_time(process: Pid) -> Option<PathBuf> {
    // If it cannot be read, it is that of a supervisor outside this user namespace, as are the time
    // namespaces that this process could have had from there.
    let is_other =
        proc::namespace(process, "time").is_ok() && !proc::shares_namespace(process, "time");
    is_other.then(|| format!("/proc/{process}/ns/time").into())
}

/// Whether this process has CAP_SYS_ADMIN in its user namespace.
#[must_use]
pub fn is_privileged() -> bool {
    const SYS_ADMIN: u32 = 21;
    proc::has_capability("self", SYS_ADMIN)
}

/// Creates a time namespace for the children of the calling process. That requires CAP_SYS_ADMIN,
/// and the offsets CAP_SYS_TIME, which root in a container often lacks.
fn make(monotonic: Nanos, boottime: Nanos) -> nix::Result<()> {
    unshare(CLONE_NEWTIME).and_then(|()| write(OFFSETS, &offsets(monotonic, boottime)))
}

fn offsets(monotonic: Nanos, boottime: Nanos) -> String {
    format!("monotonic {}\nboottime {}\n", offset(monotonic), offset(boottime))
}

/// The time namespace that a process has created.
const MADE: &str = "/proc/self/ns/time_for_children";

/// The offsets of a time namespace without members.
const OFFSETS: &str = "/proc/self/timens_offsets";

fn write(path: &str, text: &str) -> nix::Result<()> {
    fs::write(path, text).map_err(errno)
}

/// Moves the calling process into a new user namespace, in which it keeps its user and group IDs.
pub fn enter_user_namespace() -> Result<(), Error> {
    let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    unshare(CloneFlags::CLONE_NEWUSER)
        .map_err(|cause| refused("unshare a user namespace", cause))?;
    // Without privilege, groups may be mapped only after setgroups() is denied.
    let settings = [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{uid} {uid} 1")),
        ("/proc/self/gid_map", format!("{gid} {gid} 1")),
    ];
    for (path, text) in settings {
        write(path, &text).map_err(|cause| refused(path, cause))?;
    }
    Ok(())
}

/// An offset in the format of `timens_offsets`: the nanoseconds are never negative.
fn offset(nanos: Nanos) -> String {
    let Timespec { sec, nsec } = Timespec::from_signed_nanos(nanos);
    format!("{sec} {nsec}")
}

fn refused(step: &str, cause: Errno) -> Error {
    Error::NamespaceRefused { cause: format!("{step}: {}", cause.desc()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_offsets_have_positive_nanoseconds() {
        assert_eq!(offset(Nanos(-1_500_000_000)), "-2 500000000");
        assert_eq!(offset(Nanos(1_500_000_000)), "1 500000000");
    }
}
