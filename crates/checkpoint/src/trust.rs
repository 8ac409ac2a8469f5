//! Who can have written a checkpoint: it decides what its processes execute, and as which user.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use crate::Error;

/// The permissions of users other than the owner, and those of them to write.
const OTHERS: u32 = 0o077;
const OTHERS_WRITE: u32 = 0o022;

/// Checks that only this user can have written a directory and everything in it.
pub fn check(directory: &Path) -> Result<(), Error> {
    let failed = |error| Error::Damaged { path: directory.into(), reason: format!("{error}") };
    let found = fs::metadata(directory).map_err(failed)?;
    let is_closed = found.mode() & OTHERS == 0;
    let mut doubtful = (!is_own(&found) || is_open(&found)).then(|| directory.to_owned());
    if doubtful.is_none() {
        let is_doubtful = |found: &Metadata| !is_own(found) || (!is_closed && is_open(found));
        doubtful = first_below(directory, &is_doubtful).map_err(failed)?;
    }
    match doubtful {
        None => Ok(()),
        Some(path) => Err(Error::Untrusted { directory: directory.to_owned(), path }),
    }
}

fn is_own(found: &Metadata) -> bool {
    found.uid() == geteuid().as_raw()
}

/// Whether others may write to it. The mode of a symbolic link has no meaning.
fn is_open(found: &Metadata) -> bool {
    !found.is_symlink() && found.mode() & OTHERS_WRITE != 0
}

/// The first entry below a directory for which this holds.
fn first_below(
    directory: &Path,
    holds: &impl Fn(&Metadata) -> bool,
) -> io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let found = entry.metadata()?;
        if holds(&found) {
            return Ok(Some(entry.path()));
        }
        if found.is_dir()
            && let Some(path) = first_below(&entry.path(), holds)?
        {
            return Ok(Some(path));
        }
    }
    Ok(None)
}
