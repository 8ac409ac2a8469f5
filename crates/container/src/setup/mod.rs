//! The entry by which an engine finds `eigentime-oci`: a few lines in a file of the
//! engine, which are added and taken out again, and all else in the file stays as it is.
//!
//! - `engines`: the table of engines.
//! - `podman`, `docker`, `containerd`: the entry in the text of each.
//! - `trust`: a script that lets the environment of containers count.
//! - `toml`: settings in a TOML text, comments and order kept.
//! - `file`: replacing a file, with a backup.
//! - `caller`: the user who sets up an engine.
//! - `error`: what can stop an entry from being added or taken out.
//!
//! The modules of the engines know texts only. [`plan`] reads the file and says what would
//! become of it, [`Plan::carry_out`] writes.

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

/// What is to be done with an engine's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// Let it name this `eigentime-oci`.
    Add(&'a Path),
    /// Take it out.
    Remove,
}

/// What becomes of an engine's file.
#[derive(Debug)]
pub struct Plan {
    /// The file.
    pub file: PathBuf,
    /// What is in it now; nothing if there is no such file.
    pub before: Option<String>,
    /// What will be in it; nothing if there will be none.
    pub after: Option<String>,
    /// Is a copy kept of what was there? What adding the entry has made needs none.
    keeps: bool,
    /// Is it a program of ours, and no file of the engine's?
    is_program: bool,
}

/// Says what would become of the engine's file.
///
/// # Errors
///
/// If the file cannot be read, or there is something in it that cannot be dealt with.
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
    /// The text, if a file is left.
    text: Option<String>,
    /// Is it what was there before the entry was added?
    is_what_it_was: bool,
}

/// The text without the entry; nothing if the file has been made for the entry only.
///
/// Where adding has made the present text of a backup, it is the backup's text to the
/// letter. Else what is left of the present text, which may lack an empty table.
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
    /// Is there anything to do?
    pub fn changes(&self) -> bool {
        self.before != self.after
    }

    /// The change, as `diff -u` shows it.
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

    /// Writes, and returns where a copy of what was there is.
    ///
    /// # Errors
    ///
    /// If the file has changed meanwhile, or cannot be written. It is as it was then.
    pub fn carry_out(&self) -> Result<Option<PathBuf>, Error> {
        let (before, after) = (self.before.as_deref(), self.after.as_deref());
        match self.is_program {
            true => file::replace_program(&self.file, before, after).map(|()| None),
            false => file::replace(&self.file, before, after, self.keeps),
        }
    }
}

/// What an engine's file says of `eigentime-oci`: which file the entry names, if there
/// is one.
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
