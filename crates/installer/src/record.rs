//! The changes to files of the node, and their previous contents, to undo them byte for byte. Each
//! change is recorded before it is made.

use std::fs::{self, File, Metadata};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::plan::{Change, Kind, without};
use crate::tree::{RECORD, Root, Tree, remove_empty, remove_file, successor};

/// The mode of a new engine file.
const NEW_MODE: u32 = 0o644;

/// The mode of private files: engines' files contain registry passwords.
const PRIVATE: u32 = 0o600;

/// The record of changes.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Record {
    /// The files, in the order of the changes.
    files: Vec<Entry>,
    /// The created folders, outer before inner.
    folders: Vec<PathBuf>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    file: PathBuf,
    kind: Kind,
    /// The previous contents; none if there was no file.
    before: Option<String>,
    /// The contents that we have written.
    written: String,
}

impl Record {
    /// Reads the record; it is empty if nothing was changed yet. One that others could read, as
    /// written by earlier versions, is made private.
    pub fn read(tree: &Tree<'_>) -> Result<Self> {
        let file = tree.at(RECORD);
        let close = || fs::set_permissions(&file, fs::Permissions::from_mode(PRIVATE));
        match close().and_then(|()| fs::read(&file)) {
            Ok(text) => {
                serde_json::from_slice(&text).with_context(|| format!("in {}", file.display()))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| cannot("read", &file)),
        }
    }

    /// Makes these changes; returns the files that actually changed.
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
            write(&root.at(&change.file), &change.text, NEW_MODE)
                .with_context(|| cannot("write", &change.file))?;
            changed.push(change.file.clone());
        }
        Ok(changed)
    }

    fn note(&mut self, root: &Root, change: &Change, before: Option<String>) -> Result<()> {
        let written = change.text.clone();
        match self.files.iter_mut().find(|entry| entry.file == change.file) {
            // If it was changed since by others, the contents before ours are obsolete.
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
        let file = tree.at(RECORD);
        write(&file, &text, PRIVATE).with_context(|| cannot("write", &file))
    }

    /// Undoes all changes; returns the files that changed. A file changed by others since keeps
    /// that change, and loses only our part.
    pub fn undo(&self, root: &Root) -> Result<Vec<PathBuf>> {
        let mut changed = Vec::new();
        for entry in self.files.iter().rev() {
            let file = target(&root.at(&entry.file));
            // Left by an interrupted installer.
            remove_file(&successor(&file)).with_context(|| cannot("restore", &entry.file))?;
            let Some(now) = read(root, &entry.file)? else { continue };
            let text = match now == entry.written {
                true => entry.before.clone(),
                false => without(&entry.file, entry.kind, &now)?,
            };
            if text.as_ref() == Some(&now) {
                continue;
            }
            match &text {
                Some(text) => write(&file, text, NEW_MODE),
                None => fs::remove_file(root.at(&entry.file)),
            }
            .with_context(|| cannot("restore", &entry.file))?;
            changed.push(entry.file.clone());
        }
        for folder in self.folders.iter().rev() {
            // Unless others have put something there.
            remove_empty(&root.at(folder)).with_context(|| cannot("remove", folder))?;
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

/// Replaces a file atomically; mode, owner and a link are kept. No one else can read the text until
/// it is in place.
fn write(file: &Path, text: &str, new_mode: u32) -> std::io::Result<()> {
    let file = target(file);
    let old = fs::metadata(&file).ok();
    let new = successor(&file);
    let mut handle = private(&new)?;
    handle.write_all(text.as_bytes())?;
    if let Some(old) = &old {
        chown(&new, Some(old.uid()), Some(old.gid()))?;
    }
    let mode = old.as_ref().map_or(new_mode, Metadata::mode);
    handle.set_permissions(fs::Permissions::from_mode(mode))?;
    handle.sync_all()?;
    fs::rename(&new, &file)
}

/// A new file that no one else can read. One left by an interrupted installer may be open to
/// others.
fn private(file: &Path) -> std::io::Result<File> {
    remove_file(file)?;
    File::options().write(true).create_new(true).mode(PRIVATE).open(file)
}

/// The file that a link leads to.
fn target(file: &Path) -> PathBuf {
    fs::canonicalize(file).unwrap_or_else(|_| file.to_owned())
}

fn cannot(what: &str, file: &Path) -> String {
    format!("cannot {what} {}", file.display())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::scratch::Scratch;

    const FILE: &str = "/etc/containerd/config.toml";

    fn change(text: &str) -> [Change; 1] {
        [Change { file: FILE.into(), text: text.into(), kind: Kind::Own }]
    }

    fn mode(file: &Path) -> u32 {
        fs::metadata(file).unwrap().mode() & 0o7777
    }

    fn close(file: &Path, mode: u32) {
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn nobody_else_can_read_the_record() {
        let scratch = Scratch::new("record");
        let (root, folder) = (scratch.root(), Path::new("/opt/eigentime"));
        let tree = Tree::new(&root, folder);
        let _lock = tree.claim().unwrap();
        scratch.write(FILE, "password");
        Record::default().make(&root, &tree, &change("one")).unwrap();
        assert_eq!(mode(&tree.at(RECORD)), PRIVATE);
        // As left by an earlier version, even if nothing else is to be done.
        close(&tree.at(RECORD), 0o644);
        let mut record = Record::read(&tree).unwrap();
        assert_eq!(mode(&tree.at(RECORD)), PRIVATE);
        assert_eq!(record.make(&root, &tree, &change("one")).unwrap().len(), 0);
    }

    #[test]
    fn what_is_private_stays_so_while_it_is_written() {
        let scratch = Scratch::new("private");
        let root = scratch.root();
        let file = root.at(Path::new(FILE));
        scratch.write(FILE, "password");
        close(&file, 0o600);
        // Others have opened the leftover of an interrupted installer.
        scratch.write("/etc/containerd/.config.toml.eigentime", "");
        let left = successor(&file);
        close(&left, 0o644);
        let mut opened = File::open(&left).unwrap();
        write(&file, "password and more", NEW_MODE).unwrap();
        let mut seen = String::new();
        opened.read_to_string(&mut seen).unwrap();
        assert_eq!(seen, "");
        assert_eq!(mode(&file), 0o600);
        // Before it has any contents.
        private(&left).unwrap();
        assert_eq!(mode(&left), PRIVATE);
    }

    #[test]
    fn what_an_installer_that_was_cut_off_has_left_is_removed() {
        let scratch = Scratch::new("left");
        let (root, folder) = (scratch.root(), Path::new("/opt/eigentime"));
        scratch.write(FILE, "before");
        let before = scratch.tree();
        let tree = Tree::new(&root, folder);
        let lock = tree.claim().unwrap();
        Record::default().make(&root, &tree, &change("one")).unwrap();
        scratch.write("/etc/containerd/.config.toml.eigentime", "on");
        scratch.write("/opt/eigentime/.record.json.eigentime", "{");
        Record::read(&tree).unwrap().undo(&root).unwrap();
        assert!(tree.remove().unwrap());
        drop(lock);
        fs::remove_dir(root.at(Path::new("/opt"))).unwrap();
        assert_eq!(scratch.tree(), before);
    }
}
