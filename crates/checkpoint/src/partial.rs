//! An incomplete checkpoint.
//!
//! It has a directory of its own beside its final one, so two commands for the same directory do
//! not collide. If its command is killed, CRIU, which has inherited the lock of the directory,
//! continues; a directory that is not locked is removed by the next command.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, Flock, FlockArg, fcntl};
use nix::unistd::mkdtemp;

use crate::Error;
use crate::directory::{OWN, Scratch};

/// The script's data in it. A directory with neither this nor images is not ours.
pub const DRAFT: &str = "draft.json";

/// How often another command may take it for a leftover.
const TRIES: usize = 100;

/// mkdtemp replaces this with characters that make the name unique.
const TEMPLATE: &str = "XXXXXX";

/// Its directory, which is removed when dropped unless it has been renamed by then.
pub struct Partial {
    pub directory: Scratch,
    _lock: Flock<File>,
}

impl Partial {
    /// Makes the one of a checkpoint.
    pub fn of(checkpoint: &Path) -> Result<Self, Error> {
        let nameless = || Error::file("make", checkpoint)(io::ErrorKind::InvalidInput.into());
        let mut name = checkpoint.file_name().ok_or_else(nameless)?.to_owned();
        name.push(".partial-");
        let place = checkpoint.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(place).map_err(Error::file("make", place))?;
        remove_left(place, &name);
        let mut template = place.join(name).into_os_string();
        template.push(TEMPLATE);
        let failed = |error: Errno| Error::file("make", Path::new(&template))(error.into());
        for _ in 0..TRIES {
            let directory = Scratch(mkdtemp(Path::new(&template)).map_err(failed)?);
            match lock(&directory.0) {
                Ok(lock) if directory.0.exists() => {
                    // Identifies it until the script finds its data there.
                    let draft = directory.0.join(DRAFT);
                    File::create(&draft).map_err(Error::file("make", &draft))?;
                    return Ok(Self { directory, _lock: lock });
                }
                Ok(_) | Err(Errno::EWOULDBLOCK | Errno::ENOENT) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(failed(Errno::EBUSY))
    }
}

/// Locks a directory for this process and its children.
fn lock(directory: &Path) -> nix::Result<Flock<File>> {
    let errno = |error| Errno::try_from(error).unwrap_or(Errno::EIO);
    let directory = File::open(directory).map_err(errno)?;
    fcntl(&directory, FcntlArg::F_SETFD(FdFlag::empty()))?;
    Flock::lock(directory, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| error)
}

/// Removes leftovers of commands that were killed.
fn remove_left(place: &Path, name: &OsString) {
    let is_one = |path: &PathBuf| {
        let bytes = path.file_name().map(|it| it.as_encoded_bytes().to_owned()).unwrap_or_default();
        bytes.strip_prefix(name.as_encoded_bytes()).is_some_and(|it| it.len() == TEMPLATE.len())
            && fs::read_dir(path).is_ok_and(|mut entries| {
                // It is empty at first, and has images only at the end.
                let has = |part| path.join(part).exists();
                entries.next().is_none() || has(DRAFT) || has(OWN.images)
            })
    };
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    for left in entries.map(|entry| entry.path()).filter(is_one) {
        if let Ok(_lock) = lock(&left) {
            // One that cannot be removed does not matter now.
            let _ = fs::remove_dir_all(&left);
        }
    }
}
