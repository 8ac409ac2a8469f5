//! Files that are replaced temporarily: the original is kept beside the file, under a name that
//! identifies what was written. So restoring it, even after a crash, detects whether another
//! program has written the file since, and then leaves it alone.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::fingerprint::fingerprint;

/// The part of a kept file's name between the original name and the fingerprint of what was
/// written.
const KEPT: &str = ".before-eigentime-";

/// Replaces a file with a text, and keeps the original.
///
/// # Errors
///
/// If its directory cannot be written to.
pub fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let new = beside(path, ".eigentime-new");
    let kept = beside(path, &format!("{KEPT}{:016x}", fingerprint(text)));
    let replaced = fs::metadata(path).and_then(|found| {
        let mut options = OpenOptions::new();
        let mut file = options.create(true).truncate(true).write(true).mode(0o600).open(&new)?;
        file.set_permissions(found.permissions())?;
        file.write_all(text)?;
        fs::hard_link(path, &kept)?;
        fs::rename(&new, path)
    });
    if replaced.is_err() {
        // It does not exist if it could not be created.
        let _ = fs::remove_file(&new);
    }
    replaced
}

/// Puts back what was replaced, unless the file has changed meanwhile or is gone. Does nothing if
/// there is nothing to put back.
///
/// # Errors
///
/// If its directory cannot be read or written to.
pub fn put_back(path: &Path) -> io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut begin = OsString::from(name);
    begin.push(KEPT);
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let file = entry.file_name();
        let written = file.to_string_lossy();
        let Some(written) = written.strip_prefix(&*begin.to_string_lossy()) else { continue };
        let written = u64::from_str_radix(written, 16).ok();
        let now = fs::read(path).ok().map(|text| fingerprint(&text));
        match now.is_some() && now == written {
            true => fs::rename(entry.path(), path)?,
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A file in a directory of its own, which is removed when dropped.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let folder = format!("eigentime-replaced-{}-{name}", std::process::id());
            let folder = std::env::temp_dir().join(folder);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("file"), "old").unwrap();
            Self(folder)
        }

        fn file(&self) -> PathBuf {
            self.0.join("file")
        }

        fn text(&self) -> String {
            fs::read_to_string(self.file()).unwrap()
        }

        fn count(&self) -> usize {
            fs::read_dir(&self.0).unwrap().count()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_is_replaced_is_put_back() {
        let scratch = Scratch::new("back");
        fs::set_permissions(scratch.file(), fs::Permissions::from_mode(0o640)).unwrap();
        replace(&scratch.file(), b"new").unwrap();
        assert_eq!((scratch.text().as_str(), scratch.count()), ("new", 2));
        assert_eq!(fs::metadata(scratch.file()).unwrap().permissions().mode() & 0o777, 0o640);
        put_back(&scratch.file()).unwrap();
        assert_eq!((scratch.text().as_str(), scratch.count()), ("old", 1));
        put_back(&scratch.file()).unwrap();
        assert_eq!((scratch.text().as_str(), scratch.count()), ("old", 1));
    }

    #[test]
    fn what_others_have_written_since_is_left_alone() {
        let scratch = Scratch::new("others");
        replace(&scratch.file(), b"new").unwrap();
        fs::write(scratch.file(), "theirs").unwrap();
        put_back(&scratch.file()).unwrap();
        assert_eq!((scratch.text().as_str(), scratch.count()), ("theirs", 1));
    }

    #[test]
    fn what_is_gone_is_not_brought_back() {
        let scratch = Scratch::new("gone");
        replace(&scratch.file(), b"new").unwrap();
        fs::remove_file(scratch.file()).unwrap();
        put_back(&scratch.file()).unwrap();
        assert_eq!(scratch.count(), 0);
        assert!(replace(&scratch.file(), b"new").is_err());
        assert_eq!(scratch.count(), 0);
    }
}
