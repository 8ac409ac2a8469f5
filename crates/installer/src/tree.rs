//! The folder of ours on a node: a folder for each version, a link to the one in use, and a record
//! of what was changed elsewhere.
//!
//! ```text
//! /opt/eigentime/versions/0.1.0-3f9c2a71e5d04b86/{eigentime,eigentime-oci}
//!                current -> versions/0.1.0-3f9c2a71e5d04b86
//!                record.json
//!                lock
//! ```

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nix::fcntl::{Flock, FlockArg};
use sha2::{Digest, Sha256};

/// Where the files of the node are.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Root {
    /// The node's `/` is this folder here.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// Where a file of the node is here.
    pub fn at(&self, file: &Path) -> PathBuf {
        self.0.join(file.strip_prefix("/").unwrap_or(file))
    }

    /// What the node calls a file that is here.
    pub fn of_node(&self, file: &Path) -> PathBuf {
        Path::new("/").join(file.strip_prefix(&self.0).unwrap_or(file))
    }
}

/// A program that is put on the node.
#[derive(Debug)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// What is in its file.
    pub bytes: Vec<u8>,
}

/// The folder of ours.
#[derive(Debug)]
pub struct Tree<'a> {
    root: &'a Root,
    folder: &'a Path,
}

impl<'a> Tree<'a> {
    /// The folder, as the node calls it.
    pub fn new(root: &'a Root, folder: &'a Path) -> Self {
        Self { root, folder }
    }

    /// Where something in it is here.
    pub fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.at(self.folder).join(name)
    }

    /// What the engine calls a program of the version in use.
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.join("current").join(name)
    }

    /// Is anything installed?
    pub fn exists(&self) -> bool {
        self.at("").exists()
    }

    /// Keeps other installers out, until the lock is dropped.
    pub fn lock(&self) -> Result<Flock<File>> {
        fs::create_dir_all(self.at("")).with_context(|| self.cannot("make", ""))?;
        let file = File::create(self.at("lock")).with_context(|| self.cannot("make", "lock"))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(lock),
            Err((_, error)) => bail!(
                "another installer is under way on this node ({}: {error})\n\
                 help: this one tries again once that has ended",
                self.folder.join("lock").display()
            ),
        }
    }

    /// Puts these programs into a folder of their own, and returns its name. A folder that is there
    /// is complete, since it is renamed last.
    pub fn put(&self, version: &str, programs: &[Program]) -> Result<String> {
        let mut hash = Sha256::new();
        for program in programs {
            hash.update(program.name);
            hash.update(&program.bytes);
        }
        let hash: String =
            hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let name = format!("{version}-{hash}");
        let to = self.at("versions").join(&name);
        if to.is_dir() {
            return Ok(name);
        }
        let new = self.at("versions").join(".new");
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
        put().with_context(|| self.cannot("write", &format!("versions/{name}")))?;
        Ok(name)
    }

    /// The version in use.
    pub fn current(&self) -> Option<String> {
        let link = fs::read_link(self.at("current")).ok()?;
        Some(link.file_name()?.to_str()?.to_owned())
    }

    /// Lets another version be in use. At no moment is there none.
    pub fn switch(&self, name: &str) -> Result<()> {
        let new = self.at(".current");
        let switch = || {
            let _ = fs::remove_file(&new);
            symlink(Path::new("versions").join(name), &new)?;
            fs::rename(&new, self.at("current"))
        };
        switch().with_context(|| self.cannot("switch", "current"))
    }

    /// Removes the versions that are neither in use nor run by anybody; returns which.
    pub fn prune(&self) -> Result<Vec<String>> {
        let (current, run) = (self.current(), self.run_by_somebody()?);
        let mut gone = Vec::new();
        let versions =
            fs::read_dir(self.at("versions")).with_context(|| self.cannot("read", "versions"))?;
        for version in versions {
            let name = version?.file_name().to_string_lossy().into_owned();
            if Some(&name) != current.as_ref() && !run.contains(&name) {
                fs::remove_dir_all(self.at("versions").join(&name))
                    .with_context(|| self.cannot("remove", &name))?;
                gone.push(name);
            }
        }
        Ok(gone)
    }

    /// The versions of which a process of the node runs a program.
    fn run_by_somebody(&self) -> Result<BTreeSet<String>> {
        let versions = self.folder.join("versions");
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

    /// Removes the folder.
    pub fn remove(&self) -> Result<()> {
        match fs::remove_dir_all(self.at("")) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| self.cannot("remove", ""))
            }
            _ => Ok(()),
        }
    }

    fn cannot(&self, what: &str, name: &str) -> String {
        format!("cannot {what} {}", self.folder.join(name).display())
    }
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
        let lock = tree.lock().unwrap();
        assert!(tree.lock().unwrap_err().to_string().contains("another installer"));
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
        tree.remove().unwrap();
        assert!(!tree.exists());
        tree.remove().unwrap();
    }
}
