//! Who can have written a checkpoint: it decides what its processes execute, and as which user.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use crate::Error;

/// The permissions of users other than the owner, and those of them to write.
const OTHERS: u32 = 0o077;
const OTHERS_WRITE: u32 = 0o022;

/// Checks that only root and this user can have written a directory and everything in it, and returns
/// its path without symbolic links. The directories above are not checked: whoever may rename in one
/// of them can put another checkpoint in its place.
pub fn check(directory: &Path) -> Result<PathBuf, Error> {
    let failed = |error: io::Error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            Error::Damaged { path: directory.into(), reason: error.to_string() }
        }
        _ => Error::file("read", directory)(error),
    };
    let real = fs::canonicalize(directory).map_err(failed)?;
    let found = fs::metadata(&real).map_err(failed)?;
    // Others cannot open what is in a closed directory, unless they did before it was closed.
    let is_closed = found.mode() & OTHERS == 0;
    let is_outside = |target: PathBuf| !target.starts_with(&real);
    let is_doubtful = |path: &Path, found: &Metadata| match found.is_symlink() {
        _ if !is_own(found) => true,
        true => fs::canonicalize(path).is_ok_and(is_outside),
        false => !is_closed && found.mode() & OTHERS_WRITE != 0,
    };
    let doubtful = match is_doubtful(&real, &found) {
        true => Some(real.clone()),
        false => first_below(&real, &is_doubtful).map_err(failed)?,
    };
    match doubtful {
        None => Ok(real),
        Some(path) => Err(Error::Untrusted { directory: real, path }),
    }
}

fn is_own(found: &Metadata) -> bool {
    [0, geteuid().as_raw()].contains(&found.uid())
}

/// The first entry below a directory for which this holds.
fn first_below(
    directory: &Path,
    holds: &impl Fn(&Path, &Metadata) -> bool,
) -> io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let found = entry.metadata()?;
        if holds(&entry.path(), &found) {
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
