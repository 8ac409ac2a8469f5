//! Our folder on a node: a folder for each version, a link to the current one, and a record of
//! changes elsewhere.
//!
//! ```text
//! /opt/eigentime/versions/0.1.0-3f9c2a71e5d04b86/{eigentime,eigentime-oci}
//!                current -> versions/0.1.0-3f9c2a71e5d04b86
//!                record.json
//!                lock
//! ```

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nix::fcntl::{Flock, FlockArg};
use sha2::{Digest, Sha256};

/// The record of changes elsewhere.
pub const RECORD: &str = "record.json";

const VERSIONS: &str = "versions";
const NEW_VERSION: &str = ".new";
const CURRENT: &str = "current";
const NEW_CURRENT: &str = ".current";
/// The first file created, and the last removed: a folder that has it is ours.
const LOCK: &str = "lock";

/// The file that replaces another once it is complete.
pub fn successor(file: &Path) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!(".{name}.eigentime"))
}

/// Removes a folder, unless it contains something or is a link; returns whether it is gone.
pub fn remove_empty(folder: &Path) -> io::Result<bool> {
    match fs::remove_dir(folder) {
        Ok(()) => Ok(true),
        Err(error) => match error.kind() {
            ErrorKind::NotFound => Ok(true),
            ErrorKind::DirectoryNotEmpty | ErrorKind::NotADirectory => Ok(false),
            _ => Err(error),
        },
    }
}

/// Removes a file that may already be gone.
pub fn remove_file(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The root of the node's files.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Root {
    /// The node's `/` is this local folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// The local path of a file of the node.
    pub fn at(&self, file: &Path) -> PathBuf {
        self.0.join(file.strip_prefix("/").unwrap_or(file))
    }

    /// The node's path of a local file.
    pub fn of_node(&self, file: &Path) -> PathBuf {
        Path::new("/").join(file.strip_prefix(&self.0).unwrap_or(file))
    }
}

/// A program installed on the node.
#[derive(Debug)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// The contents of its file.
    pub bytes: Vec<u8>,
}

/// Our folder.
#[derive(Debug)]
pub struct Tree<'a> {
    root: &'a Root,
    folder: &'a Path,
}

impl<'a> Tree<'a> {
    /// The folder with this path on the node.
    pub fn new(root: &'a Root, folder: &'a Path) -> Self {
        Self { root, folder }
    }

    /// Our folder that contains a program of the current version.
    pub fn of_program(root: &'a Root, program: &'a Path) -> Option<Self> {
        let current = program.parent()?;
        let folder = current.ends_with(CURRENT).then(|| current.parent())??;
        let tree = Self::new(root, folder);
        tree.exists().then_some(tree)
    }

    /// The folder's path on the node.
    pub fn folder(&self) -> &Path {
        self.folder
    }

