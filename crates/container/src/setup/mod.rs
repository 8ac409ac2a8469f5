//! The entry with which an engine finds `eigentime-oci`: a few lines in a file of the engine.
//! Adding and removing them leaves the rest of the file unchanged.
//!
//! - `engines`: the table of engines.
//! - `podman`, `docker`, `containerd`: the entry in the text of each.
//! - `trust`: a script that makes the environment of containers trusted.
//! - `toml`: settings in a TOML text, with comments and order preserved.
//! - `file`: replacing a file, with a backup.
//! - `caller`: the user who sets up an engine.
//! - `error`: the reasons why an entry could not be added or removed.
//!
//! The modules of the engines work on texts only. [`plan`] reads the file and computes the change,
//! [`Plan::carry_out`] writes it.

mod caller;
pub mod containerd;
mod docker;
mod engines;
mod error;
mod file;
mod podman;
mod toml;
pub mod trust;

use std::path::{Path, PathBuf};

use similar::TextDiff;

pub use caller::Caller;
pub use engines::{ENGINES, Engine};
pub use error::{Error, Unusable};

/// The action on an engine's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// Set it to this `eigentime-oci`.
    Add(&'a Path),
    /// Remove it.
    Remove,
}

/// The planned change of an engine's file.
#[derive(Debug)]
pub struct Plan {
    /// The file.
    pub file: PathBuf,
    /// Its present contents; `None` if there is no such file.
    pub before: Option<String>,
    /// Its new contents; `None` if there will be no file.
    pub after: Option<String>,
    /// Whether a backup is kept. What adding the entry created needs none.
    keeps: bool,
    /// Whether it is a program of ours instead of a file of the engine.
    is_program: bool,
}

/// Plans the change of the engine's file.
///
/// # Errors
///
/// If the file cannot be read, or its contents cannot be handled.
pub fn plan(engine: &Engine, file: &Path, action: Action<'_>) -> Result<Plan, Error> {
    let before = file::read(file)?;
    let unusable = |cause| Error::Unusable { file: file.to_owned(), cause };
    let mut keeps = true;
    let after = match action {
        Action::Add(runtime) => {
            let runtime = runtime.to_str().ok_or_else(|| Error::NoText(runtime.to_owned()))?;
            let text = match &before {
                Some(text) => text.clone(),
                None => (engine.fresh)().ok_or(Error::UnknownVersion(engine.name))?,
            };
            Some((engine.add)(&text, runtime).map_err(unusable)?)
        }
        Action::Remove => match &before {
            Some(text) => {
                let without = without(engine, file, text)?;
                keeps = !without.is_what_it_was;
                without.text
            }
            None => None,
        },
    };
    Ok(Plan { file: file.to_owned(), before, after, keeps, is_program: false })
}

/// A text without the entry.
struct Without {
    /// The text, if the file remains.
    text: Option<String>,
    /// Whether it is the text from before the entry was added.
    is_what_it_was: bool,
}

/// Returns the text without the entry; no text if the file was created for the entry only.
///
/// If adding the entry to a backup gives the present text, returns the exact text of the backup.
/// Otherwise, returns the rest of the present text, which may lack an empty table.
fn without(engine: &Engine, file: &Path, text: &str) -> Result<Without, Error> {
    let unusable = |cause| Error::Unusable { file: file.to_owned(), cause };
    let Some(runtime) = (engine.entry)(text).map_err(unusable)? else {
        return Ok(Without { text: Some(text.to_owned()), is_what_it_was: true });
    };
    if (engine.is_default)(text).map_err(unusable)? {
        return Err(unusable(Unusable::Default(engine.name)));
    }
    let made_this = |from: &str| (engine.add)(from, &runtime).is_ok_and(|made| made == text);
    if let Some(backup) = file::backups(file).into_iter().rev().find(|backup| made_this(backup)) {
        return Ok(Without { text: Some(backup), is_what_it_was: true });
    }
    if (engine.fresh)().is_some_and(|fresh| made_this(&fresh)) {
        return Ok(Without { text: None, is_what_it_was: true });
    }
    let left = (engine.remove)(text).map_err(unusable)?;
    Ok(Without { text: Some(left), is_what_it_was: false })
}

impl Plan {
    /// Whether there is anything to do.
    pub fn changes(&self) -> bool {
        self.before != self.after
    }

    /// The change, in the format of `diff -u`.
    pub fn diff(&self) -> String {
        let [before, after] = [&self.before, &self.after];
        let text = |side: &'_ Option<String>| side.as_deref().unwrap_or_default().to_owned();
        let name = |side: &Option<String>| match side {
            Some(_) => self.file.display().to_string(),
            None => "/dev/null".to_owned(),
        };
        TextDiff::from_lines(text(before), text(after))
            .unified_diff()
            .header(&name(before), &name(after))
            .to_string()
    }

    /// Writes the file, and returns the path of the backup.
    ///
    /// # Errors
    ///
    /// If the file has changed meanwhile, or cannot be written. It is then unchanged.
    pub fn carry_out(&self) -> Result<Option<PathBuf>, Error> {
        let (before, after) = (self.before.as_deref(), self.after.as_deref());
        match self.is_program {
            true => file::replace_program(&self.file, before, after).map(|()| None),
            false => file::replace(&self.file, before, after, self.keeps),
        }
    }
}

/// Reads the entry of `eigentime-oci` in an engine's file: the file it names, if there is an entry.
///
/// # Errors
///
/// If the file cannot be read, or is malformed.
pub fn entry(engine: &Engine, file: &Path) -> Result<Option<PathBuf>, Error> {
    let Some(text) = file::read(file)? else { return Ok(None) };
    let found = (engine.entry)(&text);
    let found = found.map_err(|cause| Error::Unusable { file: file.to_owned(), cause })?;
    Ok(found.map(PathBuf::from))
}

#[cfg(test)]
mod tests;
