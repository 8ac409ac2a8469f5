//! What was changed in files of the node, and what was in them before, so that it can be undone
//! byte for byte. It is written down before the change is made.

use std::fs::{self, File, Metadata};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::plan::{Change, Kind, without};
use crate::tree::{Root, Tree};

/// The name of its file.
const NAME: &str = "record.json";

/// The mode of a file that was not there.
const NEW_MODE: u32 = 0o644;

/// What was changed.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Record {
    /// Files, in the order in which they were changed.
    files: Vec<Entry>,
    /// Folders that were made, the outer before the inner.
    folders: Vec<PathBuf>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    file: PathBuf,
    kind: Kind,
    /// What was there before; nothing if there was no file.
    before: Option<String>,
    /// What we have written.
    written: String,
}

impl Record {
    /// Reads it; there is an empty one if nothing was changed yet.
    pub fn read(tree: &Tree<'_>) -> Result<Self> {
        match fs::read(tree.at(NAME)) {
            Ok(text) => serde_json::from_slice(&text)
                .with_context(|| format!("in {}", tree.at(NAME).display())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => {
                Err(error).with_context(|| format!("cannot read {}", tree.at(NAME).display()))
            }
        }
    }

    /// Makes these changes; returns the files that were not so already.
    pub fn make(
        &mut self,
        root: &Root,
        tree: &Tree<'_>,
        changes: &[Change],
    ) -> Result<Vec<PathBuf>> {
        let mut changed = Vec::new();
        for change in changes {
            let before = read(root, &change.file)?;
            if before.as_deref() == Some(&*change.text) {
                continue;
            }
            self.note(root, change, before)?;
            self.save(tree)?;
            let folder = change.file.parent().unwrap_or(Path::new("/"));
            fs::create_dir_all(root.at(folder)).with_context(|| cannot("make", folder))?;
            write(&root.at(&change.file), &change.text)
                .with_context(|| cannot("write", &change.file))?;
            changed.push(change.file.clone());
        }
        Ok(changed)
    }

    fn note(&mut self, root: &Root, change: &Change, before: Option<String>) -> Result<()> {
        let written = change.text.clone();
        match self.files.iter_mut().find(|entry| entry.file == change.file) {
            // If somebody has changed it since, what was there before us is history.
            Some(entry) => {
                if before.as_ref() != Some(&entry.written) {
                    let ours = |text: String| without(&entry.file, entry.kind, &text).transpose();
                    entry.before = before.and_then(ours).transpose()?;
                }
                entry.written = written;
            }
            None => {
                let (file, kind) = (change.file.clone(), change.kind);
                self.files.push(Entry { file, kind, before, written });
            }
        }
        let missing = change.file.ancestors().skip(1).take_while(|it| !root.at(it).exists());
        let missing: Vec<_> = missing.map(Path::to_owned).collect();
        self.folders.extend(missing.into_iter().rev());
        Ok(())
    }

    fn save(&self, tree: &Tree<'_>) -> Result<()> {
        let text = serde_json::to_string_pretty(self).context("the record is plain data")?;
        write(&tree.at(NAME), &text)
            .with_context(|| format!("cannot write {}", tree.at(NAME).display()))
    }

    /// Undoes all changes; returns the files that were changed. A file that somebody else has changed
    /// since keeps that change, and loses what is ours.
    pub fn undo(&self, root: &Root) -> Result<Vec<PathBuf>> {
        let mut changed = Vec::new();
        for entry in self.files.iter().rev() {
            let Some(now) = read(root, &entry.file)? else { continue };
            let text = match now == entry.written {
                true => entry.before.clone(),
                false => without(&entry.file, entry.kind, &now)?,
            };
            if text.as_ref() == Some(&now) {
                continue;
            }
            let file = root.at(&entry.file);
            match &text {
                Some(text) => write(&file, text),
                None => fs::remove_file(&file),
            }
            .with_context(|| cannot("restore", &entry.file))?;
            changed.push(entry.file.clone());
        }
        for folder in self.folders.iter().rev() {
            match fs::remove_dir(root.at(folder)) {
                Ok(()) => {}
                // Somebody has put something there, or has removed it.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::DirectoryNotEmpty | ErrorKind::NotFound
                    ) => {}
                Err(error) => return Err(error).with_context(|| cannot("remove", folder)),
            }
        }
        Ok(changed)
    }
}

fn read(root: &Root, file: &Path) -> Result<Option<String>> {
    match fs::read_to_string(root.at(file)) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| cannot("read", file)),
    }
}

/// Replaces a file at once or not at all; mode and owner stay. A link stays, too.
fn write(file: &Path, text: &str) -> std::io::Result<()> {
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let old = fs::metadata(&file).ok();
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let new = file.with_file_name(format!(".{name}.eigentime"));
    let mut handle = File::create(&new)?;
    handle.write_all(text.as_bytes())?;
    let mode = old.as_ref().map_or(NEW_MODE, Metadata::mode);
    handle.set_permissions(fs::Permissions::from_mode(mode))?;
    if let Some(old) = &old {
        chown(&new, Some(old.uid()), Some(old.gid()))?;
    }
    handle.sync_all()?;
    fs::rename(&new, &file)
}

fn cannot(what: &str, file: &Path) -> String {
    format!("cannot {what} {}", file.display())
}