    /// The local path of something in it.
    pub fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.at(self.folder).join(name)
    }

    /// The engine's path of a program of the current version.
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.join(CURRENT).join(name)
    }

    /// Whether anything is installed.
    pub fn exists(&self) -> bool {
        self.at(LOCK).exists()
    }

    /// Creates the folder and locks it. A folder that contains anything else is left alone.
    pub fn claim(&self) -> Result<Flock<File>> {
        let foreign = self.foreign().with_context(|| self.cannot("read", ""))?;
        if !foreign.is_empty() {
            bail!(
                "{} is not Eigentime's alone: it holds {}\n\
                 help: set node.folder to a folder that is not there or is empty, or move these files away",
                self.folder.display(),
                foreign.join(", ")
            );
        }
        fs::create_dir_all(self.at("")).with_context(|| self.cannot("make", ""))?;
        self.lock()
    }

    /// The foreign contents of the folder.
    fn foreign(&self) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(self.at("")) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let exists = self.exists();
        let mut foreign = Vec::new();
        for entry in entries {
            let entry = entry?;
            let is_ours = self.ours().contains(&entry.path());
            if !exists || !is_ours {
                foreign.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        foreign.sort();
        Ok(foreign)
    }

    /// Our files in the folder, in the order of removal.
    fn ours(&self) -> [PathBuf; 6] {
        let record = self.at(RECORD);
        let [versions, current, new, lock] =
            [VERSIONS, CURRENT, NEW_CURRENT, LOCK].map(|name| self.at(name));
        [versions, current, new, successor(&record), record, lock]
    }

    /// Excludes other installers, until the lock is dropped.
    pub fn lock(&self) -> Result<Flock<File>> {
        let file = File::create(self.at(LOCK)).with_context(|| self.cannot("make", LOCK))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(lock),
            Err((_, error)) => bail!(
                "another installer is under way on this node ({}: {error})\n\
                 help: this one tries again once that has ended",
                self.folder.join(LOCK).display()
            ),
        }
    }

    /// Installs these programs in a new folder, and returns its name. An existing folder is
    /// complete, since it is renamed last.
    pub fn put(&self, version: &str, programs: &[Program]) -> Result<String> {
        let mut hash = Sha256::new();
        for program in programs {
            hash.update(program.name);
            hash.update(&program.bytes);
        }
        let hash: String =
            hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let name = format!("{version}-{hash}");
        let to = self.at(VERSIONS).join(&name);
        if to.is_dir() {
            return Ok(name);
        }
        let new = self.at(VERSIONS).join(NEW_VERSION);
        let put = || {
            let _ = fs::remove_dir_all(&new);
            fs::create_dir_all(&new)?;
            for program in programs {
                let mut file = File::create_new(new.join(program.name))?;
                file.write_all(&program.bytes)?;
                file.set_permissions(Permissions::from_mode(0o755))?;
                file.sync_all()?;
            }
            fs::rename(&new, &to)
        };
        put().with_context(|| self.cannot("write", &format!("{VERSIONS}/{name}")))?;
        Ok(name)
    }

    /// The current version.
    pub fn current(&self) -> Option<String> {
        let link = fs::read_link(self.at(CURRENT)).ok()?;
        Some(link.file_name()?.to_str()?.to_owned())
    }

    /// Switches to another version atomically.
    pub fn switch(&self, name: &str) -> Result<()> {
        let new = self.at(NEW_CURRENT);
        let switch = || {
            remove_file(&new)?;
            symlink(Path::new(VERSIONS).join(name), &new)?;
            fs::rename(&new, self.at(CURRENT))
        };
        switch().with_context(|| self.cannot("switch", CURRENT))
    }

    /// Removes the versions that are neither current nor running; returns which.
    pub fn prune(&self) -> Result<Vec<String>> {
        let (current, run) = (self.current(), self.run_by_somebody()?);
        self.remove_versions(|name| Some(name) != current.as_deref() && !run.contains(name))
    }

    /// Removes the versions with such names; returns which.
    fn remove_versions(&self, is_to_go: impl Fn(&str) -> bool) -> Result<Vec<String>> {
        let versions = match fs::read_dir(self.at(VERSIONS)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            versions => versions.with_context(|| self.cannot("read", VERSIONS))?,
        };
        let mut gone = Vec::new();
        for version in versions {
            let name = version?.file_name().to_string_lossy().into_owned();
            if is_version(&name) && is_to_go(&name) {
                fs::remove_dir_all(self.at(VERSIONS).join(&name))
                    .with_context(|| self.cannot("remove", &format!("{VERSIONS}/{name}")))?;
                gone.push(name);
            }
        }
        Ok(gone)
    }

    /// The versions of which a process of the node runs a program.
    fn run_by_somebody(&self) -> Result<BTreeSet<String>> {
        let versions = self.folder.join(VERSIONS);
        let processes = fs::read_dir(self.root.at(Path::new("/proc")));
        let processes = processes.context("cannot read the node's processes in /proc")?;
        let programs =
            processes.flatten().filter_map(|it| fs::read_link(it.path().join("exe")).ok());
        let names = programs.filter_map(|program| {
            let within = program.strip_prefix(&versions).ok()?;
            Some(within.iter().next()?.to_str()?.to_owned())
        });
        Ok(names.collect())
    }

    /// Removes our files, and the folder unless it contains others; returns whether it is gone.
    pub fn remove(&self) -> Result<bool> {
        self.remove_versions(|_| true)?;
        let remove = || {
            let [versions, files @ ..] = self.ours();
            remove_empty(&versions)?;
            files.iter().try_for_each(|file| remove_file(file))?;
            remove_empty(&self.at(""))
        };
        remove().with_context(|| self.cannot("remove", ""))
    }

    fn cannot(&self, what: &str, name: &str) -> String {
        format!("cannot {what} {}", self.folder.join(name).display())
    }
}

