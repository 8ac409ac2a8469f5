//! Atomic replacement of a file, with the same mode and owner, and a backup beside it.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{self, Path, PathBuf};

use super::Error;

/// The suffix of a backup's name.
const BACKUP: &str = ".before-eigentime";

/// The mode of a new file: engines run as root, but anyone may read it.
const NEW_MODE: u32 = 0o644;

/// The mode of a new program.
const PROGRAM_MODE: u32 = 0o755;

/// Reads the file, if it exists.
pub fn read(file: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(cause) if cause.kind() == ErrorKind::NotFound => match file.is_symlink() {
            true => Err(Error::Dangling(file.to_owned())),
            false => Ok(None),
        },
        Err(cause) => Err(Error::Unreadable { file: file.to_owned(), cause }),
    }
}

/// The texts of the backups beside the file, the oldest first.
pub fn backups(file: &Path) -> Vec<String> {
    let file = target(file);
    names(&file).map_while(|name| fs::read_to_string(name).ok()).collect()
}

/// Replaces the file's contents with `after`, if they are still `before`. If `keeps`, makes a
/// backup and returns its path.
pub fn replace(
    file: &Path,
    before: Option<&str>,
    after: Option<&str>,
    keeps: bool,
) -> Result<Option<PathBuf>, Error> {
    let file = target(file);
    check(&file, before)?;
    let copy = match keeps {
        true => before.map(|text| back_up(&file, text)).transpose()?,
        false => None,
    };
    put(&file, after, NEW_MODE)?;
    Ok(copy)
}

/// Like [`replace`], for a program of ours, without a backup.
pub fn replace_program(
    file: &Path,
    before: Option<&str>,
    after: Option<&str>,
) -> Result<(), Error> {
    check(file, before)?;
    match (before, after) {
        (None, None) => Ok(()),
        _ => put(file, after, PROGRAM_MODE),
    }
}

fn check(file: &Path, before: Option<&str>) -> Result<(), Error> {
    match read(file)?.as_deref() == before {
        true => Ok(()),
        false => Err(Error::Changed(file.to_owned())),
    }
}

fn put(file: &Path, text: Option<&str>, mode: u32) -> Result<(), Error> {
    match text {
        Some(text) => write(file, text, mode),
        None => fs::remove_file(file).map_err(not_written("remove", file)),
    }
}

/// The absolute path that a symbolic link leads to, or of the file itself.
fn target(file: &Path) -> PathBuf {
    let itself = |_| path::absolute(file).unwrap_or_else(|_| file.to_owned());
    fs::canonicalize(file).unwrap_or_else(itself)
}

/// The names of a file's backups, in order.
fn names(file: &Path) -> impl Iterator<Item = PathBuf> {
    (0..).map(|number| {
        let mut name = file.as_os_str().to_owned();
        name.push(BACKUP);
        if number > 0 {
            name.push(format!(".{number}"));
        }
        PathBuf::from(name)
    })
}

/// Copies a file beside itself, unless there is such a copy already.
fn back_up(file: &Path, text: &str) -> Result<PathBuf, Error> {
    let names = names(file);
    for name in names {
        match like(file, &name, NEW_MODE) {
            Ok(copy) => {
                fill(copy, text).map_err(not_written("write", &name))?;
                return Ok(name);
            }
            Err(cause) if cause.kind() != ErrorKind::AlreadyExists => {
                return Err(not_written("write", &name)(cause));
            }
            Err(_) if fs::read_to_string(&name).is_ok_and(|copied| copied == text) => {
                return Ok(name);
            }
            Err(_) => {}
        }
    }
    unreachable!("there are more names than files")
}

fn write(file: &Path, text: &str, mode: u32) -> Result<(), Error> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).map_err(not_written("make", folder))?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let fresh = folder.join(format!(".{name}.eigentime-{}", std::process::id()));
    let written = like(file, &fresh, mode).and_then(|handle| fill(handle, text));
    let renamed = written.and_then(|()| fs::rename(&fresh, file));
    if let Err(cause) = renamed {
        // It may not exist.
        let _ = fs::remove_file(&fresh);
        return Err(not_written("write", file)(cause));
    }
    // Makes the new name durable, too.
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(not_written("write", folder))
}

/// Creates a new file with the mode and the owner of another one, if that exists.
fn like(file: &Path, new: &Path, mode: u32) -> io::Result<File> {
    let handle = OpenOptions::new().write(true).create_new(true).mode(0o600).open(new)?;
    let alike = match fs::metadata(file) {
        Ok(old) => {
            let own = handle.metadata()?;
            let (owner, group) = (old.uid(), old.gid());
            let chowned = match (own.uid(), own.gid()) == (owner, group) {
                true => Ok(()),
                false => fchown(&handle, Some(owner), Some(group)),
            };
            chowned.and_then(|()| handle.set_permissions(old.permissions()))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            handle.set_permissions(Permissions::from_mode(mode))
        }
        Err(error) => Err(error),
    };
    match alike {
        Ok(()) => Ok(handle),
        Err(error) => {
            fs::remove_file(new)?;
            Err(error)
        }
    }
}

fn fill(mut file: File, text: &str) -> io::Result<()> {
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn not_written(what: &'static str, file: &Path) -> impl FnOnce(io::Error) -> Error {
    let file = file.to_owned();
    move |cause| Error::NotWritten { what, file, cause }
}
