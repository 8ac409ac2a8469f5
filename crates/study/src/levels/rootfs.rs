//! A container's temporary file system with only the probe.
//!
//! Three parties remove it, because each of them can be killed: the study, when it is done with the
//! container; `eigentime bench enter`, which outlives the container; and the next creation, which
//! removes those of this user that are no longer held. Each user of it holds a shared lock of its
//! folder, which the kernel releases with its last process. It cannot be removed as soon as the
//! container runs, because that would remove the mounts on its folders.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use super::Unavailable;

/// The prefix of their names, which no folder for results has.
const PREFIX: &str = "eigentime-rootfs-";

/// How often creation is retried if a sweep removed the folder before it was locked.
const TRIES: usize = 10;

/// A file system that is removed when this is dropped.
#[derive(Debug)]
pub struct Rootfs {
    path: PathBuf,
    _held: Flock<File>,
}

impl Rootfs {
    /// Creates one that contains this file at this place.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn with(probe: &Path, name: &str) -> Result<Self, Unavailable> {
        Self::below(&std::env::temp_dir(), probe, name)
    }

    fn below(folder: &Path, probe: &Path, name: &str) -> Result<Self, Unavailable> {
        sweep_below(folder);
        let refused = |cause: io::Error| {
            let why = "the container's file system cannot be made in";
            Unavailable::new(
                format!("{why} {}: {cause}", folder.display()),
                "set TMPDIR to a folder where this user may write",
            )
        };
        let rootfs = Self::empty(folder).map_err(refused)?;
        fs::copy(probe, rootfs.path.join(name.trim_start_matches('/'))).map_err(refused)?;
        Ok(rootfs)
    }

    fn empty(folder: &Path) -> io::Result<Self> {
        for _ in 0..TRIES {
            let name = format!("{PREFIX}{}-{:08x}", std::process::id(), fastrand::u32(..));
            let path = folder.join(name);
            fs::DirBuilder::new().mode(0o755).create(&path)?;
            if let Some(held) = hold(&path)? {
                return Ok(Self { path, _held: held });
            }
        }
        Err(io::Error::other("it is removed again and again"))
    }

    /// Its location.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Rootfs {
    fn drop(&mut self) {
        // What cannot be removed now is swept later.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Locks a file system against sweeping; none if it is gone.
///
/// # Errors
/// If the folder cannot be opened.
pub fn hold(path: &Path) -> io::Result<Option<Flock<File>>> {
    let Some(folder) = opened(path)? else { return Ok(None) };
    let held = match Flock::lock(folder, FlockArg::LockSharedNonblock) {
        Ok(held) => held,
        // Another process is about to sweep it.
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => return Ok(None),
        Err((_, errno)) => return Err(errno.into()),
    };
    let is_there = fs::symlink_metadata(path).is_ok_and(|now| {
        held.metadata().is_ok_and(|then| (now.dev(), now.ino()) == (then.dev(), then.ino()))
    });
    Ok(is_there.then_some(held))
}

fn opened(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(folder) => Ok(Some(folder)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(cause),
    }
}

/// Removes one that is no longer in use. Other folders are left alone.
pub fn remove(path: &Path) {
    if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX)) {
        // The study may have removed it already.
        let _ = fs::remove_dir_all(path);
    }
}

/// Removes those of this user that are not held: leftovers of killed processes.
pub fn sweep() {
    sweep_below(&std::env::temp_dir());
}

fn sweep_below(folder: &Path) {
    let Ok(files) = fs::read_dir(folder) else { return };
    let user = nix::unistd::geteuid().as_raw();
    for file in files.flatten() {
        let path = file.path();
        let is_one = file.file_name().to_string_lossy().starts_with(PREFIX)
            && fs::symlink_metadata(&path).is_ok_and(|it| it.is_dir() && it.uid() == user);
        if is_one
            && let Ok(folder) = File::open(&path)
            && let Ok(_held) = Flock::lock(folder, FlockArg::LockExclusiveNonblock)
        {
            // A remaining folder is harmless.
            let _ = fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_holds_is_swept() {
        let name = format!("eigentime-sweep-{}-{:016x}", std::process::id(), fastrand::u64(..));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        let file = folder.join("file");
        fs::write(&file, "probe").unwrap();
        let left = folder.join(format!("{PREFIX}1-00000000"));
        fs::create_dir_all(left.join("proc")).unwrap();
        let results = folder.join("eigentime-bench-20261121T000000Z");
        fs::create_dir(&results).unwrap();

        let held = Rootfs::below(&folder, &file, "/eigentime-probe").unwrap();
        assert!(!left.exists() && results.exists() && file.exists());
        let also = hold(held.path()).unwrap().unwrap();
        assert_eq!(fs::read(held.path().join("eigentime-probe")).unwrap(), b"probe");
        let path = held.path().to_owned();
        let other = Rootfs::below(&folder, &file, "/eigentime-probe").unwrap();
        assert!(path.exists());
        drop(held);
        assert!(!path.exists() && hold(&path).unwrap().is_none());
        drop((also, other));
        // Only folders created here are removed.
        remove(&results);
        assert!(results.exists());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        fs::remove_dir_all(&folder).unwrap();
    }
}