/// Whether this is the name of a folder created by `put`.
fn is_version(name: &str) -> bool {
    let is_hash = |it: &str| it.len() == 16 && it.chars().all(|one| one.is_ascii_hexdigit());
    name == NEW_VERSION || name.rsplit_once('-').is_some_and(|(_, hash)| is_hash(hash))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn programs(text: &str) -> [Program; 2] {
        ["eigentime", "eigentime-oci"].map(|name| Program { name, bytes: text.into() })
    }

    #[test]
    fn versions_are_switched_and_those_that_run_are_kept() {
        let scratch = Scratch::new("versions");
        let (root, folder) = (scratch.root(), Path::new("/opt/eigentime"));
        let tree = Tree::new(&root, folder);
        fs::create_dir_all(root.at(Path::new("/proc/7"))).unwrap();
        let lock = tree.claim().unwrap();
        assert!(tree.claim().unwrap_err().to_string().contains("another installer"));
        drop(lock);

        let names = ["one", "two", "three"].map(|text| tree.put("0.1.0", &programs(text)).unwrap());
        assert_eq!(tree.put("0.1.0", &programs("one")).unwrap(), names[0]);
        for name in &names {
            tree.switch(name).unwrap();
            assert_eq!(tree.current().as_ref(), Some(name));
        }
        let read = fs::read_to_string(root.at(&tree.program("eigentime-oci"))).unwrap();
        assert_eq!(read, "three");

        let runs = folder.join("versions").join(&names[0]).join("eigentime-oci");
        symlink(runs, root.at(Path::new("/proc/7/exe"))).unwrap();
        assert_eq!(tree.prune().unwrap(), [names[1].clone()]);
        fs::remove_file(root.at(Path::new("/proc/7/exe"))).unwrap();
        assert_eq!(tree.prune().unwrap(), [names[0].clone()]);
        assert!(tree.remove().unwrap());
        assert!(!tree.exists());
        assert!(tree.remove().unwrap());
    }

    #[test]
    fn what_is_not_ours_is_neither_used_nor_removed() {
        let scratch = Scratch::new("foreign");
        let (root, folder) = (scratch.root(), Path::new("/data/tools"));
        let tree = Tree::new(&root, folder);
        // The second is named like ours, but was not created by us.
        for file in ["/data/tools/java", "/data/tools/versions/8-0123456789abcdef/java"] {
            scratch.write(file, "");
            let before = scratch.tree();
            let error = tree.claim().unwrap_err().to_string();
            let name = Path::new(file).iter().nth(3).unwrap().to_str().unwrap();
            for part in ["/data/tools", name, "help:"] {
                assert!(error.contains(part), "{error}");
            }
            assert_eq!(scratch.tree(), before);
            fs::remove_dir_all(root.at(folder)).unwrap();
        }

        fs::create_dir_all(root.at(folder)).unwrap();
        let lock = tree.claim().unwrap();
        let version = tree.put("0.1.0", &programs("one")).unwrap();
        tree.switch(&version).unwrap();
        scratch.write("/data/tools/record.json", "{}");
        scratch.write("/data/tools/versions/notes", "mine");
        drop(lock);
        // Someone else has put it there since.
        assert!(tree.claim().is_ok());
        scratch.write("/data/tools/notes", "mine");
        assert!(tree.claim().unwrap_err().to_string().contains("notes"));
        let _lock = tree.lock().unwrap();
        assert!(!tree.remove().unwrap());
        assert!(!tree.exists());
        let left: Vec<_> =
            scratch.tree().into_iter().map(|(path, _)| root.of_node(&path)).collect();
        let expected = [
            "/data",
            "/data/tools",
            "/data/tools/notes",
            "/data/tools/versions",
            "/data/tools/versions/notes",
        ];
        assert_eq!(left, expected.map(PathBuf::from));
    }

    #[test]
    fn an_empty_folder_is_used_and_a_removal_that_was_cut_off_goes_on() {
        let scratch = Scratch::new("cut-off");
        let (root, folder) = (scratch.root(), Path::new("/data/eigentime"));
        let tree = Tree::new(&root, folder);
        fs::create_dir_all(root.at(folder)).unwrap();
        let _lock = tree.claim().unwrap();
        tree.put("0.1.0", &programs("one")).unwrap();
        fs::remove_dir_all(tree.at(VERSIONS)).unwrap();
        assert!(tree.exists());
        assert!(tree.remove().unwrap());
    }
}
