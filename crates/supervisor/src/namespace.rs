//! Time and user namespaces.

use std::fs::{self, File};

use eigentime_timeline::{Nanos, Timespec};
use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};

use crate::error::Error;

/// CLONE_NEWTIME, which the `nix` crate does not name.
const CLONE_NEWTIME: CloneFlags = CloneFlags::from_bits_retain(libc::CLONE_NEWTIME);

/// Moves the calling process, which must have one thread only, into a new time
/// namespace with these offsets. Where that is not allowed to it, it goes into a
/// new user namespace first, in which it keeps its user and group id.
///
/// Returns whether a user namespace was needed.
pub fn enter(monotonic: Nanos, boottime: Nanos) -> Result<bool, Error> {
    let offsets = format!("monotonic {}\nboottime {}\n", offset(monotonic), offset(boottime));
    // Making the namespace takes CAP_SYS_ADMIN, and the offsets CAP_SYS_TIME, which
    // root in a container often lacks.
    let made = unshare(CLONE_NEWTIME).and_then(|()| write(OFFSETS, &offsets));
    match made {
        Ok(()) => {}
        Err(Errno::EPERM | Errno::EACCES) => {
            enter_user_namespace()?;
            write(OFFSETS, &offsets).map_err(|cause| refused(OFFSETS, cause))?;
        }
        Err(Errno::EINVAL) => return Err(Error::NoTimeNamespaces),
        Err(cause) => return Err(refused("make a time namespace", cause)),
    }
    // unshare() concerns children only; this concerns the caller itself.
    let namespace = File::open("/proc/self/ns/time_for_children")
        .map_err(|error| refused("open /proc/self/ns/time_for_children", errno(&error)))?;
    setns(namespace, CLONE_NEWTIME).map_err(|cause| refused("enter the time namespace", cause))?;
    Ok(made.is_err())
}

/// Where a time namespace without members is given its offsets.
const OFFSETS: &str = "/proc/self/timens_offsets";

fn write(path: &str, text: &str) -> nix::Result<()> {
    fs::write(path, text).map_err(|error| errno(&error))
}

fn enter_user_namespace() -> Result<(), Error> {
    let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    unshare(CloneFlags::CLONE_NEWUSER | CLONE_NEWTIME)
        .map_err(|cause| refused("unshare a user namespace", cause))?;
    // Without privilege, groups may be mapped only once setgroups() is given up.
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

/// An offset as `timens_offsets` takes it: the nanoseconds are never negative.
fn offset(nanos: Nanos) -> String {
    let Timespec { sec, nsec } = Timespec::from_signed_nanos(nanos);
    format!("{sec} {nsec}")
}

fn refused(step: &str, cause: Errno) -> Error {
    Error::NamespaceRefused { cause: format!("{step}: {}", cause.desc()) }
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
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
