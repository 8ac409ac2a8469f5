//! Two versions of the commands under test, the second of which prepares programs differently.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::suite::{Broken, Outcome};
use crate::workspace::{self, copy_program, make_directory};

/// The programs that are installed together.
const PROGRAMS: [&str; 2] = ["eigentime", "eigentime-oci"];

/// Precedes the number of the interface in a program's file.
const MARK: &[u8] = b"EIGENTIME_INTERFACE=";

/// A folder for each version, which every user can reach.
pub struct Versions {
    pub old: PathBuf,
    pub new: PathBuf,
}

impl Versions {
    pub fn new() -> Result<Self, Broken> {
        let folder = workspace::scratch()?;
        let versions = Self { old: folder.join("old"), new: folder.join("new") };
        for place in [&versions.old, &versions.new] {
            make_directory(place, 0o755)?;
        }
        let changed = changed()?;
        for program in PROGRAMS {
            copy_program(
                &workspace::binary().with_file_name(program),
                &versions.old.join(program),
            )?;
            copy_program(&changed.join(program), &versions.new.join(program))?;
        }
        Ok(versions)
    }

    /// Replaces a program of the old version with that of the new one, as packages do.
    pub fn replace(&self, program: &str) -> Outcome {
        let beside = self.old.join(".new");
        copy_program(&self.new.join(program), &beside)?;
        Ok(fs::rename(beside, self.old.join(program))?)
    }
}

/// The changed programs, which are not run where they are.
fn changed() -> Result<&'static Path, Broken> {
    static CHANGED: OnceLock<Result<PathBuf, Broken>> = OnceLock::new();
    let change = || {
        let folder = workspace::scratch()?;
        for program in PROGRAMS {
            let file = folder.join(program);
            copy_program(&workspace::binary().with_file_name(program), &file)?;
            change_interface(&file)?;
        }
        Ok(folder)
    };
    CHANGED.get_or_init(change).as_ref().map(PathBuf::as_path).map_err(Clone::clone)
}

/// Replaces the number in a program's file with another one of the same length.
fn change_interface(file: &Path) -> Outcome {
    let mut bytes = fs::read(file)?;
    let marks = bytes.windows(MARK.len()).enumerate().filter(|(_, window)| *window == MARK);
    let digits: Vec<_> = marks.map(|(at, _)| at + MARK.len()).collect();
    crate::ensure!(!digits.is_empty(), "{} tells no interface", file.display());
    for digit in digits {
        bytes[digit] = if bytes[digit] == b'1' { b'2' } else { b'1' };
    }
    Ok(fs::write(file, bytes)?)
}
