//! The destination of a report.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes to a file, or to standard output.
///
/// # Errors
/// A sentence that says what could not be written, and why.
pub fn write(file: Option<&Path>, text: &str) -> Result<(), String> {
    let Some(file) = file else {
        let mut output = anstream::stdout().lock();
        let written = output.write_all(text.as_bytes()).and_then(|()| output.flush());
        return written.map_err(|error| format!("cannot write the report: {error}"));
    };
    let text = anstream::adapter::strip_str(text).to_string();
    // An existing non-regular file, such as /dev/null or a pipe, cannot be replaced.
    let is_special = fs::metadata(file).is_ok_and(|found| !found.is_file());
    let written = match is_special {
        true => fs::write(file, text),
        false => target(file).and_then(|file| replace(&file, text.as_bytes())),
    };
    written.map_err(|error| format!("cannot write {}: {error}", file.display()))
}

/// Checks that a file can be written, before there is anything to write, so that a long run is not
/// lost.
///
/// # Errors
/// A sentence that says why not.
pub fn check(file: &Path) -> Result<(), String> {
    let tried = match fs::metadata(file) {
        Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(found) if !found.is_file() => Ok(()),
        _ => target(file).and_then(|file| {
            let beside = beside(&file)?;
            OpenOptions::new().write(true).create_new(true).open(&beside)?;
            fs::remove_file(beside)
        }),
    };
    tried.map_err(|error| format!("cannot write {}: {error}", file.display()))
}

/// The target of a file's symbolic links, which need not exist: the links stay as they are, and
/// their target is written.
fn target(file: &Path) -> io::Result<PathBuf> {
    /// The kernel's limit (path_resolution(7)).
    const MOST: usize = 40;
    let mut file = file.to_owned();
    for _ in 0..MOST {
        match fs::read_link(&file) {
            // Relative to the directory of the link, unless the target is absolute.
            Ok(to) => file = file.with_file_name("").join(to),
            // It is not a link, or does not exist yet.
            Err(_) => return Ok(file),
        }
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}

/// The temporary path of the new file: a name that no collector looks for.
fn beside(file: &Path) -> io::Result<PathBuf> {
    let name = file.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let mut beside = OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}.new", std::process::id()));
    Ok(file.with_file_name(beside))
}

/// Replaces a file atomically, keeping its mode: readers see all of the old or all of the new one.
fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = beside(file)?;
    let written = (|| {
        let mut new = OpenOptions::new().write(true).create_new(true).open(&beside)?;
        if let Ok(old) = fs::metadata(file) {
            new.set_permissions(old.permissions())?;
        }
        new.write_all(bytes)?;
        new.sync_all()?;
        fs::rename(&beside, file)
    })();
    if written.is_err() {
        // It does not exist if it could not be created.
        let _ = fs::remove_file(&beside);
    }
    written
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("eigentime-place-{}-{name}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            fs::create_dir(&folder).unwrap();
            Self(folder)
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_beside_it() {
        let folder = Folder::new("replaced");
        let file = folder.0.join("eigentime.prom");
        fs::write(&file, "old").unwrap();
        write(Some(&file), "\x1b[1mnew\x1b[0m").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new", "without colours");
        assert_eq!(folder.names(), ["eigentime.prom"]);
    }

    #[test]
    fn who_may_read_a_file_may_read_the_new_one_and_nobody_else() {
        use std::os::unix::fs::PermissionsExt;
        let folder = Folder::new("rights");
        let file = folder.0.join("report");
        fs::write(&file, "old").unwrap();
        for mode in [0o600, 0o640] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            write(Some(&file), "new").unwrap();
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, mode);
        }
    }

    #[test]
    fn a_place_is_checked_and_left_as_it_was() {
        let folder = Folder::new("checked");
        let file = folder.0.join("report");
        check(&file).unwrap();
        assert!(folder.names().is_empty());
        fs::write(&file, "old").unwrap();
        check(&file).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "old");
        for nowhere in [folder.0.clone(), folder.0.join("none/report")] {
            let why = check(&nowhere).unwrap_err();
            assert!(why.contains(&nowhere.display().to_string()), "{why}");
        }
        check(Path::new("/dev/null")).unwrap();
        assert_eq!(folder.names(), ["report"]);
    }

    #[test]
    fn links_stay_and_what_they_lead_to_is_replaced() {
        let [links, files] = [Folder::new("links"), Folder::new("files")];
        let file = files.0.join("eigentime.prom");
        let [link, link_to_link] = ["one", "other"].map(|name| links.0.join(name));
        std::os::unix::fs::symlink(&file, &link).unwrap();
        std::os::unix::fs::symlink("one", &link_to_link).unwrap();
        // At first it points to a file that does not exist yet.
        for (place, text) in [(&link, "first"), (&link_to_link, "second")] {
            write(Some(place), text).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
            assert!(fs::symlink_metadata(place).unwrap().is_symlink());
        }
        assert_eq!(files.names(), ["eigentime.prom"]);
        let ring = links.0.join("ring");
        std::os::unix::fs::symlink("ring", &ring).unwrap();
        assert!(write(Some(&ring), "text").is_err());
    }

    #[test]
    fn what_cannot_be_written_is_said() {
        let folder = Folder::new("nowhere");
        let file = folder.0.join("none/eigentime.prom");
        let why = write(Some(&file), "text").unwrap_err();
        assert!(why.starts_with("cannot write ") && why.contains("none/eigentime.prom"), "{why}");
        assert!(folder.names().is_empty());
    }

    #[test]
    fn a_device_is_written_to_and_not_replaced() {
        write(Some(Path::new("/dev/null")), "text").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
